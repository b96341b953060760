"""What happened, told by every process in one file: which task ran, which signal was sent."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Final

#: Names the file; workers inherit it.
VARIABLE: Final = "JOBQUEUE_CONFORMANCE_TRACE"


def write(kind: str, key: str, **told: Any) -> None:
    """Append a line; one write, so that lines of several processes do not mix."""
    path = os.environ.get(VARIABLE)
    if path:
        line = json.dumps({"kind": kind, "key": key, "pid": os.getpid(), **told}) + "\n"
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(handle, line.encode())
        finally:
            os.close(handle)


def read(kind: str, key: str | None = None) -> list[dict[str, Any]]:
    """Return the lines of a kind, oldest first, or those of them that tell of a task's id or mark."""
    path = Path(os.environ[VARIABLE])
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [line for line in lines if line["kind"] == kind and key in (None, line["key"])]
