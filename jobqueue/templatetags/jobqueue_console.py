"""The console's own navigation, for every page of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from django import template
from django.urls import NoReverseMatch, reverse
from django.utils.translation import gettext as _

register = template.Library()

APP: Final = "jobqueue"
#: In the order of a look round: what there is, what is wrong, who works, what it costs, who did what.
ORDER: Final = (
    *("Job", "DeadLetter", "StuckJob", "Queue", "Worker", "Cost"),
    *("Incident", "AlertRule", "Action"),
)
#: Pages without an entry of their own, and the entry that they belong to.
WITHIN: Final = {"Attempt": "Job"}


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the navigation; `current` is the value of `aria-current`, "" for none."""

    label: str
    url: str
    current: str


@register.inclusion_tag("admin/jobqueue/nav.html", takes_context=True)
def console_nav(context: template.RequestContext) -> dict[str, Any]:
    """Return the pages of the console that the admin site lists for this user."""
    if context.get("is_popup"):
        return {"entries": []}
    apps: Any = context.get("available_apps") or ()
    models: list[dict[str, Any]] = next((app["models"] for app in apps if app["app_label"] == APP), [])
    found = {one["object_name"]: one for one in models if one.get("admin_url")}
    opts = context.get("opts")
    here = getattr(opts, "object_name", "") if getattr(opts, "app_label", "") == APP else ""
    path = context["request"].path
    entries = []
    if found and (overview := _overview(context)):
        entries.append(Entry(_("Overview"), overview, "page" if path == overview else ""))
    for name in ORDER:
        if name in found:
            one = found[name]
            current = "" if WITHIN.get(here, here) != name else "page" if path == one["admin_url"] else "true"
            entries.append(Entry(str(one["name"]), one["admin_url"], current))
    return {"entries": entries}


def _overview(context: template.RequestContext) -> str:
    """Return the address of the app's index on the site that the page belongs to, as the tag `url` finds it."""
    request = context["request"]
    site = getattr(request, "current_app", None) or getattr(request.resolver_match, "namespace", None)
    try:
        return reverse("admin:app_list", args=[APP], current_app=site)
    except NoReverseMatch:
        return ""
