"""Start real `manage.py runworker` processes, watch them by their log and by /proc, and stop them for certain."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from . import processes
from .waiting import until

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTED_CODES = (0, 3)
# A pytest that is killed would leave its workers at work on a database that the next run may be given.
DYING_WITH_PYTEST = """
import ctypes, os, signal, sys
PR_SET_PDEATHSIG = 1
ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


class RunningWorker:
    """One worker: a session of its own, a log of its own."""

    def __init__(self, arguments: list[str], env: dict[str, str], log: Path, mark: str, *, root: Path = ROOT) -> None:
        """Start it, from another checkout by `root`."""
        self.arguments, self.env, self._log, self.mark = arguments, env, log, mark
        self.expected_to_end = self.may_show_tracebacks = False
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", DYING_WITH_PYTEST, "manage.py", "runworker", *arguments],
                cwd=root,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The supervisor."""
        return self.process.pid

    @property
    def log(self) -> str:
        """What it has written so far."""
        return self._log.read_text(errors="replace")

    @property
    def worker_id(self) -> str:
        """The id of this boot, from the log."""
        found = re.search(r"worker started worker=(\S+)", self.log)
        assert found, self.log
        return found[1]

    @property
    def zygote(self) -> int:
        """The process that forks the children."""
        return until(lambda: processes.children(self.pid)[:1], what="the zygote")[0]

    @property
    def children(self) -> list[int]:
        """The processes that run handlers, one at least."""
        return until(
            lambda: [pid for pid in processes.children(self.zygote) if processes.is_alive(pid)], what="a child"
        )

    @property
    def code(self) -> int | None:
        """The exit code, None while it runs."""
        return self.process.poll()

    def tree(self) -> list[int]:
        """Return every living process that was started below this worker, however it got away."""
        return processes.marked(self.mark)

    def says(self, text: str, *, within: float = 15, times: int = 1) -> None:
        """Wait until the log holds the text so many times."""
        until(lambda: self.log.count(text) >= times, within=within, what=lambda: f"{text!r} in the log:\n{self.log}")

    def ready(self) -> "RunningWorker":
        """Wait until it serves; returns itself."""
        until(
            lambda: "worker started worker=" in self.log or self.code is not None,
            within=30,
            what=lambda: f"the worker's start:\n{self.log}",
        )
        assert self.code is None, self.log
        return self

    def send(self, number: int) -> None:
        """Signal the supervisor only."""
        os.kill(self.pid, number)

    def signal_tree(self, number: int) -> None:
        """Signal every process below, and the supervisor: as when a machine stops or a container is frozen."""
        for pid in self.tree():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def kill_all(self) -> None:
        """End it as a power cut would."""
        self.expected_to_end = True
        self.signal_tree(signal.SIGKILL)
        self.process.wait(10)

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Ask it to stop."""
        self.send(number)

    def ends(self, *, within: float = 20) -> int:
        """Wait for its end; returns the exit code."""
        self.expected_to_end = True
        until(lambda: self.code is not None, within=within, what=lambda: f"the worker's end:\n{self.log[-4000:]}")
        assert self.code is not None
        return self.code

    def clear_away(self) -> None:
        """Leave nothing of it, whatever state it is in."""
        for _ in range(3):
            for pid in self.tree():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(10)
