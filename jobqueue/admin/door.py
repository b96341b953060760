"""Around every view of the console: where the request came from, and what is written down when it is refused.

A view runs in the transaction that ATOMIC_REQUESTS asks for, as anywhere; but the door lies outside of it, so that the
rollback of a refused request does not take the row of its refusal with it.

A page that is only looked at has a limit on each of its statements, also where it is locked out by another transaction:
what has no shorter limit of its own ends in a page that says so, instead of a browser that waits.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from contextlib import ExitStack
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

from django.contrib.admin import helpers
from django.core.exceptions import PermissionDenied
from django.db import InterfaceError, OperationalError, connections, transaction
from django.http import Http404, HttpRequest, HttpResponseBase
from django.template.response import TemplateResponse
from django.utils.translation import gettext as _

from jobqueue import operations
from jobqueue.conf import get_settings
from jobqueue.managers.settling import sqlstate
from jobqueue.models import Job
from jobqueue.operations.acting import LARGEST_ID
from jobqueue.ops.limited import LOCK_NOT_AVAILABLE, QUERY_CANCELED
from jobqueue.ops.snapshot import read_alias

if TYPE_CHECKING:
    from django.contrib.admin import AdminSite
    from django.db.models import Model

View = Callable[..., HttpResponseBase]

#: Of jobs that were ticked in a list so many are named in the row of a refusal.
TICKED: Final = 100
PATH_CHARACTERS: Final = 500

#: How long a statement of a page may take, and wait for a lock; a shorter limit of the site's own stays.
STATEMENT: Final = "5s"
LOCK: Final = "1s"
LIMITS: Final = """
SELECT set_config(name, CASE WHEN current_setting(name) = '0' OR current_setting(name)::interval > most::interval
                             THEN most ELSE current_setting(name) END, true)
  FROM (VALUES ('statement_timeout', %s), ('lock_timeout', %s)) AS limits (name, most)
"""
SAFE: Final = ("GET", "HEAD")


def through_door(view: View, model: type[Model], site: AdminSite) -> View:
    """Return the view of an admin with the address of who asks around it, its refusals written down, and its limits."""
    spared: set[str] = getattr(view, "_non_atomic_requests", set())

    @wraps(view)
    def entered(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if "\x00" in request.path:
            raise Http404
        _leave_out_nul(request)
        answer = _limited(view) if request.method in SAFE else view
        for alias in connections:
            if connections[alias].settings_dict["ATOMIC_REQUESTS"] and alias not in spared:
                answer = transaction.atomic(using=alias)(answer)
        with operations.asked_from(address_of(request)) as asked:
            try:
                return answer(request, *args, **kwargs)
            except PermissionDenied as error:
                asked.job_ids = _jobs(request, model, kwargs)
                asked.detail = {"method": request.method, "path": request.path[:PATH_CHARACTERS]}
                if not asked.refusals:
                    page = (request.resolver_match.url_name or "") if request.resolver_match else ""
                    subject = f"page:{page.removeprefix('jobqueue_')}"
                    operations.refused(request.user, "open", str(error), subject=subject)
                raise
            except OperationalError as error:
                if request.method not in SAFE or sqlstate(error) not in (QUERY_CANCELED, LOCK_NOT_AVAILABLE):
                    raise
                return _busy(request, model, site)

    # What Django would begin around the door is begun within it.
    entered._non_atomic_requests = set(connections)  # type: ignore[attr-defined]
    return entered


def _leave_out_nul(request: HttpRequest) -> None:
    """Leave NUL out of what an address asks for: the database, which cannot store it, would answer with an error."""
    if any("\x00" in value for _name, values in request.GET.lists() for value in values):
        asked_for = request.GET.copy()
        for name, values in request.GET.lists():
            asked_for.setlist(name, [value.replace("\x00", "") for value in values])
        request.GET = asked_for  # type: ignore[assignment]


def _limited(view: View) -> View:
    """Return a view whose statements have a limit each, in one transaction."""

    def answered(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        with ExitStack() as stack:
            for alias in {read_alias(Job.objects), Job.objects.write_db}:
                try:
                    stack.enter_context(transaction.atomic(using=alias))
                except (OperationalError, InterfaceError):
                    continue  # of a database that is away the page speaks itself
                with connections[alias].cursor() as cursor:
                    cursor.execute(LIMITS, [STATEMENT, LOCK])
            return view(request, *args, **kwargs)

    return answered


def _busy(request: HttpRequest, model: type[Model], site: AdminSite) -> HttpResponseBase:
    """Return the page that says that another one could not be read in time."""
    context = {**site.each_context(request), "title": _("Not read in time"), "opts": model._meta}
    headers = {"Retry-After": "5", "Cache-Control": "no-store"}
    return TemplateResponse(request, "admin/jobqueue/busy.html", context, status=503, headers=headers)


def address_of(request: HttpRequest) -> str:
    """Return the address of who asks: that of the connection, or the last one of the header that the settings name.

    Earlier ones in such a header are what the client itself said.
    """
    address: str = request.META.get("REMOTE_ADDR") or ""
    name = get_settings().ADDRESS_HEADER
    told = request.headers.get(name, "").rpartition(",")[2].strip() if name else ""
    try:
        return str(ipaddress.ip_address(told)) if told else address
    except ValueError:
        return address


def _jobs(request: HttpRequest, model: type[Model], kwargs: dict[str, Any]) -> list[int]:
    """Return the jobs that a refused request was about, as far as it said so."""
    if not issubclass(model, Job):
        return []
    named = [str(kwargs[name]) for name in ("job_id", "object_id") if name in kwargs]
    ticked = request.POST.getlist(helpers.ACTION_CHECKBOX_NAME)[:TICKED] if request.method == "POST" else []
    numbers = {int(text) for text in (*named, *ticked) if text.isascii() and text.isdecimal() and len(text) < 20}
    return sorted(number for number in numbers if number <= LARGEST_ID)
