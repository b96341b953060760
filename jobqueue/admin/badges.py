"""A state in a word: with a colour and a sign that help the eye, and say nothing that the word does not."""

from __future__ import annotations

from typing import Any, Final, Literal

from django.utils.html import format_html
from django.utils.safestring import SafeString

from jobqueue.states import Status

#: How a thing stands: well, at work, waiting, to be looked at, broken, or out of the running.
Kind = Literal["ok", "busy", "wait", "warn", "bad", "off"]
KINDS: Final[dict[Status, Kind]] = {
    Status.PENDING: "wait",
    Status.RUNNING: "busy",
    Status.DONE: "ok",
    Status.DEAD: "bad",
    Status.SCHEDULED: "wait",
    Status.WAITING: "wait",
    Status.CANCELLED: "off",
}


def badge(kind: Kind, text: Any) -> SafeString:
    """Return a text as a badge of this kind."""
    return format_html('<span class="jobqueue-badge jobqueue-is-{}">{}</span>', kind, text)


def status_badge(status: int) -> SafeString:
    """Return a job's status as a badge; a number that is none, which only a row written by hand has, as it is."""
    if status not in Status.values:
        return badge("warn", status)
    return badge(KINDS[Status(status)], Status(status).label)
