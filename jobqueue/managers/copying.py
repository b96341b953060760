"""Write many jobs at once: by COPY, and by inserts in the order of their keys where they have keys."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from jobqueue import sql
from jobqueue.exceptions import JobQueueError
from jobqueue.registry import registry
from jobqueue.states import Status

from .arriving import Arrival, Arrivals
from .inserting import soon
from .instances import Row, builder_of, chosen_of, values_of

if TYPE_CHECKING:
    from django.db.backends.utils import CursorWrapper

    from jobqueue.models import Job

PENDING, SCHEDULED = Status.PENDING.value, Status.SCHEDULED.value
CHUNK = 5_000
LINES = 500
STREAMED = 2_000  # from so many on, the server copies jobs while others are still being checked
MOST_ALIKE = 1_000
MANY_OBJECTS = 5_000
COPY_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


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


def may_stream(arrivals: Arrivals | Sequence[Arrival]) -> bool:
    """Tell whether items may be checked while those before them are copied: only of a large bulk is it worth it."""
    if not isinstance(arrivals, Arrivals) or len(arrivals) < STREAMED or not arrivals.ask_nothing:
        return False
    registry.load()  # a module imported in mid-COPY could not ask the database, and would be given up
    return True


class Refused(Exception):
    """Ends a COPY in place of an error that may quote a payload: the server logs the text of what ended it."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error


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
        self._build = builder_of(model, cursor.db.alias)
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
        self._copy(self._lines())
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

    def _copy(self, chunks: Iterator[str]) -> None:
        lines = next(chunks, None)
        if lines is None:
            return
        refused: Exception | None = None
        try:
            # Django's cursor hands copy() through as it is, so the driver's own errors would come out.
            with self._cursor.db.wrap_database_errors, self._cursor.copy(sql.COPY_JOBS) as copy:
                while lines is not None:
                    copy.write(lines)
                    lines = _next(chunks)
        except Refused as answer:
            refused = answer.error
        if refused is not None:  # out here, so that it keeps its own cause and context
            raise refused

    def _lines(self) -> Iterator[str]:
        """Give the lines of jobs without keys, so many at once, and set the others aside.

        Items are checked and instances built here, because the server works on the last lines meanwhile.
        """
        lines: list[str] = []
        for job_id, arrival in zip(self._ids, self._arrivals, strict=True):
            if arrival.dedupe_key is None:
                lines.append(self._line(job_id, arrival))
                if len(lines) == LINES:
                    text = "".join(lines)
                    lines.clear()
                    yield text
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
        values = chosen_of(self._model, arrival, self._trace) | {"created_at": self.now, "updated_at": self.now}
        job_type, queue, priority, max_attempts, *_, backend = arrival
        ends = ("\\N" if text is None else text.translate(COPY_ESCAPES) for text in (backend, self._trace))
        alike = Alike(values, f"\t{job_type}\t{queue}\t{priority}\t", "\t".join(("", str(max_attempts), *ends)) + "\n")
        if len(self._alike) == MOST_ALIKE:
            self._alike.clear()
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
                self.jobs[place] = self._build(values_of(self._model, item, row, self._trace))
                if due <= self._horizon:
                    self.queues.add(item.queue)


def _next(chunks: Iterator[str]) -> str | None:
    try:
        return next(chunks, None)
    except (JobQueueError, TypeError, ValueError, LookupError) as error:
        raise Refused(error) from None
