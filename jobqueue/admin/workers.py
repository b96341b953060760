"""Workers: who is alive, what each serves and runs, how it does; and draining and stopping one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.utils import quote, unquote
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_safe

from jobqueue import operations
from jobqueue.exceptions import UnknownWorker
from jobqueue.models import Job, Worker
from jobqueue.ops.worker_table import WorkerTable, read_table

from . import live
from .acting import may
from .base import ReadOnlyAdmin, user_of
from .worker_rows import shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.db.models import QuerySet

VERBS: Final[dict[str, Any]] = {"drain": gettext_lazy("Drain"), "stop": gettext_lazy("Stop")}


class ReasonForm(forms.Form):
    """Why a worker is to end."""

    reason = forms.CharField(
        label=gettext_lazy("Reason"),
        required=False,
        max_length=operations.REASON_CHARACTERS,
        widget=forms.TextInput({"class": "vTextField"}),
        help_text=gettext_lazy("Kept with the action."),
    )


@admin.register(Worker)
class WorkerAdmin(ReadOnlyAdmin):
    """One page of all workers that were heard of within the last ten leases, and a page of each."""

    view_permission = "jobqueue.view_worker"

    def get_urls(self) -> list[Any]:
        """Return the addresses: no rows are added, changed or deleted."""
        wrap, both = self.admin_site.admin_view, require_http_methods(["GET", "HEAD", "POST"])

        def one(name: str, view: Callable[..., HttpResponse]) -> Any:
            return path(f"<path:object_id>/{name}/", wrap(view), name=f"jobqueue_worker_{name}")

        return [
            path("", wrap(require_safe(self.changelist_view)), name="jobqueue_worker_changelist"),
            path("part/", wrap(require_safe(self.part_view)), name="jobqueue_worker_parts"),
            one("part", require_safe(self.one_part_view)),
            one("drain", both(self.drain_view)),
            one("stop", both(self.stop_view)),
            one("change", require_safe(self.change_view)),
        ]

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Let those who see workers, and those who manage them, read the page."""
        return super().has_view_permission(request, obj) or may(request, "drain_worker")

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Show all workers."""
        self._check(request)
        title = capfirst(str(self.opts.verbose_name_plural))
        context = {**self._context(request, title), **self._rows(request, self.get_queryset(request))}
        return TemplateResponse(request, "admin/jobqueue/worker/list.html", context | (extra_context or {}))

    def part_view(self, request: HttpRequest) -> HttpResponse:
        """Show the workers alone, for the page that is open."""
        self._check(request)
        return live.respond(request, "admin/jobqueue/worker/part.html", self._rows(request, self.get_queryset(request)))

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show one worker; one that has ended is told of in the list."""
        self._check(request)
        rows = self._rows(request, self._one(request, object_id))
        if not rows["rows"] and not rows["unknown"]:
            return self._gone(request, unquote(object_id))
        name = rows["rows"][0].figures.name if rows["rows"] else unquote(object_id)
        context = {
            **self._context(request, name),
            **rows,
            "part_url": _url("part", unquote(object_id)),
            **(extra_context or {}),
        }
        return TemplateResponse(request, "admin/jobqueue/worker/one.html", context)

    def one_part_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show one worker alone, for the page that is open."""
        self._check(request)
        rows = self._rows(request, self._one(request, object_id))
        last = not rows["rows"] and not rows["unknown"]
        return live.respond(request, "admin/jobqueue/worker/one_part.html", rows, last=last)

    def drain_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Ask, then have the worker finish what runs and end."""
        return self._end(request, unquote(object_id), "drain", operations.drain_worker)

    def stop_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Ask, then have the worker cut off what runs and end."""
        return self._end(request, unquote(object_id), "stop", operations.stop_worker)

    def _end(self, request: HttpRequest, worker_id: str, verb: str, order: Callable[..., Any]) -> HttpResponse:
        operations.check_permission(user_of(request), f"{verb}_worker", subject=f"worker:{worker_id}")
        found = self.get_queryset(request).filter(pk=worker_id)
        rows = self._rows(request, found)
        # Where the table could not be read in time this must still be a worker that the user may see.
        if not rows["rows"] and not (rows["unknown"] and found.exists()):
            return self._gone(request, worker_id)
        form = ReasonForm(request.POST if request.method == "POST" else None)
        if form.is_valid():
            try:
                order(worker_id, actor=user_of(request), reason=form.cleaned_data["reason"])
            except UnknownWorker:
                return self._gone(request, worker_id)
            told = (
                _("The worker %(worker)s was told to drain.")
                if verb == "drain"
                else _("The worker %(worker)s was told to stop.")
            )
            messages.success(request, told % {"worker": worker_id})
            return HttpResponseRedirect(reverse("admin:jobqueue_worker_changelist"))
        name = rows["rows"][0].figures.name if rows["rows"] else worker_id
        title = _("Drain %(worker)s") if verb == "drain" else _("Stop %(worker)s")
        context = {
            **self._context(request, title % {"worker": name}),
            **rows,
            "form": form,
            "verb": VERBS[verb],
            "stops": verb == "stop",
            "worker_id": worker_id,
        }
        return TemplateResponse(request, "admin/jobqueue/worker/ask.html", context)

    def _gone(self, request: HttpRequest, worker_id: str) -> HttpResponse:
        messages.warning(request, _("The worker %(worker)s has ended, or there was none.") % {"worker": worker_id})
        return HttpResponseRedirect(reverse("admin:jobqueue_worker_changelist"))

    def _check(self, request: HttpRequest) -> None:
        if not self.has_view_permission(request):
            raise PermissionDenied

    def _one(self, request: HttpRequest, object_id: str) -> QuerySet[Any]:
        return self.get_queryset(request).filter(pk=unquote(object_id))

    def _rows(self, request: HttpRequest, workers: QuerySet[Any]) -> dict[str, Any]:
        jobs = self._jobs(request)
        table: WorkerTable = read_table(workers, jobs)
        return {
            "rows": [shown(one, table, sees_jobs=jobs is not None) for one in table.workers],
            "more": table.more,
            "unknown": bool(table.unknown),
            "sees_jobs": jobs is not None,
            "may_manage": may(request, "drain_worker"),
        }

    def _jobs(self, request: HttpRequest) -> QuerySet[Job] | None:
        """Return the jobs that the user may see, as the page of jobs shows them to this user."""
        pages = self.admin_site._registry.get(Job)
        if pages is None or not pages.has_view_permission(request):
            return None
        return pages.get_queryset(request)

    def _context(self, request: HttpRequest, title: str) -> dict[str, Any]:
        return {**self.admin_site.each_context(request), "title": title, "opts": self.opts, "media": self.media}


def _url(name: str, worker_id: str) -> str:
    return reverse(f"admin:jobqueue_worker_{name}", args=[quote(worker_id)])
