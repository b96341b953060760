"""Every queue that is known, with its figures: what the page of queues shows, read within a second."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from django.db import OperationalError
from django.db.models import Value

from jobqueue.managers.settling import sqlstate
from jobqueue.models import Job, Stat
from jobqueue.models.expressions import StatementTimestamp
from jobqueue.states import Status

from . import counts, queue_figures
from .counts import COUNT_CAP
from .limited import QUERY_CANCELED, Budget
from .queue_figures import Depth, QueueFigures, Readings
from .queues import PausedQueue, paused_queues
from .snapshot import read_alias
from .worker_figures import read_workers

if TYPE_CHECKING:
    from jobqueue.managers import JobManager

EACH: Final = timedelta(milliseconds=400)
TOTAL: Final = timedelta(seconds=1)
#: A queue that nothing waits in is still known for so long after its last job.
REMEMBERED: Final = timedelta(days=7)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRow:
    """How one queue stands. None: unknown; a number is a lower bound where `capped` names it."""

    figures: QueueFigures
    running: int | None
    scheduled: int | None
    capped: frozenset[str] = frozenset()  # of "running", "scheduled"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueTable:
    """All queues that are known, by name, and the pause of all of them; `unknown` names what could not be read."""

    rows: tuple[QueueRow, ...] = ()
    pause_of_all: PausedQueue | None = None
    unknown: frozenset[str] = frozenset()


@dataclass(slots=True)
class _Counts:
    """Jobs by queue, of the first COUNT_CAP that an index gives."""

    jobs: Counter[str] = field(default_factory=Counter)
    capped: bool = False


def read_queues(manager: JobManager) -> QueueTable:
    """Return every queue that has due, running or scheduled jobs, had some in the last 7 days, is served or paused.

    Of more than 10,000 running jobs, or scheduled ones, only the first that came, or come due, are counted. What takes
    too long is left out and named. Raises django.db errors when the database is away.
    """
    alias = read_alias(manager)
    found: dict[str, Any] = {}
    names: list[str] = []
    budget = Budget(alias, each=EACH, end=time.monotonic() + TOTAL.total_seconds())
    try:
        with budget.open():
            for name, table, read in _reads(manager, alias):
                names.append(name)
                if (value := budget.read(read, of=table)) is not None:
                    found[name] = value
            if "depth" in found:
                found["depth"] |= _long(manager, alias, found["depth"], budget)
                found["estimate"] = _estimate(manager, alias, found["depth"], budget)
    except OperationalError as error:
        if sqlstate(error) != QUERY_CANCELED:  # else the end of the transaction took too long: all was read
            raise
    unknown = frozenset(name for name in names if name not in found)
    pauses: list[PausedQueue] = found.get("paused", [])
    return QueueTable(
        rows=tuple(_rows(found)), pause_of_all=next((one for one in pauses if one.name == "*"), None), unknown=unknown
    )


def _reads(manager: JobManager, alias: str) -> Iterator[tuple[str, str, Callable[[], Any]]]:
    """Yield (name, table, read), those first that nothing can make slow."""
    run = manager.db_manager(alias).run_sql
    running = Job.objects.using(alias).filter(status=Status.RUNNING).order_by("id")
    scheduled = Job.objects.using(alias).filter(status=Status.SCHEDULED).order_by("run_after", "id")
    yield "paused", "jobqueue_queue", partial(paused_queues, manager.write_db)
    yield "workers", "jobqueue_worker", partial(read_workers, manager.write_db)
    yield "running", "jobqueue_job", partial(_counted, running)
    yield "depth", "jobqueue_job", lambda: queue_figures.read_depths(run, cap=COUNT_CAP)
    yield "scheduled", "jobqueue_job", partial(_counted, scheduled)
    yield "arrivals", "jobqueue_job", partial(queue_figures.read_arrivals, run)
    yield "statistics", "jobqueue_stat", partial(queue_figures.read_ended, run)
    yield "remembered", "jobqueue_stat", partial(_remembered, alias)


def _remembered(alias: str) -> set[str]:
    """Return the names of the queues that had jobs of late, from the keys of an index alone."""
    rows = Stat.objects.using(alias).filter(at__gte=StatementTimestamp() - Value(REMEMBERED)).order_by()
    folded = rows.filter(span_seconds__gt=0).values_list("queue", flat=True).distinct()
    # Those that nobody folded yet: a minute's, where maintenance runs.
    others = rows.filter(span_seconds=0).order_by("-at", "-id").values_list("queue", flat=True)[:COUNT_CAP]
    return {*folded, *others}


def _counted(rows: Any) -> _Counts:
    queues: list[str] = list(rows.values_list("queue", flat=True)[: COUNT_CAP + 1])
    return _Counts(Counter(queues[:COUNT_CAP]), capped=len(queues) > COUNT_CAP)


def _long(manager: JobManager, alias: str, depths: dict[str, Depth], budget: Budget) -> dict[str, Depth]:
    """Return the depths again of ten queues that shared what was read, counted up to the cap."""
    long = [queue for queue, depth in depths.items() if depth.capped and depth.jobs < COUNT_CAP][:10]
    if not long:
        return {}
    run = manager.db_manager(alias).run_sql
    again = budget.read(lambda: queue_figures.read_long(run, depths, long, cap=COUNT_CAP), of="jobqueue_job")
    return again or {}


def _estimate(manager: JobManager, alias: str, depths: dict[str, Depth], budget: Budget) -> int | None:
    """Return about how many jobs are due, where a queue has more than are counted."""
    if not any(depth.capped for depth in depths.values()):
        return None
    read = partial(counts.estimates, manager.db_manager(alias).run_sql, ["pending"])
    return (budget.read(read, of="") or {}).get("pending")


def _rows(found: dict[str, Any]) -> Iterator[QueueRow]:
    running: _Counts | None = found.get("running")
    scheduled: _Counts | None = found.get("scheduled")
    counted = {"running": running, "scheduled": scheduled}
    capped = frozenset(name for name, counts in counted.items() if counts is not None and counts.capped)
    read = Readings(
        depths=found.get("depth"),
        arrivals=found.get("arrivals"),
        ended=found.get("statistics"),
        paused=found.get("paused"),
        workers=found.get("workers"),
        pending_estimate=found.get("estimate"),
    )
    for one in queue_figures.queue_figures(read, names=_names(found)):
        yield QueueRow(
            figures=one,
            running=None if running is None else running.jobs[one.queue],
            scheduled=None if scheduled is None else scheduled.jobs[one.queue],
            capped=capped,
        )


def _names(found: dict[str, Any]) -> set[str]:
    """Return the names that the figures of now do not know of."""
    names = set(found.get("remembered", ()))
    for counted in (found.get("running"), found.get("scheduled")):
        names |= set(counted.jobs) if counted is not None else set()
    for worker in found.get("workers", ()):
        names |= set(worker.queues) if worker.alive else set()
    return names - {"*"}
