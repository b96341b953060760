"""How tasks are named in the queue: by their path, which a payload must not choose anew."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any, Final

from jobqueue.exceptions import InvalidName
from jobqueue.internal import INTERNAL_PREFIX
from jobqueue.payloads import MAX_NAME_BYTES, check_name

_DIGEST_CHARS: Final = 8
_UNUSUAL: Final = re.compile(r"[^A-Za-z0-9_.-]")


def type_of(path: str) -> str:
    """Return the job type of a task: its path where that may be a name, else the end of it and a digest.

    The end, since that is what tells tasks apart. What is below ``jobqueue`` is shortened too: such types are internal.
    """
    try:
        if not path.startswith(INTERNAL_PREFIX):
            return check_name("job type", path)
    except InvalidName:
        pass
    digest = hashlib.blake2b(path.encode(errors="backslashreplace")).hexdigest()[:_DIGEST_CHARS]
    room = MAX_NAME_BYTES - _DIGEST_CHARS - 1 - len("task.")
    tail = _UNUSUAL.sub("_", path)[-room:].lstrip(".-")
    return f"task.{tail}-{digest}"


def path_in(job_type: str, payload: Mapping[str, Any]) -> str | None:
    """Return the path of a stored task: the job type itself, unless that had to be shortened.

    None where the payload names another task: it was edited, and must not choose what code is imported and run.
    """
    path = str(payload.get("path", job_type))
    return path if type_of(path) == job_type else None
