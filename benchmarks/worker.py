"""A real worker process, `manage.py runworker`, for as long as a measurement needs it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from .database import Connection

ROOT = Path(__file__).resolve().parent.parent
NAME = "benchmarked"
START_SECONDS = 60.0


class WorkerFailed(RuntimeError):
    """The worker ended with an error, or did not do in time what it was started for; the text ends with its log."""


class Worker:
    """One `runworker` with two children and default settings; as a context manager it is gone at the end."""

    def __init__(self, *arguments: str, tally: Path | None = None, settings: Mapping[str, str] | None = None) -> None:
        self._arguments = ["--processes", "2", "--name", NAME, *arguments]
        self._environment = environment(settings)
        if tally is not None:
            self._environment["BENCHMARKS_TALLY"] = str(tally)
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115  (closed by __exit__)
        self.process: subprocess.Popen[Any]

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(
            [sys.executable, "manage.py", "runworker", *self._arguments],
            cwd=ROOT,
            env=self._environment,
            stdout=self._log,
            stderr=self._log,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            # Its second signal cuts off what still runs: handlers that pause are not waited for.
            for _ in range(2):
                self.process.send_signal(signal.SIGTERM)
                time.sleep(0.05)
            try:
                self.process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self._log.close()

    def wait(self, seconds: float) -> None:
        """Wait until the worker ends by itself, in good order. Raises WorkerFailed."""
        try:
            code = self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            raise self._failure(f"did not end within {seconds:.0f} s") from None
        if code != 0:
            raise self._failure(f"ended with code {code}")

    def wait_until(self, connection: Connection, condition: str, seconds: float = START_SECONDS) -> None:
        """Wait until a query returns true. Raises WorkerFailed."""
        give_up = time.monotonic() + seconds
        while True:
            row = connection.execute(condition).fetchone()
            if row and row[0]:
                return
            if self.process.poll() is not None:
                raise self._failure(f"ended with code {self.process.returncode} before this held: {condition}")
            if time.monotonic() > give_up:
                raise self._failure(f"did not bring this about within {seconds:.0f} s: {condition}")
            time.sleep(0.02)

    def wait_until_idle(self, connection: Connection, seconds: float = START_SECONDS) -> None:
        """Wait until the worker sleeps and wants to be woken."""
        self.wait_until(
            connection,
            f"SELECT EXISTS (SELECT 1 FROM jobqueue_worker WHERE name = '{NAME}' AND idle_since IS NOT NULL)"
            " AND NOT EXISTS (SELECT 1 FROM jobqueue_job WHERE status IN (1, 2))",
            seconds,
        )

    def _failure(self, what: str) -> WorkerFailed:
        self._log.seek(0)
        return WorkerFailed(f"the worker {what}:\n{self._log.read()[-4000:]}")


def environment(settings: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of the processes: the product's defaults but for `settings`, whatever ours says."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("JOBQUEUE_") and name != "DEBUG"}
    return {**kept, "DJANGO_SETTINGS_MODULE": "benchmarks.settings", "PYTHONPATH": str(ROOT), **(settings or {})}
