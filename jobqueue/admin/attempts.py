"""The page of one attempt with its error and traceback in full; reached from the page of its job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from jobqueue.models import Attempt, Job
from jobqueue.redaction import mask_text

from .base import BULKY, ReadOnlyAdmin, job_url, text_block
from .history import ending
from .lists import JobListAdmin
from .wording import EMPTY, instant_of, money, size

if TYPE_CHECKING:
    from django.db.models import QuerySet


@admin.register(Attempt)
class AttemptAdmin(ReadOnlyAdmin):
    """Attempts that did not end well, newest first."""

    list_display = ("id", "of_job", "number", "outcome", "error_class", "worker_id", "finished")
    list_filter = ("outcome",)
    lookups = frozenset({"outcome__exact", "job__id__exact", "id__lt"})
    fields = (
        *("of_job", "number", "lease_epoch", "outcome", "ended_how", "exit_code", "worker_id", "claimed", "started"),
        *("finished", "amount", "cpu_seconds", "peak_memory", "error_class", "fingerprint", "error", "trace"),
    )
    readonly_fields = fields
    claimed = instant_of("claimed_at", _("claimed"))
    started = instant_of("started_at", _("started"))
    finished = instant_of("finished_at", _("finished"))
    ordering = ("-id",)

    def has_module_permission(self, request: HttpRequest) -> bool:
        """Return False: the pages of the jobs lead here."""
        return False

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the attempts of the jobs that the user may see; the texts are read for the page of one only."""
        rows: QuerySet[Any] = super().get_queryset(request).defer("error_text", "traceback")
        jobs = self._jobs()
        # Asked where a subclass hides jobs only: the join costs what it is worth.
        if type(jobs).get_queryset is JobListAdmin.get_queryset:
            return rows
        return rows.filter(job__in=jobs.get_queryset(request).order_by().values("pk"))

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Tell whether the user may see the attempt: whether they may see its job."""
        jobs = self._jobs()
        if obj is None or type(jobs).has_view_permission is ReadOnlyAdmin.has_view_permission:
            return super().has_view_permission(request)
        job = Job.objects.defer(*BULKY).filter(pk=obj.job_id).first()
        return job is not None and bool(jobs.has_view_permission(request, job))

    def _jobs(self) -> Any:
        """Return the page of the jobs on this site; it may be a subclass that hides some."""
        return self.admin_site.get_model_admin(Job)

    @admin.display(description=_("job"))
    def of_job(self, attempt: Attempt) -> SafeString:
        """Return a link to its job."""
        return format_html('<a href="{}">{}</a>', job_url(attempt.job_id), attempt.job_id)

    @admin.display(description=_("how it ended"))
    def ended_how(self, attempt: Attempt) -> str:
        """Return in words how it ended."""
        return ending(attempt.outcome, attempt.exit_code, attempt.error_class) or EMPTY

    @admin.display(description=_("cost"))
    def amount(self, attempt: Attempt) -> str:
        """Return what it cost."""
        return money(attempt.cost)

    @admin.display(description=_("peak memory"))
    def peak_memory(self, attempt: Attempt) -> str:
        """Return the most memory that it used."""
        return size(attempt.peak_memory_bytes)

    @admin.display(description=_("error"))
    def error(self, attempt: Attempt) -> SafeString | str:
        """Return its error, escaped, its secrets hidden."""
        return text_block(_("error"), mask_text(attempt.error_text or ""))

    @admin.display(description=_("traceback"))
    def trace(self, attempt: Attempt) -> SafeString | str:
        """Return its traceback, escaped, its secrets hidden."""
        return text_block(_("traceback"), mask_text(attempt.traceback or ""))
