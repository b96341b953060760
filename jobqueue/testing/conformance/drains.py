"""How the tasks of a run are worked off: by a command, in processes of its own, or by a function of this process."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from django.utils.module_loading import import_string

#: How long a worker may take to end after SIGTERM, before it is killed.
PATIENCE: Final = 20.0


class Worker:
    """One run of the worker's command, as the leader of a process group."""

    def __init__(self, command: str, log: Path) -> None:
        self._command = arguments(command)
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def start(self) -> None:
        """Start it; a second time after it has ended."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    @property
    def has_ended(self) -> bool:
        """Tell whether it has ended by itself, as a command for one batch does."""
        return self._process is None or self._process.poll() is not None

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process that was started, as a supervisor of services does."""
        if self._process is not None and not self.has_ended:
            self._process.send_signal(number)

    def kill(self) -> None:
        """Kill the process and all of its group at once: nothing in it has time for a word."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def stop(self) -> None:
        """End it: politely, then not."""
        self.send(signal.SIGTERM)
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(PATIENCE)
        self.kill()

    def last_words(self) -> str:
        """Return the end of what its runs have written."""
        return self._log.read_text(errors="replace")[-2000:] if self._log.exists() else ""


def arguments(command: str) -> list[str]:
    """Return a command as arguments; "manage.py …" is this Python's `django …`, under the settings of the run."""
    words = shlex.split(command)
    return [sys.executable, "-m", "django", *words[1:]] if words[0].endswith("manage.py") else words


def function_of(drain: str) -> Callable[[], object] | None:
    """Return the function that "python:dotted.path" names, and None where a command is meant."""
    path = drain.removeprefix("python:")
    if path == drain:
        return None
    found: Callable[[], object] = import_string(path)
    return found
