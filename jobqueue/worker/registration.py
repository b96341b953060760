"""The worker's row: who it is, that it lives, when it last claimed, and whether it sleeps."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable, Iterable

from django.conf import settings as django_settings
from django.db import DatabaseError

import jobqueue
from jobqueue import sql
from jobqueue.exceptions import ConfigurationError
from jobqueue.logs import Quietly
from jobqueue.managers.counting import pending_queues
from jobqueue.managers.rows import Run
from jobqueue.managers.sessions import Session
from jobqueue.registry import PolicyTable

from .options import WorkerOptions
from .threads import is_away

logger = logging.getLogger("jobqueue.worker")

INTERNAL_TYPES = frozenset({"jobqueue.notify"})


class Registration:
    """Writes the row of one boot."""

    def __init__(self, options: WorkerOptions, slots: int, queues: list[str], busy: Callable[[], int]) -> None:
        self._options, self._slots, self.queues, self._busy = options, slots, queues, busy
        self.claimed_at: Callable[[], float | None] = lambda: None
        self.stopping: Callable[[], bool] = lambda: False
        self.sleeping: Callable[[], bool] = lambda: False

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

    def beat(self, session: Session, *, idle: bool | None = None) -> None:
        """Say that the worker lives; `idle` True: it sleeps and wants to be woken, None: as before."""
        claimed_at = self.claimed_at()
        session.run(
            sql.WORKER_BEAT,
            {
                "worker_id": self._options.worker_id,
                "name": self._options.name,
                "hostname": socket.gethostname(),
                "pid": os.getpid(),
                "version": jobqueue.__version__,
                "queues": self.queues,
                "job_types": list(self._options.job_types),
                "slots": self._slots,
                "busy": self._busy(),
                "idle": idle,
                "sleeping": self.sleeping(),
                "claimed_seconds": None if claimed_at is None else time.monotonic() - claimed_at,
                "stopping": self.stopping(),
            },
        )

    def leave(self, session: Session) -> None:
        """Take the row away; one that stays is removed by maintenance."""
        session.run(sql.WORKER_LEAVE, {"worker_id": self._options.worker_id})


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
            if policy.queue in homes
            and not wanted & {policy.name, *policy.aliases}
            and policy.name not in INTERNAL_TYPES
        }
    )
