"""Stuck jobs: running ones whose lease ran out, or that run longer than their type may."""

from __future__ import annotations

import zlib
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import BooleanField, DurationField, Expression, ExpressionWrapper, F, OuterRef, Subquery, Value
from django.db.models.functions import Greatest, Least
from django.db.models.lookups import LessThan
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe

from jobqueue.models import Job, StuckJob, Worker
from jobqueue.models.expressions import StatementTimestamp
from jobqueue.ops.limited import read_within
from jobqueue.ops.worker_figures import silent_after

from . import live
from .acting import ActingAdmin, cancel, may, release
from .badges import badge
from .base import job_link, job_url, number_of
from .filters import QueueFilter, TypeFilter
from .lists import JobListAdmin
from .paging import CappedPaginator
from .wording import EMPTY, instant, span

if TYPE_CHECKING:
    from django.db.models import QuerySet

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
LIMIT: Final = timedelta(milliseconds=400)


@admin.action(description=_("Mark selected stuck jobs dead"), permissions=["mark_dead"])
def mark_dead(modeladmin: ActingAdmin, request: HttpRequest, queryset: QuerySet[Job]) -> HttpResponse | None:
    """Make dead letters of stuck jobs."""
    return modeladmin.take(request, "mark_dead", queryset)


@admin.register(StuckJob)
class StuckJobAdmin(JobListAdmin):
    """Jobs that a person may give back, give up or cancel; a waiting job is never one of them (case C140)."""

    actions = (release, mark_dead, cancel)
    change_list_template = "admin/jobqueue/stuckjob/change_list.html"
    list_display = ("job", "job_type", "why", "running_for", "lease", "worker", "queue", "tries")
    list_display_links = None
    list_filter = (QueueFilter, TypeFilter)
    ordering = ("id",)

    def get_urls(self) -> list[Any]:
        """Add the address of the live part."""
        view = self.admin_site.admin_view(require_safe(self.part_view))
        return [path("part/", view, name="jobqueue_stuckjob_part"), *super().get_urls()]

    def get_list_display(self, request: HttpRequest) -> Any:
        """Offer what is asked of workers to whoever may ask."""
        shown: tuple[Any, ...] = tuple(super().get_list_display(request))
        return (*shown[:6], "orders", *shown[6:]) if may(request, "ask_stack") else shown

    def has_mark_dead_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Tell whether the user may make dead letters of stuck jobs."""
        return may(request, "mark_dead")

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Show the list, with a part that tells when others are stuck than those that it shows."""
        response = super().changelist_view(request, extra_context)
        context = getattr(response, "context_data", None) or {}
        cl = context.get("cl")
        if cl is not None:
            whole = not (cl.has_active_filters or cl.query) and cl.page_num == 1
            seen = f"?seen={_mark(cl.result_list)}" if whole else ""
            context["part_url"] = reverse("admin:jobqueue_stuckjob_part") + seen
            context["stuck"] = {"words": _counted(cl.paginator) if whole else "", "changed": False}
        return response

    def part_view(self, request: HttpRequest) -> HttpResponse:
        """Tell how many jobs are stuck now, and whether those are others than the page shows."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        rows = self.get_queryset(request).order_by("pk").only("pk", "lease_epoch")[: self.list_per_page + 1]
        found = read_within(rows.db, lambda: list(rows), LIMIT)
        seen = request.GET.get("seen")
        if found is None:
            stuck = {"words": _unknown(), "changed": False}
        else:
            first = found[: self.list_per_page]
            changed = seen is not None and seen != _mark(first)
            stuck = {"words": _count(len(first), more=len(found) > len(first)), "changed": changed}
        return live.respond(request, "admin/jobqueue/stuckjob/part.html", {"stuck": stuck})

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the stuck jobs, with how long they have run by the database's clock, and when their worker was heard.

        A worker that has ended, or was removed, has no row and was heard of never.
        """
        # Not before 1970 and not in the future, which only rows written by hand are: an interval has its bounds, too.
        started = Least(Greatest(F("started"), Value(EPOCH)), StatementTimestamp())
        ends = Greatest(F("lease_until"), Value(EPOCH))
        expired = ExpressionWrapper(LessThan(F("lease_until"), StatementTimestamp()), output_field=BooleanField())
        heard = Subquery(Worker.objects.filter(pk=OuterRef("worker_id")).values("heartbeat_at"))
        rows: Any = super().get_queryset(request)
        stuck: QuerySet[Any] = rows.stuck().annotate(
            age=_span(StatementTimestamp() - started),
            expired=expired,
            lease_over=_span(StatementTimestamp() - ends),
            silence=_span(StatementTimestamp() - heard),
        )
        return stuck

    def change_view(self, request: HttpRequest, object_id: str, *args: Any, **kwargs: Any) -> HttpResponse:
        """Go to the job's own page."""
        number = number_of(object_id)
        return HttpResponseRedirect("../" if number is None else job_url(number))

    @admin.display(description=_("job"))
    def job(self, job: Job) -> str:
        """Return a link to the job's page."""
        return job_link(job)

    @admin.display(description=_("reason"))
    def why(self, job: Any) -> Any:
        """Return what makes it stuck, and whether somebody has asked to cancel it."""
        why = gettext("its lease ran out") if job.expired else gettext("it runs too long")
        if job.cancel_requested_at is None:
            return why
        asked = gettext("cancel requested at %(time)s") % {"time": instant(job.cancel_requested_at)}
        return format_html("{}<br>{}", why, asked)

    @admin.display(description=_("running for"))
    def running_for(self, job: Any) -> str:
        """Return how long it has run."""
        return span(job.age)

    @admin.display(description=_("lease"))
    def lease(self, job: Any) -> str:
        """Return when it ran out, or that it is being renewed."""
        if job.lease_over is None:
            return EMPTY
        over = round(job.lease_over.total_seconds())
        if over >= 0:
            return gettext("ran out %(age)s ago") % {"age": span(over)}
        return gettext("renewed, for %(time)s more") % {"time": span(-over)}

    @admin.display(description=_("worker"))
    def worker(self, job: Any) -> SafeString | str:
        """Return the worker's id and whether it lives."""
        if not job.worker_id:
            return EMPTY
        if job.silence is None:
            return format_html("{} {}", job.worker_id, badge("bad", gettext("gone")))
        seconds = round(job.silence.total_seconds())
        lives = seconds < silent_after()
        words = gettext("lives") if lives else gettext("silent for %(age)s") % {"age": span(seconds)}
        return format_html("{} {}", job.worker_id, badge("ok" if lives else "bad", words))

    @admin.display(description=_("its handler"))
    def orders(self, job: Any) -> SafeString:
        """Return a link to where the worker is asked for the stack, and told to kill."""
        label = gettext("Stack of job %(job)s, or kill it") % {"job": job.pk}
        return format_html(
            '<a href="{}#jobqueue-stack" aria-label="{}">{}</a>', job_url(job.pk), label, gettext("Stack, kill…")
        )


def _counted(pages: CappedPaginator) -> str:
    """Return how many jobs are stuck, in words, as far as the list could count them."""
    if pages.unknown:
        return _unknown()
    return _count(pages.count, more=pages.capped)


def _unknown() -> str:
    return gettext("Unknown: the database is busy.")


def _count(jobs: int, *, more: bool) -> str:
    """Return how many jobs are stuck, in words; `more` that there are others, which were not counted."""
    if more:
        return gettext("More than %d jobs are stuck now.") % jobs
    return ngettext("%d job is stuck now.", "%d jobs are stuck now.", jobs) % jobs


def _mark(jobs: Any) -> str:
    """Return what changes when others are stuck."""
    return f"{zlib.crc32(repr([(job.pk, job.lease_epoch) for job in jobs]).encode()):08x}"


def _span(difference: Any) -> Expression:
    return ExpressionWrapper(difference, output_field=DurationField())
