"""Wake sleeping workers after a commit: only when one is asleep, since NOTIFY serialises commits.

A worker about to sleep marks itself idle, commits, and claims once more. The enqueuer looks for idle workers after its
own commit. Whoever is later sees the other: no wake-up is lost. Polling covers a crash in between.

Commit hooks are kept by savepoint, so that a rollback drops exactly what it undid. The hooks of one transaction share
a note of the queues already told: a loop of a thousand savepoints sends one hint a queue, not a thousand.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING

from django.db import DatabaseError, transaction

from jobqueue import sql
from jobqueue.conf import get_settings

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper

CHANNEL = "jobqueue"
CANCEL_PREFIX = "!cancel "  # no queue's name starts with "!": a worker tells such a hint from a queue

# How far back among the project's own hooks one of ours is looked for; beyond that the price is one more hint.
HOOKS_SEARCHED = 50

logger = logging.getLogger("jobqueue.enqueue")


class Wake:
    """A commit hook that wakes the workers of some queues, unless an earlier hook of the transaction has."""

    __slots__ = ("connection", "queues", "told")

    def __init__(self, connection: BaseDatabaseWrapper, queues: Iterable[str], told: set[str] | None = None) -> None:
        self.connection = connection
        self.queues = set(queues)
        self.told: set[str] = set() if told is None else told

    def __call__(self) -> None:
        """Send the hints; a failure costs at most one poll and is only logged."""
        queues = sorted(self.queues - self.told)
        if not queues:
            return
        self.told.update(queues)
        try:
            with self.connection.cursor() as cursor:
                if len(queues) == 1:
                    cursor.execute(sql.WAKE_QUEUE, {"channel": CHANNEL, "queue": queues[0]})
                else:
                    cursor.execute(sql.WAKE_QUEUES, {"channel": CHANNEL, "queues": queues})
        except DatabaseError as error:
            logger.warning("wake-up not sent queues=%s error=%s", queues, error)


def wake_after_commit(connection: BaseDatabaseWrapper, queues: Iterable[str]) -> None:
    """Wake idle workers of the queues once the current transaction is committed: at once in autocommit mode."""
    if not get_settings().NOTIFY:
        return
    if not connection.in_atomic_block:
        if connection.get_autocommit():
            Wake(connection, queues)()
        return  # a transaction managed by hand has no hook: the workers poll
    latest = _latest_hook(connection)
    if latest is not None and latest[0] == set(connection.savepoint_ids):
        latest[1].queues.update(queues)
        return
    wake = Wake(connection, queues, latest[1].told if latest else None)
    transaction.on_commit(wake, using=connection.alias, robust=True)


def _latest_hook(connection: BaseDatabaseWrapper) -> tuple[set[str], Wake] | None:
    """Return the last hook that this transaction registered here, with the savepoints that it depends on."""
    for savepoints, hook, *_ in islice(reversed(connection.run_on_commit), HOOKS_SEARCHED):
        if isinstance(hook, Wake):
            return savepoints, hook
    return None


def tell_workers(connection: BaseDatabaseWrapper, worker_ids: Iterable[str]) -> None:
    """Tell workers to look for cancel requests and orders, with the commit of the current transaction."""
    ids = sorted(worker_ids)
    if ids and get_settings().NOTIFY:
        with connection.cursor() as cursor:
            for worker_id in ids:
                cursor.execute("SELECT pg_notify(%s, %s)", [CHANNEL, CANCEL_PREFIX + worker_id])
