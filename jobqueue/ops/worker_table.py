"""The workers with what each runs and what was asked of it: what their page shows, read within a second."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from django.db import OperationalError
from django.db.models import DurationField, ExpressionWrapper, F, Value
from django.db.models.functions import Coalesce, Greatest, Least

from jobqueue.managers.settling import sqlstate
from jobqueue.models import Job, Order, Worker
from jobqueue.models.expressions import StatementTimestamp
from jobqueue.states import Status

from .limited import QUERY_CANCELED, Budget
from .worker_figures import WorkerFigures, figures_of

if TYPE_CHECKING:
    from django.db.models import QuerySet

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
EACH: Final = timedelta(milliseconds=400)
TOTAL: Final = timedelta(seconds=1)
MOST_WORKERS: Final = 200
#: Of all running jobs so many are looked at, those enqueued first.
MOST_RUNS: Final = 1_000
MOST_ORDERS: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningJob:
    """A job that a worker holds, and for how long by the database's clock."""

    id: int
    job_type: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedOf:
    """The last time that a worker was asked to end, or its own handlers' stacks."""

    kind: str
    by: str
    seconds: float  # ago
    answered: bool


@dataclass(slots=True, kw_only=True)
class WorkerTable:
    """The workers; `runs` and `orders` are by worker id, `unknown` names what could not be read in time."""

    workers: tuple[WorkerFigures, ...] = ()
    more: bool = False
    runs: dict[str, list[RunningJob]] = field(default_factory=dict)
    runs_capped: bool = False
    orders: dict[str, AskedOf] = field(default_factory=dict)
    unknown: frozenset[str] = frozenset()


def read_table(workers: QuerySet[Worker], jobs: QuerySet[Job] | None) -> WorkerTable:
    """Return the workers of a set, with those of the jobs that each runs (None: not asked for).

    What takes too long is left out and named. Raises django.db errors when the database is away.
    """
    alias, found = workers.db, WorkerTable()
    reads: dict[str, tuple[str, Callable[[], Any]]] = {
        "workers": ("jobqueue_worker", lambda: figures_of(workers, MOST_WORKERS + 1)),
        "orders": ("jobqueue_order", lambda: _orders(alias)),
    }
    if jobs is not None:
        reads["runs"] = ("jobqueue_job", lambda: _runs(jobs.using(alias)))
    read: dict[str, Any] = {}
    budget = Budget(alias, each=EACH, end=time.monotonic() + TOTAL.total_seconds())
    try:
        with budget.open():
            read = {name: budget.read(query, of=table) for name, (table, query) in reads.items()}
    except OperationalError as error:
        if sqlstate(error) != QUERY_CANCELED:  # else the end of the transaction took too long: all was read
            raise
    found.unknown = frozenset(name for name in reads if read.get(name) is None)
    rows = read.get("workers") or ()
    found.workers, found.more = rows[:MOST_WORKERS], len(rows) > MOST_WORKERS
    found.orders = read.get("orders") or {}
    runs = read.get("runs") or []
    found.runs_capped = len(runs) > MOST_RUNS
    for worker_id, one in runs[:MOST_RUNS]:
        found.runs.setdefault(worker_id, []).append(one)
    return found


def _runs(jobs: QuerySet[Job]) -> list[tuple[str, RunningJob]]:
    since = Coalesce(Greatest("run_started_at", "claimed_at"), "created_at")
    # Not before 1970 and not in the future, which only rows written by hand are: an interval has its bounds, too.
    started = Least(Greatest(since, Value(EPOCH)), StatementTimestamp())
    age = ExpressionWrapper(StatementTimestamp() - started, output_field=DurationField())
    rows = jobs.filter(status=Status.RUNNING, worker_id__isnull=False).order_by("id").annotate(age=age)
    values = rows.values_list("worker_id", "pk", "job_type", "age")[: MOST_RUNS + 1]
    return [
        (worker_id or "", RunningJob(id=pk, job_type=job_type, seconds=age.total_seconds()))
        for worker_id, pk, job_type, age in values
    ]


def _orders(alias: str) -> dict[str, AskedOf]:
    """Return the last order to end of each worker that has one, of a day's at most: older ones are pruned."""
    age = ExpressionWrapper(StatementTimestamp() - F("asked_at"), output_field=DurationField())
    newest = Order.objects.using(alias).annotate(age=age).order_by("-id")[:MOST_ORDERS]
    return last_of(row for row in newest if row.kind in (Order.Kind.DRAIN, Order.Kind.STOP))


def last_of(newest_first: Iterable[Any]) -> dict[str, AskedOf]:
    """Return the first of each worker."""
    found: dict[str, AskedOf] = {}
    for row in newest_first:
        if row.worker_id not in found:
            found[row.worker_id] = AskedOf(
                kind=row.kind,
                by=row.asked_by,
                seconds=row.age.total_seconds(),
                answered=row.answered_at is not None,
            )
    return found
