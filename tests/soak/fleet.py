"""The workers of a soak: real trees, started again when they end, as a service manager does."""

import os
import time
from collections import Counter
from pathlib import Path

from tests.worker import processes
from tests.worker.conftest import FAST
from tests.worker.launching import DOCUMENTED_CODES, RunningWorker
from tests.worker.waiting import until

GONE_WITHIN_SECONDS = 10
PROCESSES = 2


class Post:
    """One place in the fleet, and the worker that holds it at the moment."""

    def __init__(self, fleet: "Fleet", number: int) -> None:
        self.fleet, self.number = fleet, number
        self.past: list[RunningWorker] = []
        self.worker = self._start()

    def _start(self) -> RunningWorker:
        boot = len(self.past) + 1
        mark = f"PROBE_RUN=soak-{os.getpid()}-{self.number}-{boot}"
        environment = self.fleet.environment | {"PROBE_RUN": mark.partition("=")[2]}
        log = self.fleet.folder / f"worker-{self.number}-{boot}.log"
        worker = RunningWorker(["--processes", str(PROCESSES)], environment, log, mark)
        self.started_at = time.monotonic()
        return worker

    @property
    def age_seconds(self) -> float:
        """How long the worker has been there."""
        return time.monotonic() - self.started_at

    @property
    def serves(self) -> bool:
        """Whether the worker has started and lives."""
        return self.worker.code is None and "worker started worker=" in self.worker.log

    def tend(self) -> None:
        """Start another worker where this one has ended, once nothing of it is left."""
        if self.worker.code is None:
            return
        old = self.worker
        if not old.expected_to_end and old.code not in DOCUMENTED_CODES:
            self.fleet.violations.append(
                f"U4: worker {self.number} ended by itself, code {old.code}: {old.log[-2000:]}"
            )
        until(lambda: not old.tree(), within=GONE_WITHIN_SECONDS, what=lambda: f"nothing left of it: {old.tree()}")
        self.past.append(old)
        self.fleet.ends[str(old.code)] += 1
        self.worker = self._start()


class Fleet:
    """A few workers on the same database."""

    def __init__(self, folder: Path, *, size: int, dsn: str) -> None:
        self.folder = folder
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        self.environment = (
            os.environ
            | FAST
            | {
                "PYTHONUNBUFFERED": "1",
                "PROBE_DSN": dsn,
                "TMPDIR": str(self.temporary),
            }
        )
        self.violations: list[str] = []
        self.ends: Counter[str] = Counter()
        self.posts = [Post(self, number) for number in range(1, size + 1)]

    @property
    def workers(self) -> list[RunningWorker]:
        """All there ever were."""
        return [worker for post in self.posts for worker in [*post.past, post.worker]]

    def tend(self) -> None:
        """Start workers again that have ended."""
        for post in self.posts:
            try:
                post.tend()
            except AssertionError as error:
                self.violations.append(f"U5: {error}")
                post.worker.clear_away()
                post.tend()

    def all_serve(self) -> bool:
        """Tell whether every post has a worker that has started."""
        self.tend()
        return all(post.serves for post in self.posts)

    def stop(self) -> None:
        """Stop all softly; nothing of them may be left."""
        for post in self.posts:
            if post.worker.code is None:
                post.worker.stop()
        for post in self.posts:
            code = post.worker.ends(within=30)
            if code not in DOCUMENTED_CODES:
                self.violations.append(f"U4: worker {post.number} ended with {code} when it was stopped")
        until(
            lambda: not any(worker.tree() for worker in self.workers),
            within=GONE_WITHIN_SECONDS,
            what=lambda: f"no orphan: {[processes.command_line(pid) for w in self.workers for pid in w.tree()]}",
        )

    def clear_away(self) -> None:
        """Leave nothing, whatever has happened."""
        for worker in self.workers:
            worker.clear_away()
