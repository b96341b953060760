"""The list of all jobs, and the page of one: what it is, how it stands, and what happened to it."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from django.contrib import admin
from django.contrib.admin.utils import flatten_fieldsets
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_GET, require_POST, require_safe

from jobqueue.models import Job

from . import detail, overview
from .acting import VERBS, cancel, discard, release, retry, tell
from .base import job_url, number_of, text_block, user_of
from .diagnosis import DiagnosisAdmin
from .filters import QueueFilter, TypeFilter
from .job_page import page_of
from .masking import masked
from .windows import IdSearch
from .wording import instant_of, money, size

#: The facts of the last error: left out where there was none.
LAST_ERROR: Final = (("outcome", "error_class"), "fingerprint", "error_text")


@admin.register(Job)
class JobAdmin(DiagnosisAdmin):
    """Every job, newest first, and the page of one."""

    actions = (retry, discard, cancel, release)
    list_display = ("id", "job_type", "queue", "state", "tries", "error", "created", "moment")
    list_filter = (QueueFilter, TypeFilter)
    search_class, has_tabs = IdSearch, True
    list_display_links = ("id",)
    change_form_template = "admin/jobqueue/job/change_form.html"
    offers_declared = True
    fieldsets = (
        (None, {"fields": (("id", "job_type"), ("queue", "priority"), ("owner", "dedupe_key"))}),
        (_("Last error"), {"fields": LAST_ERROR}),
        (
            _("Times"),
            {
                "fields": (
                    ("created", "due"), ("first_started", "claimed"), ("run_started", "finished"),
                    ("cancel_requested", "unknown"), "updated",
                )
            },
        ),
        (
            _("Runs"),
            {
                "fields": (
                    ("tries", "interruptions"), ("worker_id", "lease_epoch"), ("leased", "peak_memory"),
                    ("total", "last"), "cpu_seconds",
                )
            },
        ),
    )  # fmt: skip

    first_started = instant_of("first_started_at", _("first started"))
    claimed = instant_of("claimed_at", _("claimed"))
    run_started = instant_of("run_started_at", _("run started"))
    cancel_requested = instant_of("cancel_requested_at", _("cancel requested"))
    unknown = instant_of("unknown_since", _("type unknown since"))
    updated = instant_of("updated_at", _("updated"))

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """Return the groups of facts; that of the last error where there was one."""
        found = super().get_fieldsets(request, obj)
        if obj is None or obj.outcome is not None or obj.preview.error:
            return found
        return [group for group in found if group[1]["fields"] != LAST_ERROR]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        """Return every field: the page changes nothing."""
        return tuple(flatten_fieldsets(self.fieldsets))

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        """Return the job, read from the primary: a replica may still show it as it was before an action."""
        number = number_of(object_id)
        if number is None:
            return None
        read: dict[int, Any] = request.__dict__.setdefault("_jobqueue_jobs", {})
        if number not in read:
            rows = detail.with_preview(self.get_queryset(request).using(Job.objects.write_db))
            job = rows.filter(pk=number).first()
            if job is not None:
                job.preview = detail.preview_of(job)
            read[number] = job
        return read[number]

    def get_urls(self) -> list[Any]:
        """Add the addresses that act on one job and that give its JSON in full."""
        wrap = self.admin_site.admin_view
        return [
            path("overview/<slug:name>/", wrap(require_safe(self.overview_view)), name="jobqueue_overview"),
            path("<int:job_id>/act/<slug:name>/", wrap(require_POST(self.act_view)), name="jobqueue_job_act"),
            path("<int:job_id>/<slug:part>.json", wrap(require_GET(self.json_view)), name="jobqueue_job_json"),
            *super().get_urls(),
        ]

    def overview_view(self, request: HttpRequest, name: str) -> HttpResponse:
        """Answer with one part of the overview, for whoever may see it: not all of them are about jobs."""
        return overview.part_view(request, self.admin_site, name)

    def act_view(self, request: HttpRequest, job_id: int, name: str) -> HttpResponse:
        """Act on one job, and go back to its page."""
        if name not in VERBS:
            raise Http404
        self.job_for(request, job_id, name)
        reason = request.POST.get("reason", "")
        tell(request, name, self.act_of(request, name)([job_id], actor=user_of(request), reason=reason))
        return HttpResponseRedirect(job_url(job_id))

    def json_view(self, request: HttpRequest, job_id: int, part: str) -> HttpResponse:
        """Return the payload, the result or the progress in full, as a file, its secrets hidden."""
        self.visible_job(request, job_id)
        text = detail.json_text(job_id, part, using=Job.objects.write_db) if part in detail.PARTS else None
        if text is None:
            raise Http404
        headers = {"Content-Disposition": f'attachment; filename="job-{job_id}-{part}.json"'}
        return HttpResponse(masked(text), content_type="application/json", headers=headers)

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show one job with its history and what the user may do to it."""
        context: dict[str, Any] = dict(extra_context or {})
        job = self.get_object(request, object_id) if self.has_view_permission(request) else None
        if job is not None:
            auditor = user_of(request).has_perm("jobqueue.view_audit")
            allowed = partial(self.may_act, request, job=job)
            context |= page_of(job, self.get_queryset(request), allowed=allowed, auditor=auditor)
            context |= {"subtitle": None, "title": str(job)}
        return super().change_view(request, object_id, form_url, context)

    @admin.display(description=_("error"))
    def error_text(self, job: Any) -> SafeString | str:
        """Return the text of the last error, escaped."""
        return text_block(_("error"), job.preview.error)

    @admin.display(description=_("cost, all attempts"))
    def total(self, job: Job) -> str:
        """Return what all attempts cost."""
        return money(job.cost_total)

    @admin.display(description=_("cost, last attempt"))
    def last(self, job: Job) -> str:
        """Return what the last attempt cost."""
        return money(job.cost_last)

    @admin.display(description=_("peak memory"))
    def peak_memory(self, job: Job) -> str:
        """Return the most memory that the last attempt used."""
        return size(job.peak_memory_bytes)
