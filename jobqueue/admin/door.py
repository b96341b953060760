"""Around every view of the console: where the request came from, and what is written down when it is refused.

A view runs in the transaction that ATOMIC_REQUESTS asks for, as anywhere; but the door lies outside of it, so that the
rollback of a refused request does not take the row of its refusal with it.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

from django.contrib.admin import helpers
from django.core.exceptions import PermissionDenied
from django.db import connections, transaction
from django.http import HttpRequest, HttpResponseBase

from jobqueue import operations
from jobqueue.conf import get_settings
from jobqueue.models import Job
from jobqueue.operations.acting import LARGEST_ID

if TYPE_CHECKING:
    from django.db.models import Model

View = Callable[..., HttpResponseBase]

#: Of jobs that were ticked in a list so many are named in the row of a refusal.
TICKED: Final = 100
PATH_CHARACTERS: Final = 500


def through_door(view: View, model: type[Model]) -> View:
    """Return the view of an admin with the address of who asks around it, and its refusals written down."""
    spared: set[str] = getattr(view, "_non_atomic_requests", set())

    @wraps(view)
    def entered(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        answer = view
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

    # What Django would begin around the door is begun within it.
    entered._non_atomic_requests = set(connections)  # type: ignore[attr-defined]
    return entered


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
