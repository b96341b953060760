"""Write jobs that passed the checks: one by one, or many at once by COPY, in the caller's transaction."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from django.db import ProgrammingError
from django.db.models.base import ModelState
from django.db.models.signals import post_init, pre_init
from psycopg.pq import TransactionStatus

from jobqueue import sql
from jobqueue.conf import get_settings
from jobqueue.states import Status

from .arriving import Arrival
from .settling import sqlstate
from .waking import CHANNEL, wake_after_commit

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper
    from django.db.backends.utils import CursorWrapper

    from jobqueue.models import Job

PENDING, SCHEDULED = Status.PENDING.value, Status.SCHEDULED.value
UNDEFINED_FUNCTION = "42883"
CHUNK = 5_000
LINES = 500
MANY_OBJECTS = 50_000
COPY_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})

# Aliases whose database has no procedure to enqueue with: two statements do the same there.
_without_procedure: set[str] = set()

Make = Callable[[Arrival, int, int, datetime, datetime], "Job"]
"""Builds the instance of a new row from (arrival, id, status, run_after, created_at)."""


class Row(NamedTuple):
    """What the database says of a new job."""

    id: int
    status: int
    run_after: datetime
    created_at: datetime


def enqueue_one(connection: BaseDatabaseWrapper, arrival: Arrival, trace: str | None = None) -> Row | None:
    """Insert one job and have idle workers woken after the commit. Returns None when an active job holds its key."""
    if trace is None and _stands_alone(connection, arrival):  # the procedure stores no trace context
        try:
            return _call(connection, arrival)
        except ProgrammingError as error:
            if sqlstate(error) != UNDEFINED_FUNCTION:
                raise
            _without_procedure.add(connection.alias)  # tables made without migrations, as some test runs do
    row = insert_one(connection, arrival, trace)
    if row is not None and row.run_after - row.created_at <= soon():
        wake_after_commit(connection, [arrival.queue])
    return row


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
    return bool(connection.connection.info.transaction_status == TransactionStatus.IDLE)


def _call(connection: BaseDatabaseWrapper, arrival: Arrival) -> Row | None:
    with connection.cursor() as cursor:
        cursor.execute(sql.ENQUEUE_DUE_JOB, _params(arrival) | {"channel": CHANNEL})
        job_id, created_at = cursor.fetchone()
    return None if job_id is None else Row(job_id, PENDING, created_at, created_at)


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


@cache
def _blank(model: type[Job]) -> dict[str, Any]:
    """Return the columns of a new row that an enqueue does not choose."""
    blank: dict[str, Any] = dict.fromkeys(field.attname for field in model._meta.concrete_fields)
    return blank | {"attempts": 0, "interruptions": 0, "lease_epoch": 0, "cost_total": 0, "cost_last": 0}


def new_job(model: type[Job], alias: str, trace: str | None = None) -> Make:
    """Return the function that builds the instances of new rows without reading them back."""
    # Model.__init__ takes ten times as long as all the checks of a job: it asks 35 fields for their defaults.
    blank = _blank(model) if trace is None else _blank(model) | {"trace_context": trace}
    listened = pre_init.has_listeners(model) or post_init.has_listeners(model)

    def make(arrival: Arrival, job_id: int, status: int, run_after: datetime, created_at: datetime) -> Job:
        values = blank.copy()
        values["id"] = job_id
        values["job_type"] = arrival.job_type
        values["queue"] = arrival.queue
        values["priority"] = arrival.priority
        values["status"] = status
        values["payload"] = arrival.value
        values["payload_bytes"] = arrival.payload_bytes
        values["run_after"] = run_after
        values["dedupe_key"] = arrival.dedupe_key
        values["owner"] = arrival.owner
        values["max_attempts"] = arrival.max_attempts
        values["task_backend"] = arrival.task_backend
        values["created_at"] = values["updated_at"] = created_at
        if listened:
            return model.from_db(alias, list(values), list(values.values()))
        job = model.__new__(model)
        job.__dict__ = values
        job._state = state = ModelState()
        state.adding, state.db = False, alias
        return job

    return make


@contextmanager
def collector_paused() -> Iterator[None]:
    """Keep the garbage collector still while a bulk enqueue builds what it returns.

    None of it is garbage, yet the collector would walk all of it again and again: a third of the time for 100,000 jobs.
    Nor must it walk it all at once as soon as it may: a freeze that is undone moves objects to the oldest generation,
    unwalked. A project that froze objects itself, as before forking, is left alone.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            if gc.get_count()[0] > MANY_OBJECTS and gc.get_freeze_count() == 0:
                gc.freeze()
                gc.unfreeze()
            gc.enable()


class Batch:
    """A bulk enqueue: ids from the sequence first, then COPY for jobs without keys, ordered inserts for the others."""

    def __init__(
        self, cursor: CursorWrapper, arrivals: Sequence[Arrival], make: Make, trace: str | None = None
    ) -> None:
        self._cursor, self._arrivals, self._make, self._trace = cursor, arrivals, make, trace
        self._line_end = "\\N\n" if trace is None else f"{trace}\n"
        cursor.execute(sql.RESERVE_IDS, {"take": len(arrivals)})
        row: tuple[int, list[int] | None, datetime] = cursor.fetchone()
        first, ids, self.now = row
        # Others may have taken ids from the sequence in between; then, and only then, there is a list of them.
        self._ids: Sequence[int] = range(first, first + len(arrivals)) if ids is None else ids
        self._now_text = self.now.isoformat()
        self._horizon = self.now + soon()
        self.jobs: list[Job | None] = [None] * len(arrivals)
        self.queues: set[str] = set()

    def insert(self) -> None:
        """Insert them all, and put their instances into `jobs`, None where an active job holds the key.

        `queues` are then those that got a job which is due soon.
        """
        keyed = [place for place, arrival in enumerate(self._arrivals) if arrival.dedupe_key is not None]
        if len(keyed) < len(self._arrivals):
            self._copy([place for place, arrival in enumerate(self._arrivals) if arrival.dedupe_key is None])
        # All chunks in the order of the keys: two calls with the same keys wait for each other instead of deadlocking.
        keyed.sort(key=lambda place: (self._arrivals[place].dedupe_key or "", place))
        for start in range(0, len(keyed), CHUNK):
            self._insert_keyed(keyed[start : start + CHUNK])

    def _due(self, arrival: Arrival) -> datetime:
        if arrival.delay is not None:
            return self.now + arrival.delay
        return self.now if arrival.run_after is None else arrival.run_after

    def _status(self, due: datetime) -> int:
        return SCHEDULED if due > self.now else PENDING

    def _copy(self, places: Sequence[int]) -> None:
        # Django's cursor hands copy() through as it is, so the driver's own errors would come out.
        with self._cursor.db.wrap_database_errors, self._cursor.copy(sql.COPY_JOBS) as copy:
            for start in range(0, len(places), LINES):
                # The instances are built here because the server works on the last lines meanwhile.
                copy.write("".join([self._line(place) for place in places[start : start + LINES]]))

    def _line(self, place: int) -> str:
        """Build one instance and its line for COPY, in whose text format only payload and owner can need escapes."""
        arrival, job_id = self._arrivals[place], self._ids[place]
        due = self._due(arrival)
        status = PENDING if due is self.now else self._status(due)
        self._keep(place, arrival, status, due)
        when = self._now_text if due is self.now else due.isoformat()
        payload = arrival.payload
        if "\\" in payload:  # JSON text has no bare control characters
            payload = payload.replace("\\", "\\\\")
        owner = arrival.owner and arrival.owner.translate(COPY_ESCAPES)
        backend = "\\N" if arrival.task_backend is None else arrival.task_backend.translate(COPY_ESCAPES)
        return (
            f"{job_id}\t{arrival.job_type}\t{arrival.queue}\t{arrival.priority}\t{payload}\t{arrival.payload_bytes}\t"
            f"{when}\t{status}\t{owner}\t{arrival.max_attempts}\t{backend}\t{self._line_end}"
        )

    def _keep(self, place: int, arrival: Arrival, status: int, due: datetime) -> None:
        self.jobs[place] = self._make(arrival, self._ids[place], status, due, self.now)
        if due <= self._horizon:
            self.queues.add(arrival.queue)

    def _insert_keyed(self, places: Sequence[int]) -> None:
        items = [self._arrivals[place] for place in places]
        dues = [self._due(item) for item in items]
        self._cursor.execute(
            sql.INSERT_JOBS,
            {
                "ids": [self._ids[place] for place in places],
                "job_types": [item.job_type for item in items],
                "queues": [item.queue for item in items],
                "priorities": [item.priority for item in items],
                "payloads": [item.payload for item in items],
                "payload_bytes": [item.payload_bytes for item in items],
                "run_afters": dues,
                "statuses": [self._status(due) for due in dues],
                "dedupe_keys": [item.dedupe_key for item in items],
                "owners": [item.owner for item in items],
                "max_attempts": [item.max_attempts for item in items],
                "task_backends": [item.task_backend for item in items],
                "trace_context": self._trace,
            },
        )
        inserted = {row[0] for row in self._cursor.fetchall()}
        for place, item, due in zip(places, items, dues, strict=True):
            if self._ids[place] in inserted:
                self._keep(place, item, self._status(due), due)
