"""The jobs that this worker holds: one entry a job from its claim to its verdict, shared by the threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import Any

from jobqueue.handlers import Policy
from jobqueue.managers import ClaimedJob, CostLine
from jobqueue.rates import Rate

GIVEN_UP_SECONDS = 2 * 3600  # a lease is an hour at most, and a reaper waits for one more after an outage


def boottime() -> float:
    """Return seconds that go on while the machine sleeps or the process is stopped: a lease does too."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Held:
    """One claimed job. `started` and `deadline` are monotonic seconds, `lease_end` is boot time.

    Defaults stand on the class: most jobs are short and never set the rest, and tens of thousands are made a second.
    """

    own: bool = False  # for the worker's own slot
    policy: Policy | None = None
    child: str | None = None
    started: float | None = None
    deadline: float | None = None
    asked: str | None = None  # why it is being stopped
    remind_at: float | None = None  # monotonic: when it is signalled once more, having been asked
    kill_at: float | None = None  # monotonic: when its child is killed, having been asked
    killed_by: str = ""  # the person who asked for it
    limit_hit: bool = False
    ended: bool = False
    lost: bool = False
    killed: bool = False  # its child cannot tell its end: another one sends its signal
    waits: str | None = None  # the child that waits for the verdict
    announcing: bool = False  # ended, and receivers of a signal are being called
    peak_memory: int | None = None
    costs: tuple[CostLine, ...] = ()  # one line a component and unit; replaced as a whole: the heartbeat reads it
    costs_written: tuple[CostLine, ...] = ()  # those that stand in the job's row
    # Where the price list has a rate for its type (pricing.py): that rate, and what has been measured so far.
    rate: Rate | None = None
    slots: int = 1  # of its child
    cpu_before: float | None = None  # seconds that its child had used when it began
    cpu_used: float | None = None  # seconds since then

    def __init__(self, job: ClaimedJob, lease_end: float) -> None:
        self.job, self.lease_end = job, lease_end
        self.fence: tuple[int, int] = job[:2]  # (id, lease_epoch)

    def run_seconds(self) -> float:
        """Return how long the handler has been running, 0 before."""
        return 0.0 if self.started is None else max(0.0, time.monotonic() - self.started)


class HeldJobs:
    """Every job held, by id. Claim adds, the verdict removes; the heartbeat renews what is here and nothing else.

    A run that began and lost its lease is given up: its row may show this worker until a reaper comes, who writes the
    attempt down. Taken for a claim whose answer was lost, it would be released as if it had never begun.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: dict[int, Held] = {}
        self._given_up: dict[int, float] = {}  # id: the boot time until when it is left to the reapers
        self._progress: dict[tuple[int, int], Any] = {}

    def __len__(self) -> int:
        return len(self._jobs)

    def __contains__(self, job_id: int) -> bool:
        return job_id in self._jobs

    def add(self, held: Iterable[Held]) -> None:
        """Hold jobs, from the moment the claim's answer is read."""
        with self._lock:
            self._jobs.update((item.job.id, item) for item in held)

    def get(self, job_id: int, lease_epoch: int) -> Held | None:
        """Return the entry of one run, None when it is not held any more."""
        held = self._jobs.get(job_id)
        return held if held is not None and held.job.lease_epoch == lease_epoch else None

    def remove(self, *held: Held) -> None:
        """Let go of jobs."""
        with self._lock:
            for item in held:
                if self._jobs.get(item.job.id) is item:
                    del self._jobs[item.job.id]
                    if self._progress:
                        self._progress.pop(item.fence, None)

    def all(self) -> list[Held]:
        """Return the entries, oldest first."""
        with self._lock:
            return list(self._jobs.values())

    def give_up(self, held: Held) -> None:
        """Let go of a job whose lease is lost, and leave it to the reapers if its handler had begun."""
        self.remove(held)
        if held.started is None:
            return
        now = boottime()
        with self._lock:
            self._given_up = {job_id: until for job_id, until in self._given_up.items() if until > now}
            self._given_up[held.job.id] = now + GIVEN_UP_SECONDS

    def not_stray(self) -> list[int]:
        """Return the ids of the jobs that are no strays if the database says they are this worker's."""
        with self._lock:
            return [*self._jobs, *self._given_up]

    def by_queue(self) -> dict[str, int]:
        """Return how many are held of each queue."""
        counts: dict[str, int] = {}
        for held in self.all():
            counts[held.job.queue] = counts.get(held.job.queue, 0) + 1
        return counts

    def note_progress(self, fence: tuple[int, int], value: Any) -> None:
        """Keep a handler's progress until the next heartbeat; the last one wins."""
        with self._lock:
            self._progress[fence] = value

    def take_progress(self) -> dict[tuple[int, int], Any]:
        """Return and forget the progress noted since the last call."""
        with self._lock:
            noted, self._progress = self._progress, {}
        return noted
