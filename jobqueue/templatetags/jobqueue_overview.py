"""The tag of the overview, for the app's index: its view is Django's, which knows nothing of jobs."""

from __future__ import annotations

from typing import Any

from django import template
from django.contrib.admin.sites import all_sites
from django.http import HttpRequest

register = template.Library()


@register.simple_tag(takes_context=True)
def overview(context: Any) -> dict[str, Any]:
    """Return the parts of the overview that the user may see: {% overview as overview %}."""
    from jobqueue.admin.overview import page  # noqa: PLC0415 - late, see jobqueue_live

    request: HttpRequest = context["request"]
    match = request.resolver_match
    name = getattr(request, "current_app", None) or (match.namespace if match else "")
    site = next((one for one in all_sites if one.name == name), None)
    return {"parts": [], "windows": []} if site is None else page(request, site)
