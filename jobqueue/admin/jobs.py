"""The list of all jobs, and the page of one: what it is, how it stands, and what happened to it."""

from __future__ import annotations

from typing import Any, Final

from django.contrib import admin
from django.contrib.admin.utils import flatten_fieldsets
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_GET, require_POST

from jobqueue import operations
from jobqueue.models import Job
from jobqueue.ops.reasons import STUCK, Reason, why
from jobqueue.states import ACTIVE, Status

from . import detail
from .acting import VERBS, cancel, discard, may, release, retry, tell
from .base import LARGEST_ID, job_url, text_block, user_of
from .filters import QueueFilter, TypeFilter
from .masking import masked
from .repair import RepairAdmin, repairs
from .wording import instant, instant_of, money, size, span

#: How a list of one status is read in the order of its index: sorting by id would walk past every other row.
ORDERS: Final[dict[str, tuple[str, ...]]] = {
    str(int(Status.SCHEDULED)): ("run_after", "id"),
    **{str(int(status)): ("-finished_at", "-id") for status in (Status.DONE, Status.DEAD, Status.CANCELLED)},
}
#: What the page of a job offers, by its status; release only where the job is stuck.
OFFERED: Final[dict[int, tuple[str, ...]]] = {
    **{int(status): ("cancel",) for status in ACTIVE},
    int(Status.RUNNING): ("release", "cancel"),
    int(Status.DEAD): ("retry", "discard"),
}

#: What the page asks and answers at its top, by the status.
QUESTIONS: Final[dict[int, Any]] = {
    **dict.fromkeys((int(Status.PENDING), int(Status.SCHEDULED)), _("Why it is not running")),
    int(Status.RUNNING): _("What it is doing"),
    **dict.fromkeys((int(Status.DONE), int(Status.DEAD), int(Status.CANCELLED)), _("How it ended")),
}


@admin.register(Job)
class JobAdmin(RepairAdmin):
    """Every job, newest first, and the page of one."""

    actions = (retry, discard, cancel, release)
    list_display = ("id", "job_type", "queue", "state", "tries", "error", "created", "moment")
    list_filter = ("status", QueueFilter, TypeFilter)
    search_help_text = _(
        "A number finds a job by its id; other text is looked for in key, owner, type, worker and error"
        " of the newest 100,000 jobs."
    )
    list_display_links = ("id",)
    change_form_template = "admin/jobqueue/job/change_form.html"
    offers_declared = True
    fieldsets = (
        (None, {"fields": (("id", "job_type"), ("queue", "priority"), ("state", "owner"), "dedupe_key")}),
        (_("Last error"), {"fields": (("outcome", "error_class"), "fingerprint", "error_text")}),
        (_("Input and output"), {"fields": ("payload_json", "result_json", "progress_json")}),
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

    def get_ordering(self, request: HttpRequest) -> tuple[str, ...]:
        """Return the order of the index that the chosen status is read by."""
        return ORDERS.get(request.GET.get("status__exact", ""), ("-id",))

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        """Return every field: the page changes nothing."""
        return tuple(flatten_fieldsets(self.fieldsets))

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        """Return the job, read from the primary: a replica may still show it as it was before an action."""
        if not (object_id.isascii() and object_id.isdecimal() and int(object_id) <= LARGEST_ID):
            return None
        read: dict[str, Any] = request.__dict__.setdefault("_jobqueue_jobs", {})
        if object_id not in read:
            job = self.get_queryset(request).using(Job.objects.write_db).filter(pk=int(object_id)).first()
            if job is not None:
                job.preview = detail.preview(job.pk, using=Job.objects.write_db)
            read[object_id] = job
        return read[object_id]

    def get_urls(self) -> list[Any]:
        """Add the addresses that act on one job and that give its JSON in full."""
        wrap = self.admin_site.admin_view
        return [
            path("<int:job_id>/act/<slug:name>/", wrap(require_POST(self.act_view)), name="jobqueue_job_act"),
            path("<int:job_id>/<slug:part>.json", wrap(require_GET(self.json_view)), name="jobqueue_job_json"),
            *super().get_urls(),
        ]

    def act_view(self, request: HttpRequest, job_id: int, name: str) -> HttpResponse:
        """Act on one job, and go back to its page."""
        if name not in VERBS:
            raise Http404
        operations.check_permission(user_of(request), name)
        self.visible_job(request, job_id)
        reason = request.POST.get("reason", "")
        tell(request, name, VERBS[name].act(job_id, actor=user_of(request), reason=reason))
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
            alias = Job.objects.write_db
            steps, more = detail.history(job, using=alias)
            reasons = why(job, using=alias)
            context |= {
                "steps": [_step_row(step) for step in steps],
                "more_steps": more,
                "people": [(instant(action.at), action) for action in detail.actions_on(job.pk, using=alias)],
                "verbs": [(name, VERBS[name]) for name in _offered(job, reasons) if may(request, name)],
                "repairs": repairs(request, job),
                "why": QUESTIONS.get(job.status, QUESTIONS[Status.PENDING]),
                "reasons": reasons,
                "subtitle": None,
                "title": str(job),
            }
        return super().change_view(request, object_id, form_url, context)

    @admin.display(description=_("payload"))
    def payload_json(self, job: Any) -> SafeString | str:
        """Return the payload, pretty and escaped."""
        return _json_block(job, "payload")

    @admin.display(description=_("result"))
    def result_json(self, job: Any) -> SafeString | str:
        """Return the result, pretty and escaped."""
        return _json_block(job, "result")

    @admin.display(description=_("progress"))
    def progress_json(self, job: Any) -> SafeString | str:
        """Return the progress, pretty and escaped."""
        return _json_block(job, "progress")

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


def _step_row(step: detail.Step) -> dict[str, Any]:
    run, memory, cost = span(step.run_time), size(step.peak_memory_bytes), money(step.cost)
    claimed, started = instant(step.claimed_at), instant(step.started_at)
    return {"step": step, "claimed": claimed, "started": started, "ran": run, "memory": memory, "cost": cost}


def _offered(job: Job, reasons: list[Reason]) -> tuple[str, ...]:
    offered = OFFERED.get(job.status, ())
    if "release" in offered and not STUCK & {reason.code for reason in reasons}:
        return tuple(name for name in offered if name != "release")
    return offered


def _json_block(job: Any, part: str) -> SafeString | str:
    return text_block(part, job.preview.parts[part].text)
