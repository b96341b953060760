"""Read all figures of the moment within a third of a second, those first that nothing can make slow."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from django.db import InterfaceError, OperationalError, connections

from jobqueue.conf import get_settings
from jobqueue.managers.rows import Run
from jobqueue.managers.settling import sqlstate

from . import counts, database, queue_figures
from .counts import COUNTED, Read
from .database import DatabaseFigures
from .limited import QUERY_CANCELED, Budget
from .queue_figures import Depth, Readings
from .queues import paused_queues
from .worker_figures import WorkerFigures, read_workers

if TYPE_CHECKING:
    from jobqueue.managers import JobManager

EACH: Final = timedelta(milliseconds=120)
TOTAL: Final = timedelta(milliseconds=280)

JOBS: Final = "jobqueue_job"
TOGETHER: Final = 10  # long queues that are counted by one statement

Values = dict[str, Any]


def read_all(manager: JobManager, alias: str, primary: str, *, patience: float = 1.0) -> Values:
    """Return the fields of a Snapshot: figures of jobs from an alias, of workers and the database from the primary.

    With a patience of 4 everything may take four times as long. Raises nothing of the database's, unless the caller's
    own transaction is broken already.
    """
    # Before the time begins to count: the first look at the handlers.
    jobs_run, primary_run = partial(_run, manager, alias), partial(_run, manager, primary)
    of_primary = _primary_reads(primary, primary_run)
    of_jobs = {
        **counts.settled_reads(manager.using(alias), jobs_run, alias),
        **counts.passing_reads(manager.using(alias), jobs_run),
        **_queue_reads(alias, jobs_run),
    }
    look, then = Look(patience), partial(_afterwards, run=jobs_run, alias=alias)
    if alias == primary:
        look.at(primary, {**of_primary, **of_jobs}, then)
    else:
        look.at(primary, of_primary)
        look.at(alias, of_jobs, then)
    return _fields(look)


class Look:
    """One look at one or two databases: what was read, by name; what could not be read is not there."""

    def __init__(self, patience: float) -> None:
        self.values: Values = {}
        self.opened_at: datetime | None = None
        self.error = ""
        self._each, self._left = EACH * patience, TOTAL.total_seconds() * patience

    def at(self, alias: str, reads: dict[str, Read], then: Callable[[Look, Budget], None] | None = None) -> None:
        """Read from one database, and `then` what depends on it, as far as the time goes and the database answers."""
        try:
            connections[alias].ensure_connection()  # connecting is not reading: its time is libpq's
            began = time.monotonic()
            budget = Budget(alias, each=self._each, end=began + self._left)
            with budget.open():
                self.opened_at = self.opened_at or budget.opened_at
                for name, read in reads.items():
                    self.keep(name, budget.read(read.query, of=read.of, part=read.part))
                if then is not None:
                    then(self, budget)
            self._left -= time.monotonic() - began
        except (OperationalError, InterfaceError) as error:
            if sqlstate(error) == QUERY_CANCELED:
                return  # the end of the transaction took too long: all was read
            self.error = self.error or next(iter(str(error).strip().splitlines()), type(error).__name__)
            if connections[alias].in_atomic_block:
                return
            with suppress(OperationalError, InterfaceError):
                connections[alias].close()  # it is of no use; the next one who asks connects

    def keep(self, name: str, value: Any) -> None:
        """Keep what was read."""
        if value is not None:
            self.values[name] = value


def _primary_reads(primary: str, run: Run) -> dict[str, Read]:
    return {
        "workers": Read(partial(read_workers, primary), "jobqueue_worker"),
        "queues.paused": Read(partial(paused_queues, primary), "jobqueue_queue"),
        "database.oldest_snapshot": Read(partial(database.read_oldest_snapshot, run), ""),
        "database.load": Read(partial(database.read_load, run), ""),
        "database.tables": Read(partial(database.read_tables, run), ""),
        "database.sizes": Read(partial(database.read_sizes, run), ""),
    }


def _queue_reads(alias: str, run: Run) -> dict[str, Read]:
    return {
        "queues.times": Read(partial(queue_figures.read_ended, run), "jobqueue_stat", part=0.7),
        "queues.arrivals": Read(partial(queue_figures.read_arrivals, run), JOBS),
        "queues.depth": Read(lambda: queue_figures.read_depths(run, cap=counts.COUNT_CAP), JOBS),
    }


def _afterwards(look: Look, budget: Budget, *, run: Run, alias: str) -> None:
    """Read what depends on what was read: estimates of capped counts, long queues to the cap."""
    if "queues.times" in look.values:
        look.keep("queues.statistics", look.values["queues.times"])
    else:  # too many rows to take all times from
        read = partial(queue_figures.read_ended_without_times, alias)
        look.keep("queues.statistics", budget.read(read, of="jobqueue_stat"))
    capped = [name for name in COUNTED if look.values.get(name, 0) > counts.COUNT_CAP]
    if capped:
        look.keep("estimates", budget.read(partial(counts.estimates, run, capped), of=JOBS))
    depths: dict[str, Depth] = look.values.get("queues.depth", {})
    long = [queue for queue, depth in depths.items() if depth.capped and depth.jobs < counts.COUNT_CAP]
    for start in range(0, len(long), TOGETHER):
        some = long[start : start + TOGETHER]
        more = partial(queue_figures.read_long, run, depths, some, cap=counts.COUNT_CAP)
        depths.update(budget.read(more, of=JOBS) or {})


def _fields(look: Look) -> Values:
    """Return the fields of a Snapshot."""
    values = look.values
    names = (*COUNTED, "done", "cost_1h_usd", "oldest_pending_sec")
    parts = ("workers", *QUEUE_PARTS, *DATABASE_PARTS)
    capped = frozenset(name for name in COUNTED if values.get(name, 0) > counts.COUNT_CAP)
    shown = {name: counts.COUNT_CAP if name in capped else values.get(name) for name in names}
    readings = Readings(
        depths=values.get("queues.depth"),
        arrivals=values.get("queues.arrivals"),
        ended=values.get("queues.statistics"),
        paused=values.get("queues.paused"),
        workers=values.get("workers"),
        pending_estimate=values.get("estimates", {}).get("pending"),
    )
    return {
        **shown,
        "waiting": 0 if values else None,  # nobody waits for other jobs before there are dependencies
        "at": look.opened_at or datetime.now(UTC),
        "queues": queue_figures.queue_figures(readings),
        "workers": values.get("workers", ()),
        "database": _database(values),
        "estimates": values.get("estimates", {}),
        "capped": capped,
        "unknown": frozenset(name for name in (*names, *parts) if name not in values)
        | (set() if values else {"waiting"}),
        "error": look.error,
    }


QUEUE_PARTS: Final = tuple(f"queues.{name}" for name in ("depth", "arrivals", "statistics", "times", "paused"))
DATABASE_PARTS: Final = tuple(f"database.{name}" for name in ("oldest_snapshot", "load", "tables", "sizes"))


def _database(values: Values) -> DatabaseFigures:
    workers: tuple[WorkerFigures, ...] | None = values.get("workers")
    living = [worker for worker in workers or () if worker.alive]
    return dataclasses.replace(
        DatabaseFigures(),
        **values.get("database.oldest_snapshot", {}),
        **values.get("database.load", {}),
        tables=database.table_figures(values.get("database.tables"), values.get("database.sizes")),
        clock_skew_sec={one.worker_id: one.clock_skew_sec for one in living if one.clock_skew_sec is not None},
        notify=None if workers is None else get_settings().NOTIFY and any(worker.listening for worker in living),
    )


def _run(manager: JobManager, alias: str, statement: str, params: Any) -> list[tuple[Any, ...]]:
    return manager.db_manager(alias).run_sql(statement, params)
