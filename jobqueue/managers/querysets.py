"""The named querysets of Job.objects: which rows, in the words of people and code."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from django.db import models
from django.db.models import F, Func, Q
from django.db.models.functions import Coalesce, Greatest

from jobqueue.conf import get_settings
from jobqueue.registry import registry
from jobqueue.states import Status

if TYPE_CHECKING:
    from jobqueue.models import Job

    QuerySetBase = models.QuerySet[Job]
else:
    QuerySetBase = models.QuerySet


def patience() -> tuple[float, dict[str, float]]:
    """Return how many seconds a run may take before it is stuck: of any type, and of each that may take longer."""
    seconds = get_settings().STUCK_AFTER_SECONDS
    longer = {name: duration + 60 for name, duration in registry.durations().items() if duration + 60 > seconds}
    return seconds, longer


class JobQuerySet(QuerySetBase):
    """Names the rows that people and code ask for."""

    def due(self) -> JobQuerySet:
        """Return jobs that wait for a worker, in claim order within a queue."""
        return self.filter(status=Status.PENDING).order_by("priority", "run_after", "id")

    def dead(self) -> JobQuerySet:
        """Return dead letters, newest first."""
        return self.filter(status=Status.DEAD).order_by("-finished_at", "-id")

    def stuck(self) -> JobQuerySet:
        """Return running jobs whose lease ran out, or that run longer than max(STUCK_AFTER, own deadline + 60 s)."""
        now = Func(template="statement_timestamp()", output_field=models.DateTimeField())
        seconds_of_all, patient = patience()
        started = Coalesce(Greatest(F("run_started_at"), F("claimed_at")), F("created_at"))
        late = Q(started__lt=now - timedelta(seconds=seconds_of_all)) & ~Q(job_type__in=list(patient))
        for name, seconds in patient.items():
            late |= Q(job_type=name, started__lt=now - timedelta(seconds=seconds))
        return self.filter(status=Status.RUNNING).annotate(started=started).filter(Q(lease_until__lt=now) | late)
