"""The jobs that cost most, and what was spent on attempts that did not end well: over the jobs that are still kept."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from django.db import connections, router
from django.db.models import DateTimeField, F, OuterRef, QuerySet, Subquery, Sum
from django.db.models.functions import Greatest

from jobqueue import sql
from jobqueue.conf import get_settings
from jobqueue.models import Attempt, Job
from jobqueue.outcomes import Outcome

from .costs import costs_by, moment

#: So many jobs are looked at for the costliest ones, dearest first, whatever their age.
REACH: Final = 10_000
#: So many attempts that failed and cost something are looked at, newest first, where a page asks for their sums.
FAILURES: Final = 30_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CostlyJob:
    """One of the jobs that cost most. Amounts are in the first of JOBQUEUE["COST_UNITS"]."""

    id: int
    job_type: str
    queue: str
    owner: str
    status: int
    attempts: int
    cost_total: Decimal
    cost_last: Decimal
    at: datetime  # its end, or the last time that it was written to


@dataclass(frozen=True, slots=True)
class RetryCost:
    """What one type spent in the first of JOBQUEUE["COST_UNITS"]: in all, and on attempts that did not end well."""

    job_type: str
    spent: Decimal
    failed: Decimal

    @property
    def share(self) -> Decimal:
        """The part that the failed attempts had, 0 to 1 (0 where nothing was spent)."""
        return max(Decimal(0), min(Decimal(1), self.failed / self.spent)) if self.spent > 0 else Decimal(0)


def costliest_jobs(since: datetime | timedelta, *, limit: int = 20, using: str | None = None) -> list[CostlyJob]:
    """Return the jobs that cost most of those that ended, or were last written to, since an instant or so long ago.

    Only jobs that are still kept are found, and only among the 10,000 dearest of all times: where more than so many
    older jobs were dearer, some are missing. Sums that are complete are those of costs_by().
    """
    alias = using or get_settings().DATABASE or router.db_for_read(Job)
    with connections[alias].cursor() as cursor:
        at, window = (None, since) if isinstance(since, timedelta) else (since, None)
        params: dict[str, Any] = {"since": at, "window": window, "take": limit, "reach": REACH}
        cursor.execute(sql.COSTLIEST_JOBS, params)
        names = [column.name for column in cursor.description]
        return [CostlyJob(**dict(zip(names, row, strict=True))) for row in cursor.fetchall()]


def failures_since(since: datetime, *, using: str, most: int = FAILURES) -> datetime:
    """Return an instant since which no more than so many attempts failed and cost something: that one, or a later."""
    # In the order of the column itself: what is read of it is another expression, which would be sorted.
    at = Greatest(F("finished_at"), since, output_field=DateTimeField())
    rows = _failures(since, using).annotate(ended=at).order_by("-finished_at").values_list("ended", flat=True)
    return next(iter(rows[most : most + 1]), since)


def _failures(since: Any, using: str) -> QuerySet[Attempt]:
    outcomes = [outcome for outcome in Outcome if outcome != Outcome.DONE]
    return Attempt.objects.using(using).filter(outcome__in=outcomes, finished_at__gte=moment(since)).exclude(cost=0)


def retry_costs(since: datetime | timedelta, *, using: str | None = None) -> list[RetryCost]:
    """Return, by type, what was spent since an instant and how much of it on attempts that did not end well.

    Those are what retries and dead letters cost. Their rows are pruned with their jobs: before RETENTION_DONE_SECONDS
    ago `failed` is too low. The dearest failures come first; types without any are left out.
    """
    alias = using or get_settings().DATABASE or router.db_for_read(Attempt)
    unit = get_settings().COST_UNITS[0]
    # Each job by its key: joined, the server may think it cheaper to walk through all jobs.
    job_type = Job.objects.using(alias).filter(pk=OuterRef("job_id")).values("job_type")
    rows = _failures(since, alias).values(of_type=Subquery(job_type)).annotate(failed=Sum("cost"))
    failed = {row["of_type"]: row["failed"] for row in rows}
    spent = {group.key[0]: group.amount for group in costs_by("job_type", since=since, unit=unit, using=alias)}
    found = [RetryCost(name, spent.get(name, amount), amount) for name, amount in failed.items()]
    return sorted(found, key=lambda cost: (-cost.failed, cost.job_type))
