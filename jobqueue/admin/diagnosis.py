"""What the page of a job tells while it waits and runs: its state in words, its progress, where its handler is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from django.contrib import messages
from django.db.models import DurationField, ExpressionWrapper, F
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path, reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_POST, require_safe

from jobqueue import operations
from jobqueue.exceptions import InvalidTransition
from jobqueue.models import Job, Order
from jobqueue.models.expressions import StatementTimestamp
from jobqueue.ops.reasons import Reason, why
from jobqueue.states import ACTIVE, Status

from . import live
from .badges import status_badge
from .base import job_url, number_of, user_of
from .repair import RepairAdmin
from .wording import instant, span

#: What the page asks and answers at its top, by the status.
QUESTIONS: Final[dict[int, Any]] = {
    **dict.fromkeys((int(Status.PENDING), int(Status.SCHEDULED)), gettext_lazy("Why it is not running")),
    int(Status.RUNNING): gettext_lazy("What it is doing"),
    **dict.fromkeys((int(Status.DONE), int(Status.DEAD), int(Status.CANCELLED)), gettext_lazy("How it ended")),
}
#: Orders that the page tells of, newest first.
ORDERS: Final = 3
#: Seconds between two looks for an answer.
ANSWER_SECONDS: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One order about the job, as the page shows it."""

    order: Order
    at: str
    ago: str
    silent: bool  # nobody has answered for longer than a living worker takes
    past: bool  # it was about an attempt that is over

    @property
    def open(self) -> bool:
        """Tell whether an answer may still come."""
        return self.order.answered_at is None and not self.silent

    @property
    def is_stack(self) -> bool:
        """Tell whether its answer is a stack."""
        return self.order.kind == Order.Kind.STACK


class DiagnosisAdmin(RepairAdmin):
    """The live parts of the page of a job, and what is asked of the worker that runs it."""

    def get_urls(self) -> list[Any]:
        """Add the addresses of the parts and of the orders."""
        wrap = self.admin_site.admin_view
        return [
            path("<int:job_id>/part/state/", wrap(require_safe(self.state_part)), name="jobqueue_job_state"),
            path("<int:job_id>/part/stack/", wrap(require_safe(self.stack_part)), name="jobqueue_job_stack"),
            path("<int:job_id>/ask-stack/", wrap(require_POST(self.ask_stack_view)), name="jobqueue_job_ask_stack"),
            path("<int:job_id>/kill/", wrap(require_POST(self.kill_view)), name="jobqueue_job_kill"),
            *super().get_urls(),
        ]

    def state_part(self, request: HttpRequest, job_id: int) -> HttpResponse:
        """Return how the job stands, anew."""
        job = self.visible_job(request, job_id, preview=True)
        state = state_of(job, why(job, using=Job.objects.write_db), seen=request.GET.get("seen"))
        return live.respond(request, "admin/jobqueue/job/state.html", {"state": state}, last=job.status not in ACTIVE)

    def stack_part(self, request: HttpRequest, job_id: int) -> HttpResponse:
        """Return what the worker was asked about the job, and its answers."""
        orders = orders_about(self.job_for(request, job_id, "ask_stack"))
        context = {"orders": orders}
        return live.respond(request, "admin/jobqueue/job/orders.html", context, last=not _awaited(orders))

    def ask_stack_view(self, request: HttpRequest, job_id: int) -> HttpResponse:
        """Ask the worker where the handler is, and go back to the page, which waits for the answer."""
        self.job_for(request, job_id, "ask_stack")
        try:
            operations.ask_stack(job_id, actor=user_of(request))
        except InvalidTransition:
            messages.warning(request, _("No worker runs it now, so there is no stack to show."))
            return HttpResponseRedirect(job_url(job_id))
        return HttpResponseRedirect(f"{job_url(job_id)}#jobqueue-stack")

    def kill_view(self, request: HttpRequest, job_id: int) -> HttpResponse:
        """Have the process that runs the job killed, and go back to its page."""
        self.job_for(request, job_id, "kill_job")
        # The run that the page showed: another one, which began meanwhile, was not meant.
        reason, run = request.POST.get("reason", ""), number_of(request.POST.get("run", ""))
        try:
            order = operations.kill_job(job_id, actor=user_of(request), reason=reason, lease_epoch=run)
        except InvalidTransition:
            messages.warning(request, _("What you saw runs no more: nothing was killed."))
        else:
            words = _("The worker %(worker)s was told to kill the process that runs it.")
            messages.success(request, words % {"worker": order.worker_id})
        return HttpResponseRedirect(job_url(job_id))


def state_of(job: Any, reasons: list[Reason], *, seen: str | None = None) -> dict[str, Any]:
    """Return what the part that tells of a job's state needs; `seen` is the mark of the job as the page showed it."""
    return {
        "job": job,
        "url": job_url(job.pk),
        "question": QUESTIONS.get(job.status, QUESTIONS[Status.PENDING]),
        "badge": status_badge(job.status),
        "reasons": reasons,
        "percent": _percent(job.percent) if job.status == Status.RUNNING else None,
        "moved_on": seen is not None and seen != mark_of(job),
    }


def mark_of(job: Job) -> str:
    """Return what changes whenever a page of the job would offer something else."""
    return f"{job.status}-{job.lease_epoch}"


def live_of(job: Job, orders: list[Asked], *, asks: bool) -> dict[str, Any]:
    """Return what the page needs of its live parts; `asks` tells whether the user may ask for a stack."""
    return {
        "state_url": f"{reverse('admin:jobqueue_job_state', args=[job.pk])}?seen={mark_of(job)}",
        "stack_url": reverse("admin:jobqueue_job_stack", args=[job.pk]),
        "is_active": job.status in ACTIVE,
        "asks_stack": asks and job.status == Status.RUNNING,
        "orders": orders,
        "awaited": _awaited(orders),
        "answer_seconds": ANSWER_SECONDS,
    }


def orders_about(job: Job) -> list[Asked]:
    """Return what was last asked of workers about a job, newest first."""
    age = ExpressionWrapper(StatementTimestamp() - F("asked_at"), output_field=DurationField())
    rows = Order.objects.using(Job.objects.write_db).filter(job_id=job.pk).annotate(age=age).order_by("-id")
    return [_asked(order, job) for order in rows[:ORDERS]]


def _asked(order: Any, job: Job) -> Asked:
    age: timedelta = order.age
    return Asked(
        order=order,
        at=instant(order.asked_at),
        ago=span(round(age.total_seconds())),
        silent=order.answered_at is None and age > operations.SILENT_AFTER,
        past=job.status != Status.RUNNING or order.lease_epoch != job.lease_epoch,
    )


def _awaited(orders: list[Asked]) -> bool:
    return any(asked.open for asked in orders)


def _percent(told: str | None) -> str | None:
    """Return how far the handler said it has come, for SVG; None where it said nothing that is a percentage."""
    try:
        percent = float(told or "")
    except ValueError:
        return None
    return f"{max(0.0, min(100.0, percent)):.0f}" if math.isfinite(percent) else None
