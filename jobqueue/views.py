"""Pages for machines: the snapshot, health and metrics. Closed to all but staff and bearers of JOBQUEUE["OPS_TOKEN"].

    path("jobqueue/", include("jobqueue.urls"))

GET and HEAD only, never cached, answers in JSON (metrics: in Prometheus' format). See docs/health.md, docs/metrics.md.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final, NamedTuple

from django.contrib.auth.decorators import login_not_required
from django.db import DatabaseError, InterfaceError, connections, transaction
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse

from jobqueue.conf import get_settings
from jobqueue.exceptions import ConfigurationError
from jobqueue.models import Job
from jobqueue.ops import health
from jobqueue.ops.bearers import bearer_token, is_token

PERMISSION: Final = "jobqueue.view_job"
COSTS_PERMISSION: Final = "jobqueue.view_cost"


class Viewer(NamedTuple):
    """Who was let in, and may see what."""

    details: bool = True
    costs: bool = True


View = Callable[[HttpRequest, Viewer], HttpResponse]
ANYBODY: Final = Viewer(details=False, costs=False)


class _Refused(Exception):
    """Why a request is not let in: 401, 403, or 503 where nobody can tell."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status, self.text = status, text


def _page(view: View, *, may_be_open: bool = False) -> Callable[[HttpRequest], HttpResponseBase]:
    """Make a view a page of this module: with its methods, its headers and its door."""

    @wraps(view)
    def page(request: HttpRequest) -> HttpResponse:
        response = _answer(view, request, may_be_open=may_be_open)
        response["Cache-Control"] = "no-store"
        response["X-Content-Type-Options"] = "nosniff"
        return response

    # A transaction around it (ATOMIC_REQUESTS of any alias) could not be begun with the database down, which is what it
    # has to say; and a project that has everybody log in by a middleware would send a monitor to its form.
    for alias in connections:
        transaction.non_atomic_requests(using=alias)(page)
    return login_not_required(page)


def _answer(view: View, request: HttpRequest, *, may_be_open: bool) -> HttpResponse:
    if request.method not in ("GET", "HEAD"):
        return JsonResponse({"error": "only GET and HEAD"}, status=405, headers={"Allow": "GET, HEAD"})
    try:
        viewer = admit(request)
    except _Refused as error:
        if not (may_be_open and get_settings().HEALTH_OPEN):
            return _refusal(error)
        viewer = ANYBODY
    return view(request, viewer)


def admit(request: HttpRequest) -> Viewer:
    """Let a bearer of the token in, or a person who may see jobs in the admin. Raises _Refused."""
    token = bearer_token(request.headers.get("Authorization", ""))
    if token is not None:
        if is_token(token):
            return Viewer()
        raise _Refused(401, "this is not the token")
    try:
        user: Any = getattr(request, "user", None)
        if user is None or not user.is_authenticated:
            raise _Refused(401, "log in as staff, or send the token as Authorization: Bearer")
        if not (user.is_active and user.is_staff and user.has_perm(PERMISSION)):
            raise _Refused(403, f"needs a staff user with the permission {PERMISSION}")
        return Viewer(costs=user.has_perm(COSTS_PERMISSION))
    except (DatabaseError, InterfaceError) as error:  # sessions and permissions are rows, too
        raise _Refused(503, "the database does not answer, so nobody can tell who you are: send the token") from error


def _refusal(error: _Refused) -> HttpResponse:
    response = JsonResponse({"error": error.text}, status=error.status)
    if error.status == 401:
        response["WWW-Authenticate"] = 'Bearer realm="jobqueue"'
    return response


def _verdict(found: health.Health, viewer: Viewer) -> HttpResponse:
    return JsonResponse(found.to_json(details=viewer.details), status=200 if found.ok else 503)


def _live(request: HttpRequest, viewer: Viewer) -> HttpResponse:
    return _verdict(health.live(), viewer)


def _ready(request: HttpRequest, viewer: Viewer) -> HttpResponse:
    workers = request.GET.get("workers", "yes") != "no"
    return _verdict(health.ready(Job.objects.write_db, workers=workers), viewer)


def _ops(request: HttpRequest, viewer: Viewer) -> HttpResponse:
    found = Job.objects.ops().to_json()
    if not viewer.costs:
        found |= {"cost_1h_usd": None, "hidden": ["cost_1h_usd"]}
    # What could be read is shown also where the database went away meanwhile; a monitor goes by the status.
    return JsonResponse(found, status=200 if found["reachable"] else 503)


def _metrics(request: HttpRequest, viewer: Viewer) -> HttpResponse:
    from jobqueue.ops.metrics import exposition  # noqa: PLC0415  (much to import for those who have no use for it)

    try:
        body, content_type = exposition(request.headers.get("Accept", ""), costs=viewer.costs)
    except ConfigurationError as error:
        return JsonResponse({"error": str(error)}, status=501)
    return HttpResponse(body, content_type=content_type)


#: That this process answers.
live = _page(_live, may_be_open=True)
#: That the queue works: 200 or 503; `?workers=no` leaves the claim loops out.
ready = _page(_ready, may_be_open=True)
#: Job.objects.ops() as JSON; 503 where the database does not answer.
ops = _page(_ops)
#: The figures in Prometheus' format.
metrics = _page(_metrics)
