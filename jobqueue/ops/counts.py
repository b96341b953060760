"""The eleven figures of all queues together: counts up to a cap by small indexes, sums, and an age."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from functools import partial
from typing import Any, Final, NamedTuple

from django.db.models import QuerySet

from jobqueue import sql
from jobqueue.internal import INTERNAL_QUEUE
from jobqueue.managers import counting
from jobqueue.managers.rows import Run
from jobqueue.models import Attempt
from jobqueue.models.expressions import StatementTimestamp
from jobqueue.outcomes import Outcome
from jobqueue.states import Status

from .costs import total_cost

COUNT_CAP: Final = 10_000
HOUR: Final = timedelta(hours=1)
DAY: Final = timedelta(hours=24)
UNIT: Final = "USD"

#: Figures that are counts and so may stop at the cap, and the small index that knows about how many there are.
COUNTED: Final = {
    "pending": "jobqueue_job_claim",
    "running": "jobqueue_job_running",
    "scheduled": "jobqueue_job_scheduled",
    "dead": "jobqueue_job_dead",
    "dead_1h": None,
    "deadline_1h": None,
    "stuck_running": None,
}


class Read(NamedTuple):
    """How one figure is read, and of which table."""

    query: Callable[[], Any]
    of: str
    part: float = 1.0  # of the time that a single read may take


def settled_reads(jobs: QuerySet[Any], run: Run, alias: str) -> dict[str, Read]:
    """Return the reads of tables and indexes that nothing makes slow but their own size."""
    since = StatementTimestamp() - HOUR
    dead = jobs.filter(status=Status.DEAD).exclude(queue=INTERNAL_QUEUE).order_by("status", "finished_at", "id")
    late = Attempt.objects.using(alias).filter(outcome=Outcome.DEADLINE, finished_at__gt=since)
    late = late.exclude(job__queue=INTERNAL_QUEUE).order_by("outcome", "finished_at")
    return {
        "done": Read(lambda: run(sql.DONE_JOBS, {"window": DAY})[0][0], "jobqueue_stat"),
        "cost_1h_usd": Read(lambda: total_cost(since, unit=UNIT, using=alias), "jobqueue_cost"),
        "deadline_1h": Read(partial(_count, late), "jobqueue_attempt"),
        "dead": Read(partial(_count, dead), "jobqueue_job"),
        "dead_1h": Read(partial(_count, dead.filter(finished_at__gt=since)), "jobqueue_job"),
        "scheduled": Read(
            partial(_count, jobs.filter(status=Status.SCHEDULED).order_by("run_after", "id")), "jobqueue_job"
        ),
    }


def passing_reads(jobs: Any, run: Run) -> dict[str, Read]:
    """Return the reads of indexes that every job passes through: a long transaction elsewhere makes them slow."""
    due = jobs.filter(status=Status.PENDING).order_by("queue", "priority", "run_after", "id")
    reads: dict[str, Callable[[], Any]] = {
        "pending": partial(_count, due),
        "running": partial(_count, jobs.filter(status=Status.RUNNING).order_by()),
        "stuck_running": partial(_count, jobs.stuck().order_by()),
        "oldest_pending_sec": lambda: max(counting.oldest_pending_seconds(run) or 0.0, 0.0),
    }
    return {name: Read(query, "jobqueue_job", part=0.5) for name, query in reads.items()}


def estimates(run: Run, names: Iterable[str]) -> dict[str, int]:
    """Return about how many there are of capped figures, of those that a small index knows."""
    indexes = {index: name for name in names if (index := COUNTED[name])}
    rows = run(sql.INDEX_ESTIMATES, {"indexes": list(indexes)}) if indexes else []
    return {indexes[index]: jobs for index, jobs in rows if jobs is not None and jobs > COUNT_CAP}


def _count(rows: QuerySet[Any]) -> int:
    """Count up to one above the cap: so it can be told whether there are more."""
    return rows[: COUNT_CAP + 1].count()
