"""Write one job that passed the checks: in a transaction of its own, or in the caller's."""

from __future__ import annotations

from datetime import datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Any

import psycopg
from django.db import ProgrammingError
from psycopg.pq import TransactionStatus

from jobqueue import sql
from jobqueue.conf import get_settings
from jobqueue.states import Status

from .arriving import Arrival
from .instances import Row
from .settling import sqlstate
from .shortcut import fetch_row
from .waking import wake_after_commit

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper

PENDING = Status.PENDING.value
UNDEFINED_FUNCTION, INSUFFICIENT_PRIVILEGE = "42883", "42501"

# Aliases whose database has no procedure that may be called: two statements do the same there.
_without_procedure: set[str] = set()


def enqueue_one(connection: BaseDatabaseWrapper, arrival: Arrival, trace: str | None = None) -> Row | None:
    """Insert one job and have idle workers woken after the commit. Returns None when an active job holds its key."""
    if trace is None and _stands_alone(connection, arrival):  # the procedure stores no trace context
        try:
            return _call(connection, arrival)
        except ProgrammingError as error:
            if not _is_closed(error):
                raise
            # Tables made without migrations, as some test runs do, or a role that may not execute it.
            _without_procedure.add(connection.alias)
    row = insert_one(connection, arrival, trace)
    if row is not None and row.run_after - row.created_at <= soon():
        wake_after_commit(connection, [arrival.queue])
    return row


def _is_closed(error: ProgrammingError) -> bool:
    """Tell whether there is no procedure for this role; what it is refused within is told with the place."""
    code, cause = sqlstate(error), error.__cause__
    within = isinstance(cause, psycopg.Error) and bool(cause.diag.context)
    return code == UNDEFINED_FUNCTION or (code == INSUFFICIENT_PRIVILEGE and not within)


def soon() -> timedelta:
    """Return how far ahead a job may be due to be worth a hint; of later ones maintenance knows before they are due."""
    return timedelta(seconds=2 * get_settings().POLL_SECONDS)


def _stands_alone(connection: BaseDatabaseWrapper, arrival: Arrival) -> bool:
    """Tell whether this enqueue is a transaction of its own, which the procedure may commit."""
    if arrival.run_after is not None or arrival.delay is not None or not get_settings().NOTIFY:
        return False
    if connection.in_atomic_block or connection.alias in _without_procedure or not connection.get_autocommit():
        return False
    # A BEGIN that somebody sent as plain SQL is known to the driver only.
    return bool(connection.connection.pgconn.transaction_status == TransactionStatus.IDLE)


def _call(connection: BaseDatabaseWrapper, arrival: Arrival) -> Row | None:
    row = fetch_row(connection, sql.ENQUEUE_DUE_JOB, _params(arrival))
    if row is None or row[0] is None:
        return None
    job_id, microseconds = row
    created_at = instant_of(microseconds, connection.timezone)
    return Row(job_id, PENDING, created_at, created_at)


def instant_of(microseconds: int, zone: tzinfo | None) -> datetime:
    """Return the instant so many microseconds after 1970, exact until 2242: so far floats tell them apart."""
    return datetime.fromtimestamp(microseconds / 1_000_000, zone)


def insert_one(connection: BaseDatabaseWrapper, arrival: Arrival, trace: str | None = None) -> Row | None:
    """Insert one job in the caller's transaction. Returns None when an active job holds its key."""
    with connection.cursor() as cursor:
        if arrival.run_after is None and arrival.delay is None:
            cursor.execute(sql.INSERT_DUE_JOB, _params(arrival) | {"trace_context": trace})
            due: tuple[int, datetime] | None = cursor.fetchone()
            return None if due is None else Row(due[0], PENDING, due[1], due[1])
        when = {"run_after": arrival.run_after, "delay": arrival.delay, "trace_context": trace}
        cursor.execute(sql.INSERT_JOB, _params(arrival) | when)
        row: tuple[int, int, datetime, datetime] | None = cursor.fetchone()
        return None if row is None else Row(*row)


def _params(arrival: Arrival) -> dict[str, Any]:
    return {
        "job_type": arrival.job_type,
        "queue": arrival.queue,
        "priority": arrival.priority,
        "payload": arrival.payload,
        "payload_bytes": arrival.payload_bytes,
        "dedupe_key": arrival.dedupe_key,
        "owner": arrival.owner,
        "max_attempts": arrival.max_attempts,
        "task_backend": arrival.task_backend,
    }
