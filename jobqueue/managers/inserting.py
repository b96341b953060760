"""Write jobs that passed the checks: one by one, or many at once by COPY, in the caller's transaction."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from django.db import ProgrammingError
from django.db.models.base import ModelState
from django.db.models.signals import post_init, pre_init
from psycopg.pq import TransactionStatus

from jobqueue import sql
from jobqueue.conf import get_settings
from jobqueue.states import Status

from .arriving import Arrival, Arrivals
from .settling import sqlstate
from .waking import wake_after_commit

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper
    from django.db.backends.utils import CursorWrapper

    from jobqueue.models import Job

PENDING, SCHEDULED = Status.PENDING.value, Status.SCHEDULED.value
UNDEFINED_FUNCTION, INSUFFICIENT_PRIVILEGE = "42883", "42501"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
CHUNK = 5_000
LINES = 500
STREAMED = 2_000  # from so many on, the server copies jobs while others are still being checked
MANY_OBJECTS = 50_000
COPY_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})

# Aliases whose database has no procedure that may be called: two statements do the same there.
_without_procedure: set[str] = set()

Build = Callable[[dict[str, Any]], "Job"]
"""Makes an instance of the values of all its columns."""


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
            if sqlstate(error) not in (UNDEFINED_FUNCTION, INSUFFICIENT_PRIVILEGE):
                raise
            # Tables made without migrations, as some test runs do, or a role that may not execute it.
            _without_procedure.add(connection.alias)
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
    return bool(connection.connection.pgconn.transaction_status == TransactionStatus.IDLE)


def _call(connection: BaseDatabaseWrapper, arrival: Arrival) -> Row | None:
    with connection.cursor() as cursor:
        cursor.execute(sql.ENQUEUE_DUE_JOB, _params(arrival))
        job_id, microseconds = cursor.fetchone()
    if job_id is None:
        return None
    created_at = (EPOCH + timedelta(microseconds=microseconds)).astimezone(connection.timezone)
    return Row(job_id, PENDING, created_at, created_at)


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


def new_job(model: type[Job], alias: str, arrival: Arrival, row: Row, trace: str | None = None) -> Job:
    """Return the instance of a new row without reading it back."""
    return _builder(model, alias)(_values(model, arrival, row, trace))


def _values(model: type[Job], arrival: Arrival, row: Row, trace: str | None) -> dict[str, Any]:
    values = _chosen(model, arrival, trace)
    values["id"], values["status"], values["run_after"], values["created_at"] = row
    values["payload"] = arrival.value
    values["payload_bytes"] = arrival.payload_bytes
    values["dedupe_key"] = arrival.dedupe_key
    values["owner"] = arrival.owner
    values["updated_at"] = row.created_at
    return values


def _chosen(model: type[Job], arrival: Arrival, trace: str | None) -> dict[str, Any]:
    """Return the columns of a new row as far as many jobs of a bulk have the same."""
    return _blank(model) | {
        "job_type": arrival.job_type,
        "queue": arrival.queue,
        "priority": arrival.priority,
        "max_attempts": arrival.max_attempts,
        "task_backend": arrival.task_backend,
        "trace_context": trace,
    }


def _builder(model: type[Job], alias: str) -> Build:
    # Model.__init__ takes ten times as long as all the checks of a job: it asks 35 fields for their defaults.
    listened = pre_init.has_listeners(model) or post_init.has_listeners(model)

    def build(values: dict[str, Any]) -> Job:
        if listened:
            return model.from_db(alias, list(values), list(values.values()))
        job = model.__new__(model)
        job.__dict__ = values
        job._state = state = ModelState()
        state.adding, state.db = False, alias
        return job

    return build


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


class Alike(NamedTuple):
    """What most jobs of a bulk have in common: columns of the instance, and parts of the line for COPY."""

    values: dict[str, Any]
    head: str
    tail: str


class Batch:
    """A bulk enqueue: ids from the sequence first, then COPY for jobs without keys, ordered inserts for the others."""

    def __init__(
        self,
        cursor: CursorWrapper,
        arrivals: Arrivals | Sequence[Arrival],
        model: type[Job],
        trace: str | None = None,
    ) -> None:
        self._cursor, self._arrivals, self._model, self._trace = cursor, arrivals, model, trace
        self._build = _builder(model, cursor.db.alias)
        cursor.execute(sql.RESERVE_IDS, {"take": len(arrivals)})
        row: tuple[int, list[int] | None, datetime] = cursor.fetchone()
        first, ids, self.now = row
        # Others may have taken ids from the sequence in between; then, and only then, there is a list of them.
        self._ids: Sequence[int] = range(first, first + len(arrivals)) if ids is None else ids
        self._at_once = self.now, PENDING, self.now.isoformat()
        self._horizon = self.now + soon()
        self._alike: dict[tuple[object, ...], Alike] = {}
        self._keyed: list[tuple[int, int, Arrival]] = []  # (place, id, arrival)
        self.jobs: list[Job | None] = []
        self.queues: set[str] = set()

    def insert(self) -> None:
        """Insert them all, and put their instances into `jobs`, None where an active job holds the key.

        `queues` are then those that got a job which is due soon.
        """
        chunks = self._lines()
        first = next(chunks, None)
        if first is not None:
            self._copy(chain([first], chunks))
        # All chunks in the order of the keys: two calls with the same keys wait for each other instead of deadlocking.
        self._keyed.sort(key=lambda keyed: (keyed[2].dedupe_key or "", keyed[0]))
        for start in range(0, len(self._keyed), CHUNK):
            self._insert_keyed(self._keyed[start : start + CHUNK])

    def _when(self, arrival: Arrival) -> tuple[datetime, int, str]:
        """Return when a job is due, its status until then, and the time as text."""
        if arrival.delay is not None:
            due = self.now + arrival.delay
        elif arrival.run_after is not None:
            due = arrival.run_after
        else:
            return self._at_once
        return due, SCHEDULED if due > self.now else PENDING, due.isoformat()

    def _copy(self, chunks: Iterable[str]) -> None:
        # Django's cursor hands copy() through as it is, so the driver's own errors would come out.
        with self._cursor.db.wrap_database_errors, self._cursor.copy(sql.COPY_JOBS) as copy:
            for lines in chunks:
                copy.write(lines)

    def _lines(self) -> Iterator[str]:
        """Give the lines of jobs without keys, so many at once, and set the others aside.

        Items are checked and instances built here, because the server works on the last lines meanwhile.
        """
        lines: list[str] = []
        for job_id, arrival in zip(self._ids, self._arrivals, strict=True):
            if arrival.dedupe_key is None:
                lines.append(self._line(job_id, arrival))
                if len(lines) == LINES:
                    yield "".join(lines)
                    lines.clear()
            else:
                self._keyed.append((len(self.jobs), job_id, arrival))
                self.jobs.append(None)
        if lines:
            yield "".join(lines)

    def _line(self, job_id: int, arrival: Arrival) -> str:
        """Build one instance and its line for COPY, in whose text format few columns can need escapes."""
        # Unpacked at once, and calls avoided: this is half of what a job of a large bulk costs its caller.
        job_type, queue, priority, max_attempts, value, payload, size, _, owner, run_after, delay, backend = arrival
        due, status, when = self._at_once if run_after is None and delay is None else self._when(arrival)
        alike = self._alike.get((job_type, queue, priority, max_attempts, backend)) or self._learn(arrival)
        values = alike.values.copy()
        values["id"] = job_id
        values["status"] = status
        values["payload"] = value
        values["payload_bytes"] = size
        values["run_after"] = due
        values["owner"] = owner
        self.jobs.append(self._build(values))
        if due <= self._horizon:
            self.queues.add(queue)
        if "\\" in payload:  # JSON text has no bare control characters
            payload = payload.replace("\\", "\\\\")
        if owner:
            owner = owner.translate(COPY_ESCAPES)
        return f"{job_id}{alike.head}{payload}\t{size}\t{when}\t{status}\t{owner}{alike.tail}"

    def _learn(self, arrival: Arrival) -> Alike:
        values = _chosen(self._model, arrival, self._trace) | {"created_at": self.now, "updated_at": self.now}
        job_type, queue, priority, max_attempts, *_, backend = arrival
        ends = ("\\N" if text is None else text.translate(COPY_ESCAPES) for text in (backend, self._trace))
        alike = Alike(values, f"\t{job_type}\t{queue}\t{priority}\t", "\t".join(("", str(max_attempts), *ends)) + "\n")
        self._alike[job_type, queue, priority, max_attempts, backend] = alike
        return alike

    def _insert_keyed(self, keyed: Sequence[tuple[int, int, Arrival]]) -> None:
        items = [item for _, _, item in keyed]
        whens = [self._when(item) for item in items]
        self._cursor.execute(
            sql.INSERT_JOBS,
            {
                "ids": [job_id for _, job_id, _ in keyed],
                "job_types": [item.job_type for item in items],
                "queues": [item.queue for item in items],
                "priorities": [item.priority for item in items],
                "payloads": [item.payload for item in items],
                "payload_bytes": [item.payload_bytes for item in items],
                "run_afters": [due for due, _, _ in whens],
                "statuses": [status for _, status, _ in whens],
                "dedupe_keys": [item.dedupe_key for item in items],
                "owners": [item.owner for item in items],
                "max_attempts": [item.max_attempts for item in items],
                "task_backends": [item.task_backend for item in items],
                "trace_context": self._trace,
            },
        )
        inserted = {row[0] for row in self._cursor.fetchall()}
        for (place, job_id, item), (due, status, _) in zip(keyed, whens, strict=True):
            if job_id in inserted:
                row = Row(job_id, status, due, self.now)
                self.jobs[place] = self._build(_values(self._model, item, row, self._trace))
                if due <= self._horizon:
                    self.queues.add(item.queue)
