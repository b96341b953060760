"""Stop what must not run on: past its deadline, over its memory, cancelled, cut off by a stop, or with its lease lost.

A handler is asked first, by an exception inside it, and its child is killed KILL_GRACE later. A job over its memory is
killed unasked: it would allocate on while it answers.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable

from jobqueue.children.processes import descendants_of, proportional_bytes, resident_bytes
from jobqueue.children.protocol import CANCEL, DEADLINE, LEASE_LOST, STOP_SIGNAL
from jobqueue.conf import JobQueueSettings

from . import pricing
from .endings import MEMORY
from .holding import Held, HeldJobs, boottime
from .pool import RECEIVERS_SECONDS, Child, Pool

logger = logging.getLogger("jobqueue.worker")

LEASE_CHECK_SECONDS = 0.25
LAST_MOMENT_SECONDS = 0.1
OBEY_SECONDS, LINGERING_SECONDS = 2.0, 10.0
LIMITED_SAMPLE_SECONDS, SAMPLE_SECONDS = 0.05, 1.0


class Stops:
    """Watches the running jobs of a pool."""

    def __init__(self, pool: Pool, held: HeldJobs, settings: JobQueueSettings) -> None:
        self._pool, self._held, self._settings = pool, held, settings
        self._leases_at = self._limited_at = self._sizes_at = 0.0
        self.hears_begin = False  # children tell when a handler begins: the receivers of job_started come before it
        self.put_back: Callable[[Iterable[Held]], None] = lambda _: None

    def next_at(self, now: float) -> float | None:
        """Return when check() should be called at the latest."""
        times = [self._leases_at] if len(self._held) else []
        for child in self._pool.children.values():
            for held in child.running():
                due = held.deadline if held.asked is None or held.ended else held.remind_at or held.kill_at
                if due is not None:
                    times.append(due)
                if child.alone is not None or held.rate is not None:
                    times.append(self._limited_at)
        return max(now, min(times)) if times else None

    def check(self, now: float) -> None:
        """Look at every running job: deadline, grace, memory; and at every lease."""
        for child in list(self._pool.children.values()):
            self._check_killed(child, now)
            self._check_notice(child, now)
            for held in child.running():
                self._check_time(child, held, now)
        if now >= self._limited_at:
            self._limited_at = now + LIMITED_SAMPLE_SECONDS
            self._check_memory(now)
        if now >= self._leases_at:
            self._leases_at = now + LEASE_CHECK_SECONDS
            self._check_leases()

    def shift(self, seconds: float) -> None:
        """Move the deadlines of running jobs: the supervisor itself, and so its children, stood still for a while."""
        for child in self._pool.children.values():
            if child.telling_since is not None:
                child.telling_since += seconds
            for held in child.running():
                if held.deadline is not None:
                    held.deadline += seconds

    def began(self, held: Held, now: float, *, first: bool = True) -> None:
        """Set the deadline of a job whose handler has just started, or is about to once receivers have been called."""
        duration = held.policy.limits.duration if held.policy and not (self.hears_begin and first) else None
        held.deadline = now + (duration or self._settings.DEADLINE_SECONDS)
        if self._settings.RATES:
            pricing.begin(held, self._pool.children.get(held.child or ""))

    def ask(self, held: Held, reason: str) -> None:
        """Ask a running handler to stop; the first reason stays."""
        child = self._pool.children.get(held.child or "")
        if child is None:
            return
        kill_at = time.monotonic() + self._settings.KILL_GRACE
        if reason == LEASE_LOST:  # whatever the grace: at the end of the lease another worker may begin
            lease_left = max(0.0, held.lease_end - boottime() - LAST_MOMENT_SECONDS)
            kill_at = min(kill_at, time.monotonic() + lease_left)
        if held.asked is not None:
            if held.kill_at is not None:
                held.kill_at = min(held.kill_at, kill_at)
            return
        held.asked, held.kill_at = reason, kill_at
        held.remind_at = (time.monotonic() + kill_at) / 2
        child.tell("stop", held.fence, reason)
        self._pool.launcher.signal(child.key, STOP_SIGNAL)

    def lose(self, held: Held) -> None:
        """Stop a job whose lease is lost; nothing of it is written."""
        if held.lost or held.ended:
            return
        held.lost = True
        logger.warning("lost lease job_id=%s lease_epoch=%s started=%s", *held.fence, held.started is not None)
        self._take_back(held)
        self.ask(held, LEASE_LOST)

    def cancel(self, held: Held) -> bool:
        """Stop a job that somebody asked to cancel. Returns False when it never began: it can be settled at once.

        What could not be taken back has begun, though the end of the one before it may not have been read yet.
        """
        self._take_back(held)
        self.ask(held, CANCEL)
        return held.started is not None or held.child is not None

    def _take_back(self, held: Held) -> None:
        """Take a job out of its child's inbox, if it is still there: it would be begun later."""
        child = self._pool.children.get(held.child or "")
        if child is not None and held.started is None:
            self.put_back(child.recall())

    def _check_time(self, child: Child, held: Held, now: float) -> None:
        if held.ended:
            self._check_receivers(child, held, now)
        elif held.asked is not None:
            if held.kill_at is not None and now >= held.kill_at:
                held.remind_at = held.kill_at = None
                self.kill(child)
            elif held.remind_at is not None and now >= held.remind_at:
                # Python may have swallowed the first order, see Child._on_unraisable, and one that came before the
                # handler began, with receivers still being called, was not kept.
                held.remind_at = None
                child.tell("stop", held.fence, held.asked)
                self._pool.launcher.signal(child.key, STOP_SIGNAL)
        elif held.deadline is not None and now >= held.deadline:
            held.limit_hit = True
            self.ask(held, DEADLINE)

    def _check_receivers(self, child: Child, held: Held, now: float) -> None:
        """Bound the time that receivers of a signal take after an attempt's end: they hold its slot."""
        if not held.announcing:
            held.announcing, held.deadline = True, now + self._settings.DEADLINE_SECONDS
        elif held.deadline is not None and now >= held.deadline:
            held.deadline = None
            logger.warning("receivers took too long, child killed job_id=%s", held.job.id)
            self.kill(child)

    def _check_notice(self, child: Child, now: float) -> None:
        """Bound the time that receivers take for the signal of a killed job: it costs their child, and no job."""
        if child.own or not child.notices or child.pid is None or len(child.queue) >= child.slots:
            child.telling_since = None  # there is none, its slot is not free yet, or OwnSlot looks after it
        elif child.telling_since is None:
            child.telling_since = now
        elif now - child.telling_since > RECEIVERS_SECONDS and child.killed_at is None:
            logger.warning("receivers for a killed job took over %g s, their child is killed", RECEIVERS_SECONDS)
            self.kill(child)

    def kill(self, child: Child) -> None:
        """Kill a child, with all that its handlers started; what it runs ends with it."""
        pricing.sample(child, child.running())  # the last look: nobody tells what a killed run has used
        child.killed_at = time.monotonic()
        self._pool.launcher.kill(child.key)

    def _check_killed(self, child: Child, now: float) -> None:
        """Kill the zygote when it does not obey: nobody else would stop what must not run on.

        One that has obeyed can do no more, nor could its end: a child that the kernel does not let go (a file server
        that does not answer, many gigabytes to free) runs no code any more, and its slot is given to another.
        """
        since = 0.0 if child.killed_at is None else now - child.killed_at
        if not child.obeyed and since > OBEY_SECONDS:
            child.killed_at = None
            self._pool.launcher.kill_zygote()
        elif child.obeyed and since > LINGERING_SECONDS and not child.retiring:
            logger.error("child killed %.0f s ago is not gone, its slot goes to another pid=%s", since, child.pid)
            self.put_back(self._pool.common.retire(child))

    def _check_leases(self) -> None:
        latest = boottime() + self._settings.lease_margin.total_seconds()
        for held in self._held.all():
            if not held.ended and held.lease_end < latest:
                self.lose(held)

    def _check_memory(self, now: float) -> None:
        sample_all = now >= self._sizes_at
        if sample_all:
            self._sizes_at = now + SAMPLE_SECONDS
        for child in self._pool.children.values():
            running = child.running()
            pricing.sample(child, running)
            if child.pid is None or not (sample_all or child.alone is not None):
                continue
            if child.alone is not None and child.alone in running:
                self._check_limited(child, child.alone)
            elif sample_all:
                size = resident_bytes(child.pid)
                for held in running:
                    held.peak_memory = max(held.peak_memory or 0, size)
                if not child.too_large and child.outgrows(self._settings.CHILD_MAX_BYTES, resident=size, now=now):
                    child.too_large = True
                    self.put_back(child.recall())

    def _check_limited(self, child: Child, held: Held) -> None:
        limit = held.policy.limits.memory_bytes if held.policy else None
        if limit is None or child.pid is None or held.asked is not None or held.ended:
            return
        pids = [child.pid, *descendants_of(child.pid)]
        size = sum(map(resident_bytes, pids))
        if size > limit:
            # Resident sizes count pages that parent and child share several times over: confirm before killing.
            size = proportional_bytes(pids)
        held.peak_memory = max(held.peak_memory or 0, size)
        if size > limit:
            held.asked, held.limit_hit = MEMORY, True
            self.kill(child)
