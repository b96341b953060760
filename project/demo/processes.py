"""The demo's processes: started in sessions of their own, their output in files, stopped together."""

import ctypes
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

TERMINATE_SECONDS = 15
PR_SET_PDEATHSIG = 1


class Processes:
    """What the demo has started, by name."""

    def __init__(self, logs: Path) -> None:
        self.logs = logs
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        logs.mkdir(parents=True, exist_ok=True)

    def start(self, name: str, *arguments: str, **environment: str) -> None:
        """Start `python ARGUMENTS` with more environment, logging to NAME.log."""
        with self.log_of(name).open("wb") as log:
            self._running[name] = subprocess.Popen(
                [sys.executable, *arguments],
                env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Ctrl-C is for the demo alone: a worker takes a second signal for "at once".
                start_new_session=True,
                preexec_fn=_end_with_parent,  # noqa: PLW1509  (no thread has been started yet)
            )

    def log_of(self, name: str) -> Path:
        """Return the file that a process writes to."""
        return self.logs / f"{name}.log"

    def ended(self) -> list[str]:
        """Return the names of those that ended by themselves, each with its exit code and the end of its log."""
        return [
            f"{name} ended with code {process.returncode}:\n{self._tail(name)}"
            for name, process in self._running.items()
            if process.poll() is not None
        ]

    def exit_code(self, name: str) -> int | None:
        """Return the exit code of a process that ended by itself, None while it runs and where there is none."""
        process = self._running.get(name)
        return None if process is None else process.poll()

    def stop(self, *names: str) -> None:
        """End these processes, or all: ask first, and kill what has not ended after TERMINATE_SECONDS."""
        ending = {name: self._running.pop(name) for name in names or list(self._running) if name in self._running}
        for process in ending.values():
            process.terminate()
        for process in ending.values():
            _wait_or_kill(process)

    def _tail(self, name: str) -> str:
        lines: Sequence[str] = self.log_of(name).read_text(errors="replace").splitlines()
        return "\n".join(lines[-15:])


def _wait_or_kill(process: "subprocess.Popen[bytes]") -> None:
    try:
        process.wait(TERMINATE_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _end_with_parent() -> None:
    """Have the kernel end this process when the demo is killed without a chance to clean up (Linux only)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def free_port(first: int, last: int | None = None) -> int:
    """Return the first port of localhost from there on that nobody listens on; 0 stands for any."""
    for port in range(first, (last or first + 99) + 1):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise SystemExit(f"no free port from {first} on")
