"""The worker's row: who it is, that it lives, when it last claimed, whether it sleeps, and what its handlers told."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import TYPE_CHECKING

from django.conf import settings as django_settings
from django.db import DatabaseError

import jobqueue
from jobqueue import sql
from jobqueue.children.processes import descendants_of, proportional_bytes
from jobqueue.conf import get_settings
from jobqueue.exceptions import ConfigurationError
from jobqueue.internal import is_internal
from jobqueue.logs import Quietly
from jobqueue.managers.counting import pending_queues
from jobqueue.managers.rows import Run
from jobqueue.managers.sessions import Session
from jobqueue.registry import PolicyTable

from .options import WorkerOptions
from .telemetry import Telemetry
from .tempo import Tempo
from .threads import is_away

if TYPE_CHECKING:
    from .supervisor import Supervisor

logger = logging.getLogger("jobqueue.worker")

LONGEST_BEAT = timedelta(seconds=10)
SOONEST_ANSWER_SECONDS = 0.5
IDLE_MEMORY_SECONDS = 60.0
TOLD_BY_BEATS = ("jobs_ended", "jobs_per_second", "memory_bytes", "clock_skew_seconds", "listening", "gauges")


class Registration:
    """Writes the row of one boot."""

    def __init__(self, options: WorkerOptions, slots: int, queues: list[str], busy: Callable[[], int]) -> None:
        self._options, self._slots, self.queues, self._busy = options, slots, queues, busy
        self.claimed_at: Callable[[], float | None] = lambda: None
        self.stopping: Callable[[], bool] = lambda: False
        self.sleeping: Callable[[], bool] = lambda: False
        self.hears: Callable[[], bool] = lambda: False
        self.jobs_ended: Callable[[], int] = lambda: 0
        self.telemetry = Telemetry()
        self._skew: float | None = None
        self._tempo = Tempo()
        self._measured: tuple[float, int] | None = None  # when memory was told, by the monotonic clock; jobs ended then

    def watch(self, worker: Supervisor) -> None:
        """Tell of a worker's parts from here on: threads may look at them, and change nothing."""
        self.claimed_at = lambda: worker.dispatch.claimed_at
        self.sleeping = lambda: worker.dispatch.sleeping
        self.stopping = lambda: worker.shutdown.stopping
        self.hears = lambda: worker.dispatch.hears()  # noqa: PLW0108 - set anew when the listener starts
        self.jobs_ended = lambda: worker.reports.ended
        self.telemetry = worker.reports.telemetry

    def register(
        self, session: Session, policies: PolicyTable, *, ready: Callable[[Run], object], stopped: Callable[[], bool]
    ) -> bool:
        """Write the row, waiting for a database that is not up yet; warn of queues that nobody knows.

        Returns False when the worker was stopped meanwhile.
        """
        quietly = Quietly(logger)
        while not stopped():
            try:
                ready(session.run)
                self.beat(session)
                self._measured = None  # before there was any child
                if release := get_settings().RELEASE:
                    session.run(sql.REMEMBER_RELEASE, {"version": release})
                pending = pending_queues(session.run)
                break
            except DatabaseError as error:
                if not is_away(error):
                    raise
                quietly.warning("waiting for the database error=%s", str(error).strip().split("\n")[0])
                session.pause()
        else:
            return False
        if django_settings.DEBUG:
            logger.warning("DEBUG is on: fine for development, slow and talkative in production")
        known = {policy.queue for policy in policies.policies.values()} | set(pending)
        strange = [queue for queue in self.queues if queue not in known and queue != "*"]
        if strange:
            logger.warning("no job type is declared for these queues and none has jobs: %s", ", ".join(strange))
        return True

    def beat(self, session: Session) -> None:
        """Say that the worker lives and what it does, with its gauges and what was counted since the last time."""
        load = self.telemetry.load()
        ended = self.jobs_ended()
        measures = self._is_memory_news(ended)
        before = time.time()
        (row,) = self._write(
            session,
            idle=None,
            jobs_ended=ended,
            jobs_per_second=self._tempo.look(time.monotonic(), ended),
            memory_bytes=memory_bytes() if measures else None,  # None leaves the last figure
            clock_skew_seconds=self._skew,
            listening=self.hears(),
            gauges=load.gauges,
            batch=load.batch,
            counts=load.counts,
        )
        self.telemetry.written(load)
        if measures:
            self._measured = time.monotonic(), ended
        after = time.time()
        if after - before < SOONEST_ANSWER_SECONDS:  # else what took so long might be the way there, or back
            self._skew = (before + after) / 2 - row[0]

    def _is_memory_news(self, ended: int) -> bool:
        if self._measured is None or self._busy():
            return True
        at, ended_then = self._measured
        return ended != ended_then or time.monotonic() - at > IDLE_MEMORY_SECONDS

    def mark(self, session: Session, *, idle: bool) -> None:
        """Say that the worker sleeps and wants to be woken, or does no more; nothing else is told."""
        self._write(session, idle=idle, batch=0, counts="[]", **dict.fromkeys(TOLD_BY_BEATS))

    def _write(self, session: Session, **told: object) -> list[tuple[float]]:
        claimed_at = self.claimed_at()
        return session.run(
            sql.WORKER_BEAT,
            {
                "worker_id": self._options.worker_id,
                "name": self._options.name,
                "hostname": socket.gethostname(),
                "pid": os.getpid(),
                "version": jobqueue.__version__,
                "release": get_settings().RELEASE,
                "queues": self.queues,
                "job_types": list(self._options.job_types),
                "slots": self._slots,
                "busy": self._busy(),
                "sleeping": self.sleeping(),
                "claimed_seconds": None if claimed_at is None else time.monotonic() - claimed_at,
                "stopping": self.stopping(),
                **told,
            },
        )

    def leave(self, session: Session) -> None:
        """Take the row away, once all that was counted is written; one that stays is removed by maintenance."""
        while self.telemetry.owes_counts:  # the batch that failed last, and what came after it
            self.beat(session)
        session.run(sql.WORKER_LEAVE, {"worker_id": self._options.worker_id})


def beat_interval(lease: timedelta) -> timedelta:
    """Return the time between two heartbeats."""
    return min(LONGEST_BEAT, lease / 6)


def memory_bytes() -> int:
    """Return the memory of this worker's processes together, shared pages counted once; read in about a millisecond."""
    mine = os.getpid()
    return proportional_bytes([mine, *descendants_of(mine)])


def check_job_types(options: WorkerOptions, policies: PolicyTable) -> None:
    """Check --job-types: each known, and no queue of theirs is home to other types too.

    Raises ConfigurationError: a claim narrowed by type would walk past every other type's due jobs.
    """
    wanted = set(options.job_types)
    if not wanted:
        return
    unknown = wanted.difference(policies.policies)
    if unknown:
        raise ConfigurationError(f"--job-types: no handler is registered for {', '.join(sorted(unknown))}")
    homes = {policies.policies[name].queue for name in wanted}
    others = _others(policies, homes, wanted)
    if others:
        msg = (
            f"--job-types: the queues {', '.join(sorted(homes))} are also home to {', '.join(others)}: "
            "give these types a queue of their own, or name the queues with --queues"
        )
        raise ConfigurationError(msg)


def home_queues(job_types: Iterable[str], policies: PolicyTable) -> list[str]:
    """Return the queues that the types are declared for, sorted."""
    return sorted({policies.policies[name].queue for name in job_types})


def _others(policies: PolicyTable, homes: set[str], wanted: set[str]) -> list[str]:
    return sorted(
        {
            policy.name
            for policy in policies.policies.values()
            if policy.queue in homes and not wanted & {policy.name, *policy.aliases} and not is_internal(policy.name)
        }
    )
