"""Live parts of pages: read anew every few seconds by htmx, where the app django_htmx is installed (extra [web]).

A part is a piece of a page with a view of its own, which asks for the permission itself and sends the piece alone.
live.js decides when a part is left as it is: while it is being used, while the tab is hidden, and by the Pause button.
Without django_htmx, and without scripts, a page shows what it showed when it was loaded, and a link to load it again.
"""

from __future__ import annotations

from typing import Any, Final

from django.apps import apps
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.template.response import TemplateResponse
from django.templatetags.static import static
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

SECONDS: Final = 5
#: A part that has not come by then is told of, and asked for again: its statements have five seconds themselves.
TIMEOUT_SECONDS: Final = 15
HTMX: Final = "django_htmx/htmx-2.min.js"
#: Says that an answer is a part, and when it was read; a login page that a redirect led to has none.
HEADER: Final = "X-JobQueue-Live"
STOP_POLLING: Final = 286


def respond(
    request: HttpRequest, template: str, context: dict[str, Any] | None = None, *, last: bool = False
) -> TemplateResponse:
    """Return a part as its view answers with it; after a `last` one it is not asked for again.

    The view asks for the permission first, as that of a page does.
    """
    response = TemplateResponse(request, template, context, status=STOP_POLLING if last else 200)
    response[HEADER] = clock()
    response["Cache-Control"] = "no-store"
    return response


def part(
    name: str, url: str, content: str, *, query: str = "", every: int = SECONDS, steady: bool = False
) -> SafeString:
    """Return the piece of a page that its address sends anew; its name is unique on the page.

    A `steady` one has nothing that changes its place: it need not wait for the pointer to leave it.
    """
    address = f"{url}?{query}" if query and "?" not in url else url
    return format_html(
        '<div id="jobqueue-live-{}" class="jobqueue-live" data-jobqueue-live{} data-hx-get="{}"'
        ' data-hx-trigger="every {}s, jobqueue-live" data-hx-swap="innerHTML" data-hx-sync="this:drop">{}</div>',
        # One of two constants.
        *(name, SafeString(" data-jobqueue-steady" if steady else ""), address, every, content),  # nosec B703
    )


def controls(request: HttpRequest) -> SafeString:
    """Return the button that pauses the parts their state, and the script: once a page, above the parts."""
    read = format_html("<time data-jobqueue-read>{}</time>", clock())
    context = {"htmx": htmx_url(), "timeout": TIMEOUT_SECONDS, "read": read, "address": request.get_full_path()}
    return render_to_string("admin/jobqueue/live_controls.html", context, request=request)


def htmx_url() -> str:
    """Return the address of htmx, or "" where the app that brings it is not installed."""
    if not apps.is_installed("django_htmx"):
        return ""
    try:
        return static(HTMX)
    except ValueError:  # a storage with a manifest that lacks it: another version of the app
        return ""


def clock() -> str:
    """Return the time of day in the current zone."""
    return f"{timezone.localtime():%H:%M:%S}"
