"""Queues: how each stands, and pausing and resuming one or all of them."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_safe

from jobqueue import operations
from jobqueue.exceptions import InvalidName
from jobqueue.internal import INTERNAL_QUEUE
from jobqueue.managers.pausing import ALL_QUEUES
from jobqueue.models import Job, Queue
from jobqueue.ops.queue_figures import QueueFigures
from jobqueue.ops.queue_table import QueueRow, read_queues
from jobqueue.ops.queues import PausedQueue, paused_queues

from . import live
from .base import ReadOnlyAdmin, user_of
from .pausing import PauseForm, ResumeForm
from .until import database_time
from .wording import EMPTY, brief, instant, span


@admin.register(Queue)
class QueueAdmin(ReadOnlyAdmin):
    """One page of all queues, and a page each that asks before a queue is paused or all are resumed."""

    def get_urls(self) -> list[Any]:
        """Return the addresses: no rows are added, changed or deleted."""
        wrap, both = self.admin_site.admin_view, require_http_methods(["GET", "HEAD", "POST"])
        return [
            path("", wrap(require_safe(self.changelist_view)), name="jobqueue_queue_changelist"),
            path("part/", wrap(require_safe(self.part_view)), name="jobqueue_queue_part"),
            path("pause/", wrap(both(self.pause_view)), name="jobqueue_queue_pause"),
            path("resume/", wrap(both(self.resume_view)), name="jobqueue_queue_resume"),
        ]

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Let those who see jobs, and those who manage queues, read the page."""
        return super().has_view_permission(request, obj) or may_manage(request)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Show all queues."""
        self._check(request)
        title = capfirst(str(self.opts.verbose_name_plural))
        context = {**self._context(request, title), **self._table(request), **(extra_context or {})}
        return TemplateResponse(request, "admin/jobqueue/queue/list.html", context)

    def part_view(self, request: HttpRequest) -> HttpResponse:
        """Show the queues alone, for the page that is open."""
        self._check(request)
        return live.respond(request, "admin/jobqueue/queue/part.html", self._table(request))

    def _check(self, request: HttpRequest) -> None:
        if not self.has_view_permission(request):
            raise PermissionDenied

    def _table(self, request: HttpRequest) -> dict[str, Any]:
        table = read_queues(Job.objects)
        return {
            "rows": [_shown(row, table.unknown) for row in table.rows],
            "jobs_url": reverse("admin:jobqueue_job_changelist") if super().has_view_permission(request) else "",
            "all": None if table.pause_of_all is None else pause_words(table.pause_of_all),
            "may_manage": may_manage(request),
            "unknown": bool(table.unknown),
            "pause_url": _url("pause"),
            "resume_url": _url("resume"),
        }

    def pause_view(self, request: HttpRequest) -> HttpResponse:
        """Ask until when and why, then pause."""
        operations.check_permission(user_of(request), "pause_queue")
        now = database_time()
        name = request.POST.get("queue", request.GET.get("queue", "")).strip()
        form = PauseForm(request.POST if request.method == "POST" else None, name=name, now=now)
        if form.is_valid():
            name, until = form.cleaned_data["queue"], form.until()
            try:
                operations.pause_queue(name, actor=user_of(request), reason=form.cleaned_data["reason"], until=until)
            except InvalidName as error:
                form.add_error("queue", str(error))
            except ValueError:
                form.add_error("until_time", _("It must be in the future."))
            else:
                messages.success(request, _paused(name, until))
                return HttpResponseRedirect(_url())
        return self._ask(request, form, name, verb=_("Pause"), title=_title(name, pause=True))

    def resume_view(self, request: HttpRequest) -> HttpResponse:
        """Resume a queue at once, or all of them after asking."""
        operations.check_permission(user_of(request), "resume_queue")
        name = request.POST.get("queue", request.GET.get("queue", "")).strip()
        form = ResumeForm(request.POST if request.method == "POST" else None, name=name)
        if form.is_valid():
            name = form.cleaned_data["queue"]
            try:
                resumed = operations.resume_queue(name, actor=user_of(request), reason=form.cleaned_data["reason"])
            except InvalidName as error:
                form.add_error("queue", str(error))
            else:
                _tell_resumed(request, name, resumed)
                return HttpResponseRedirect(_url())
        return self._ask(request, form, name, verb=_("Resume"), title=_title(name, pause=False))

    def _ask(self, request: HttpRequest, form: Any, name: str, *, verb: str, title: str) -> HttpResponse:
        pause = next((one for one in paused_queues(Job.objects.write_db) if one.name == name), None)
        context = {
            **self._context(request, title),
            "form": form,
            "verb": verb,
            "pause": None if pause is None else pause_words(pause),
            "all": name == ALL_QUEUES,
        }
        return TemplateResponse(request, "admin/jobqueue/queue/ask.html", context)

    def _context(self, request: HttpRequest, title: str) -> dict[str, Any]:
        return {
            **self.admin_site.each_context(request),
            "title": title,
            "opts": self.opts,
            "media": self.media,
        }


def may_manage(request: HttpRequest) -> bool:
    """Tell whether the user may pause and resume queues."""
    return user_of(request).has_perm(operations.PERMISSIONS["pause_queue"])


def pause_words(pause: PausedQueue) -> str:
    """Return a pause in words: since when, by whom, until when, why."""
    who = pause.paused_by.removeprefix("budget:")
    values = {"who": who, "since": instant(pause.paused_at)}
    by_budget = who != pause.paused_by
    since = _("by the budget %(who)s since %(since)s") if by_budget else _("by %(who)s since %(since)s")
    words = f"{since % values}, {until_words(pause.resumes_at)}"
    return f"{words}: {pause.reason}" if pause.reason else words


def until_words(until: Any) -> str:
    """Return until when a pause is."""
    return _("until %(time)s") % {"time": instant(until)} if until else _("until somebody resumes it")


def _url(verb: str = "changelist") -> str:
    return reverse(f"admin:jobqueue_queue_{verb}")


def _title(name: str, *, pause: bool) -> str:
    if name == ALL_QUEUES:
        return _("Pause all queues") if pause else _("Resume all queues")
    return _("Pause a queue") if pause else _("Resume a queue")


def _paused(name: str, until: Any) -> str:
    if name == ALL_QUEUES:
        return _("All queues are paused %(until)s.") % {"until": until_words(until)}
    return _("The queue %(queue)s is paused %(until)s.") % {"queue": name, "until": until_words(until)}


def _tell_resumed(request: HttpRequest, name: str, resumed: bool) -> None:
    if name == ALL_QUEUES:
        done = _("The pause of all queues is over; what is paused by its own name stays so.")
        messages.success(request, done) if resumed else messages.warning(request, _("They were not paused any more."))
        return
    if not resumed:
        messages.warning(request, _("The queue %(queue)s was not paused any more.") % {"queue": name})
    elif any(one.holds(name) for one in paused_queues(Job.objects.write_db)):
        told = _("The queue %(queue)s has no pause of its own any more; it stays paused with all queues.")
        messages.warning(request, told % {"queue": name})
    else:
        messages.success(request, _("The queue %(queue)s is resumed.") % {"queue": name})


UNKNOWN: Any = gettext_lazy("unknown")


def _shown(row: QueueRow, unknown: frozenset[str]) -> dict[str, Any]:
    """Return a row as the page has it."""
    one = row.figures
    own = one.paused is not None and one.paused.name == one.queue
    internal = one.queue == INTERNAL_QUEUE
    return {
        "queue": one.queue,
        "internal": internal,
        "paused": one.paused is not None,
        "own_pause": own,
        "pause": pause_words(one.paused) if own and one.paused else "",
        "query": urlencode({"queue": one.queue}),
        "depth": _depth(one),
        "oldest": _known(one.oldest_sec, lambda age: span(round(age)) if one.depth else EMPTY),
        "running": _count(row, "running"),
        "scheduled": _count(row, "scheduled"),
        "arrival": _known(one.arrival_per_sec, lambda rate: ("≈ " if one.arrival_estimated else "") + per_minute(rate)),
        "done": _known(one.done_per_sec, per_minute),
        "waits": _ended(one, unknown, lambda: f"{brief(one.wait_p50_sec)} / {brief(one.wait_p95_sec)}"),
        "failed": _ended(one, unknown, lambda: EMPTY if one.failure_rate is None else f"{one.failure_rate:.1%}"),
        "workers": _known(one.workers, lambda number: _("none") if number == 0 else str(number)),
        "unserved": one.workers == 0 and bool(one.depth or row.scheduled),
        "drain": _drain(one),
    }


def _known(value: Any, words: Any) -> Any:
    return UNKNOWN if value is None else words(value)


def _depth(one: QueueFigures) -> Any:
    if one.depth is None:
        return UNKNOWN
    return f"≥ {one.depth}" if one.depth_capped else str(one.depth)


def _count(row: QueueRow, name: str) -> Any:
    value = getattr(row, name)
    return _known(value, lambda number: f"≥ {number}" if name in row.capped else str(number))


def _ended(one: QueueFigures, unknown: frozenset[str], words: Any) -> Any:
    """Return what is known of attempts that ended of late; nothing ended is `-`."""
    if "statistics" in unknown:
        return UNKNOWN
    return words() if one.wait_p50_sec is not None or one.failure_rate is not None else EMPTY


def _drain(one: QueueFigures) -> Any:
    """Return how long until nothing is due at the present rates, or why that is not to be told."""
    if one.paused:
        return EMPTY
    if one.drain_sec is not None:
        sign = "≥ " if one.drain_capped else "≈ " if one.depth_capped else ""
        return sign + span(round(one.drain_sec)) if one.depth else EMPTY
    return UNKNOWN if None in (one.depth, one.arrival_per_sec, one.done_per_sec) else _("it does not shrink")


def per_minute(rate: float) -> str:
    """Return a rate a second as one a minute, in as few digits as tell it: 1500, 26.7, 0.27."""
    minute = rate * 60
    if minute >= 100:
        return f"{minute:.0f}"
    return f"{minute:.1f}" if minute >= 1 else f"{minute:.2g}"
