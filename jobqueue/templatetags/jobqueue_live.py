"""The tags of live parts: {% live_controls %} once, then {% live "name" url %}…{% endlive %} around each."""

from __future__ import annotations

from typing import Any

from django import template
from django.utils.safestring import SafeString

register = template.Library()

# Django imports every module of tags with the first template of a project, also where the admin is not installed.


@register.simple_tag(takes_context=True)
def live_controls(context: Any) -> SafeString:
    """Return the button that pauses the live parts, their state, and the script."""
    from jobqueue.admin import live  # noqa: PLC0415 - late, see above

    return live.controls(context["request"])


@register.simple_block_tag(takes_context=True, end_name="endlive", name="live")
def live_part(context: Any, content: str, name: str, url: str, *, every: int = 5, steady: bool = False) -> SafeString:
    """Return the content as a part that is read anew from the address, with the page's own query."""
    from jobqueue.admin import live  # noqa: PLC0415 - late, see above

    return live.part(name, url, content, query=context["request"].GET.urlencode(), every=every, steady=steady)
