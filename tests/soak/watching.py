"""What is measured while a soak runs: memory, open files and connections of each worker."""

import contextlib
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import psycopg

from tests.faults.servers import PrivateServer
from tests.worker import processes

from .fleet import PROCESSES, Fleet

LOOK_EVERY_SECONDS = 2.0
WARM_SECONDS = 60
WORTH_A_VERDICT_SECONDS = 120
MOST_GROWTH_MB = 10
MOST_FILES = 8  # a reconnect under way, a child that is being replaced
OWN_CONNECTIONS = 5
PATIENCE = 10  # looks in a row: a backend stays for a while whose client was killed or gave up connecting to it
CONNECTIONS = """
SELECT regexp_replace(application_name, '^jobqueue \\w+ ', ''), application_name LIKE 'jobqueue child%', count(*)
  FROM pg_stat_activity WHERE application_name LIKE 'jobqueue %' GROUP BY 1, 2
"""


@dataclass(frozen=True)
class Sample:
    """One look at one supervisor."""

    age: float
    mb: float
    files: int


class Watch:
    """Looks at the fleet every other second."""

    def __init__(self, fleet: Fleet, server: PrivateServer) -> None:
        self.fleet, self.server = fleet, server
        self.samples: dict[str, list[Sample]] = defaultdict(list)
        self.most_connections = 0
        self._too_many: Counter[str] = Counter()
        self._next = 0.0

    def step(self) -> None:
        """Look, when it is time."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + LOOK_EVERY_SECONDS
        for post in self.fleet.posts:
            pid = post.worker.pid
            if post.serves and (mb := processes.resident_mb(pid)):
                name = f"worker {post.number}, boot {len(post.past) + 1}"
                self.samples[name].append(Sample(post.age_seconds, mb, open_files(pid)))
        with contextlib.suppress(psycopg.OperationalError):
            self._count_connections()

    def _count_connections(self) -> None:
        rows = self.server.execute(CONNECTIONS)
        self.most_connections = max(self.most_connections, sum(count for _, _, count in rows))
        over = {
            f"{'children of ' if of_children else ''}{worker_id}": count
            for worker_id, of_children, count in rows
            if count > (PROCESSES if of_children else OWN_CONNECTIONS)
        }
        self._too_many = Counter({name: self._too_many[name] + 1 for name in over})
        for name, times in self._too_many.items():
            if times == PATIENCE:
                self.fleet.violations.append(f"connections: {over[name]} of {name}")

    def verdicts(self) -> list[str]:
        """Return a line for each supervisor that lived long enough, and note what grew too much."""
        told = []
        for name, samples in self.samples.items():
            warm = [sample for sample in samples if WARM_SECONDS <= sample.age < 2 * WARM_SECONDS]
            if not warm or samples[-1].age < WORTH_A_VERDICT_SECONDS:
                continue
            growth = median(sample.mb for sample in samples[-10:]) - median(sample.mb for sample in warm)
            files = int(median(sample.files for sample in samples[-10:]) - median(sample.files for sample in warm))
            now = samples[-1]
            told.append(f"{name}: {now.age:.0f} s, {now.mb:.1f} MB, grown by {growth:+.1f} MB and {files:+d} files")
            if growth >= MOST_GROWTH_MB:
                self.fleet.violations.append(f"memory: {told[-1]}")
            if files > MOST_FILES:
                self.fleet.violations.append(f"open files: {told[-1]}")
        return told


def open_files(pid: int) -> int:
    """Return how many descriptors a process has open."""
    with contextlib.suppress(OSError):
        return len(list(Path(f"/proc/{pid}/fd").iterdir()))
    return 0


def ours_on_disk() -> set[str]:
    """Return the names in the folders for temporary files that may be the product's."""
    found: set[str] = set()
    for folder in (Path("/tmp"), Path("/dev/shm"), Path("/run")):
        with contextlib.suppress(OSError):
            found.update(str(path) for path in folder.iterdir() if path.name.startswith(("jobqueue", "probe")))
    # Tests that run at the same time have folders whose names go on with a dash, and servers of theirs in them.
    return {name for name in found if "/jobqueue-" not in name}
