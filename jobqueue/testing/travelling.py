"""Time travel for tests: what a job waits for is an instant of the database's clock, so rows move, not clocks.

travel(timedelta(hours=1)) makes every job an hour older: what was scheduled within the hour is due, a backoff is over,
a lease has run out, and what was finished is an hour nearer to being pruned. due_now() makes scheduled jobs due and
leaves all else as it was.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.db import models, transaction
from django.db.models import F, Max

from jobqueue.models import Attempt, Job
from jobqueue.models.expressions import StatementTimestamp
from jobqueue.states import Status

if TYPE_CHECKING:
    from django.db.models import QuerySet


def travel(by: timedelta) -> None:
    """Let that much time pass for all jobs and their attempts; what has come due is PENDING then.

    Statistics, costs, budgets, workers and incidents stay where they are, and so does Python's clock: freeze or move
    that as you do elsewhere. Raises ValueError unless `by` is positive: what has run cannot be made not to have.
    """
    if by <= timedelta(0):
        msg = f"time travel goes forward only, not by {by}"
        raise ValueError(msg)
    with transaction.atomic(using=Job.objects.write_db):
        for model in (Job, Attempt):
            rows: QuerySet[Any] = model._default_manager.using(Job.objects.write_db)
            rows.update(**{name: F(name) - by for name in _instants(model)})
    _promote()


def due_now(*jobs: Job | int) -> list[int]:
    """Make scheduled jobs due, all of them or those named (jobs or ids), and return their ids, the first due first.

    They move together, so that the order in which they would have come due is the one in which they run. Jobs that
    are not scheduled are left alone: a retry, a snooze and a job with a `run_after` are.
    """
    rows = Job.objects.using(Job.objects.write_db).filter(status=Status.SCHEDULED)
    if jobs:
        rows = rows.filter(pk__in=[job if isinstance(job, int) else job.pk for job in jobs])
    ids = list(rows.order_by("run_after", "pk").values_list("pk", flat=True))
    latest = rows.filter(run_after__gt=StatementTimestamp()).aggregate(latest=Max("run_after"))["latest"]
    if latest is not None:
        rows.filter(pk__in=ids).update(run_after=F("run_after") - (models.Value(latest) - StatementTimestamp()))
    _promote()
    return ids


def _instants(model: type[models.Model]) -> list[str]:
    return [field.name for field in model._meta.concrete_fields if isinstance(field, models.DateTimeField)]


def _promote() -> None:
    while Job.objects.promote():
        pass
