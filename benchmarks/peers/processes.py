"""The processes of a peer: the driver that answers, and the workers; all of them gone at the end of their block."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import IO, Any, Self

from benchmarks.worker import ROOT

from .errors import PeerFailed

STOP_SECONDS = 5.0
CALL_SECONDS = 180.0
# Where the system has it: a worker is told to stop even when this process is killed and can tell it nothing.
LEASH = ["setpriv", "--pdeathsig", "TERM", "--"] if shutil.which("setpriv") else []
LOG_CHARACTERS, LOG_LINES = 600, 2  # of what they wrote last, for an error


class DriverProcess:
    """A driver in the peer's own interpreter; call() asks it one thing and waits for the answer."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._log: IO[str] = tempfile.TemporaryFile("w+")  # noqa: SIM115  (closed by __exit__)
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _end([self._process])
        self._process.communicate()
        self._log.close()

    def call(self, verb: str, *, within: float = CALL_SECONDS, **arguments: Any) -> Any:
        """Return the value of one verb. Raises PeerFailed with the driver's error, or when it takes too long."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps({"verb": verb, **arguments}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._ended(verb) from None
        # One answer a request, so that nothing is left in the buffer that select() would not see.
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            if not selector.select(within):
                raise PeerFailed(f"{verb} was not done within {within:.0f} s")
        line = self._process.stdout.readline()
        if not line:
            raise self._ended(verb)
        answer = json.loads(line)
        if "error" in answer:
            raise PeerFailed(f"{verb}: {answer['error']}")
        return answer["value"]

    def _ended(self, verb: str) -> PeerFailed:
        return PeerFailed(f"{verb}: the driver ended with code {self._process.wait()}: {_last(self._log)}")


class Workers:
    """The workers of a run."""

    def __init__(self, processes: list[subprocess.Popen[str]], log: IO[str]) -> None:
        self.processes = processes
        self._log = log

    def check(self) -> None:
        """Raise PeerFailed if one has ended."""
        for process in self.processes:
            if process.poll() is not None:
                raise PeerFailed(f"a worker ended with code {process.returncode}: {_last(self._log)}")

    def log(self) -> str:
        """Return the last lines that they wrote."""
        return _last(self._log)


@contextmanager
def workers(commands: Sequence[Sequence[str]], environment: Mapping[str, str]) -> Iterator[Workers]:
    """Start a process a command; at the end of the block they are told to stop, and killed if they do not."""
    processes: list[subprocess.Popen[str]] = []
    with tempfile.TemporaryFile("w+") as log:
        try:
            # extend() keeps those that did start when a later one does not.
            processes.extend(_worker(command, environment, log) for command in commands)
            yield Workers(processes, log)
        finally:
            _end(processes)


def _worker(command: Sequence[str], environment: Mapping[str, str], log: IO[str]) -> subprocess.Popen[str]:
    if shutil.which(command[0]) is None:
        raise PeerFailed(f"its worker did not start: there is no {command[0]}")
    return subprocess.Popen(
        [*LEASH, *command],
        cwd=ROOT,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        text=True,
        start_new_session=True,
    )


def _end(processes: Sequence[subprocess.Popen[str]]) -> None:
    """Stop process groups, so that no child of a peer that hangs outlives the run."""
    for process in processes:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
    give_up = time.monotonic() + STOP_SECONDS
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.1, give_up - time.monotonic()))
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _last(log: IO[str]) -> str:
    log.flush()
    size = log.seek(0, os.SEEK_END)
    # The processes write at an offset that they share with this end, so it is put back where they left it.
    text = os.pread(log.fileno(), LOG_CHARACTERS, max(0, size - LOG_CHARACTERS))
    lines = [line.strip() for line in text.decode(errors="replace").splitlines() if line.strip()]
    return " ".join(lines[-LOG_LINES:])
