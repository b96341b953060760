"""Stuck jobs: running ones whose lease ran out, or that run longer than their type may."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from django.contrib import admin
from django.db.models import BooleanField, DurationField, ExpressionWrapper, F, Value
from django.db.models.functions import Greatest, Least
from django.db.models.lookups import LessThan
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext_lazy as _

from jobqueue.models import Job, StuckJob
from jobqueue.models.expressions import StatementTimestamp

from .acting import cancel, release
from .base import job_link, job_url
from .filters import QueueFilter, TypeFilter
from .lists import JobListAdmin
from .wording import instant_of, span

if TYPE_CHECKING:
    from django.db.models import QuerySet

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@admin.register(StuckJob)
class StuckJobAdmin(JobListAdmin):
    """Jobs that a person may give back or cancel; a waiting job is never one of them (case C140)."""

    actions = (release, cancel)
    list_display = ("job", "job_type", "queue", "why", "running_for", "tries", "worker_id", "leased", "cancel_at")
    cancel_at = instant_of("cancel_requested_at", _("cancel requested"))
    list_display_links = None
    list_filter = (QueueFilter, TypeFilter)
    ordering = ("id",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the stuck jobs, with how long they have run by the database's clock."""
        # Not before 1970 and not in the future, which only rows written by hand are: an interval has its bounds, too.
        started = Least(Greatest(F("started"), Value(EPOCH)), StatementTimestamp())
        age = ExpressionWrapper(StatementTimestamp() - started, output_field=DurationField())
        expired = ExpressionWrapper(LessThan(F("lease_until"), StatementTimestamp()), output_field=BooleanField())
        rows: Any = super().get_queryset(request)
        stuck: QuerySet[Any] = rows.stuck().annotate(age=age, expired=expired)
        return stuck

    def searched(self, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Return all of them: there are never more than the workers have slots."""
        return queryset

    def change_view(self, request: HttpRequest, object_id: str, *args: Any, **kwargs: Any) -> HttpResponse:
        """Go to the job's own page."""
        return HttpResponseRedirect(job_url(int(object_id)) if object_id.isdecimal() else "../")

    @admin.display(description=_("job"))
    def job(self, job: Job) -> str:
        """Return a link to the job's page."""
        return job_link(job)

    @admin.display(description=_("reason"))
    def why(self, job: Any) -> Any:
        """Return what makes it stuck."""
        return _("its lease ran out") if job.expired else _("it runs too long")

    @admin.display(description=_("running for"))
    def running_for(self, job: Any) -> str:
        """Return how long it has run."""
        return span(job.age)
