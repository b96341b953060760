"""The overview, which is the app's own index: parts of a page, each for whoever may see what it is about.

The index is Django's; its template asks for the parts by a tag (jobqueue.templatetags.jobqueue_overview). Each part is
read anew by a view of its own. Where a subclass of JobAdmin narrows what its people see, counts and groups are of those
jobs, and what is known of all jobs together only is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from django.contrib.admin.exceptions import NotRegistered
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext_lazy

from jobqueue.models import Cost, DeadLetter, Incident, Job, Queue, Worker
from jobqueue.ops.overview import Overview, Part, read_overview
from jobqueue.ops.trends import Window

from . import live, overview_parts
from .trend_charts import WINDOWS

if TYPE_CHECKING:
    from django.contrib.admin import AdminSite
    from django.db.models import Model
    from django.template.response import TemplateResponse


class PartOfPage(NamedTuple):
    """One part: what may be seen by whom, how often it is read anew, and whether its rows keep their places."""

    model: type[Model]  # whoever may see its page sees the part
    title: Any
    shown: Callable[[Overview, Seen], dict[str, Any]]
    every: int = live.SECONDS
    steady: bool = False


class Seen(NamedTuple):
    """Who looks, at which time."""

    request: HttpRequest
    site: AdminSite
    window: Window
    narrowed: bool

    def may(self, model: type[Model]) -> bool:
        """Tell whether the page of a model may be seen."""
        try:
            admin = self.site.get_model_admin(model)
        except NotRegistered:
            return False
        return admin.has_view_permission(self.request)


PARTS: Final[dict[Part, PartOfPage]] = {
    "status": PartOfPage(Job, gettext_lazy("Jobs now"), overview_parts.status, steady=True),
    "alerts": PartOfPage(Incident, gettext_lazy("Alerts that fire"), overview_parts.alerts),
    "trend": PartOfPage(Job, gettext_lazy("Over time"), overview_parts.trend, every=20, steady=True),
    "queues": PartOfPage(Queue, gettext_lazy("Queues, longest wait first"), overview_parts.queues),
    "groups": PartOfPage(DeadLetter, gettext_lazy("What kills most jobs"), overview_parts.groups, every=15),
    "workers": PartOfPage(Worker, gettext_lazy("Workers"), overview_parts.workers),
    "costs": PartOfPage(Cost, gettext_lazy("Cost today"), overview_parts.costs, every=20, steady=True),
}
#: What is known of all jobs together only.
OF_ALL: Final[frozenset[Part]] = frozenset({"trend"})


def page(request: HttpRequest, site: AdminSite) -> dict[str, Any]:
    """Return the parts that the user may see, read by one look at the database, and the times to choose from."""
    seen = _seen(request, site)
    names = [name for name in PARTS if _allowed(name, seen)]
    found = _read(names, seen) if names else Overview()
    return {
        "parts": [_piece(name, found, seen) for name in names],
        "windows": [
            {"query": f"window={name}", "label": label, "chosen": name == seen.window}
            for name, label in WINDOWS.items()
        ]
        if "trend" in names
        else [],
    }


def part_view(request: HttpRequest, site: AdminSite, name: str) -> TemplateResponse:
    """Answer with one part."""
    if name not in PARTS:
        raise Http404
    part: Part = name
    seen = _seen(request, site)
    if not _allowed(part, seen):
        raise PermissionDenied
    piece = _piece(part, _read([part], seen), seen)
    return live.respond(request, "admin/jobqueue/overview/part.html", {"part": piece})


def _piece(name: Part, found: Overview, seen: Seen) -> dict[str, Any]:
    part = PARTS[name]
    return {
        "name": name,
        "title": part.title,
        "template": f"admin/jobqueue/overview/{name}.html",
        "url": reverse("admin:jobqueue_overview", args=[name], current_app=seen.site.name),
        "every": part.every,
        "steady": part.steady,
        "zone": timezone.get_current_timezone_name(),
        **part.shown(found, seen),
    }


def _seen(request: HttpRequest, site: AdminSite) -> Seen:
    window = request.GET.get("window", "")
    chosen: Window = window if window in WINDOWS else "1h"
    return Seen(request, site, chosen, narrowed=_is_narrowed(site))


def _allowed(name: Part, seen: Seen) -> bool:
    return seen.may(PARTS[name].model) and not (seen.narrowed and name in OF_ALL)


def _is_narrowed(site: AdminSite) -> bool:
    """Tell whether a project's own subclass chooses the jobs that people see."""
    try:
        get_queryset = type(site.get_model_admin(Job)).get_queryset
    except NotRegistered:
        return False
    return not get_queryset.__module__.startswith("jobqueue.admin.")


def _read(names: list[Part], seen: Seen) -> Overview:
    jobs = seen.site.get_model_admin(Job).get_queryset(seen.request) if seen.narrowed else None
    dead = seen.site.get_model_admin(DeadLetter).get_queryset(seen.request) if "groups" in names else None
    return read_overview(names, window=seen.window, jobs=jobs, dead=dead)
