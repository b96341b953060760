"""What an answer means: accepted, refused for good, or to be tried again, and not before when."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Final

from jobqueue.errors import clean_text
from jobqueue.exceptions import WebhookError
from jobqueue.redaction import mask_text

EXCERPT_BYTES: Final = 2048
#: With these the same message may be accepted later, as after any 5xx.
PASSING: Final = frozenset({408, 409, 425, 429})
#: Followed with the same method and body.
REDIRECTS: Final = frozenset({301, 302, 307, 308})
#: Who asks to be left alone for longer gets a dead letter, not a job that waits unseen.
LONGEST_WAIT: Final = timedelta(days=7)


def excerpt(body: bytes) -> str:
    """Return the head of an answer's body as text that can be stored, with what looks like a secret hidden."""
    return mask_text(clean_text(body[:EXCERPT_BYTES].decode(errors="replace")).strip())


def judge(host: str, status: int, headers: Mapping[str, str], text: str) -> None:
    """Return where the answer means accepted. Raises WebhookError else."""
    if 200 <= status < 300:
        return
    told = f"{host} answered {status}{_phrase(status)}{': ' if text else ''}{text}"
    if status not in PASSING and status < 500:
        raise WebhookError(told, permanent=True, status=status)
    wait = retry_after(headers)
    if wait is not None and wait > LONGEST_WAIT:
        told = f"{told} (Retry-After: {wait.days} days, too long to wait for)"
        raise WebhookError(told, permanent=True, status=status)
    raise WebhookError(told, permanent=False, status=status, retry_after=wait)


def _phrase(status: int) -> str:
    try:
        return f" {HTTPStatus(status).phrase}"
    except ValueError:
        return ""


def retry_after(headers: Mapping[str, str]) -> timedelta | None:
    """Return how long the other side wants to be left alone, None where it does not say or nobody can read it.

    A moment is measured by the other side's own clock, where the answer tells it.
    """
    value = headers.get("retry-after", "").strip()
    if value.isascii() and value.isdecimal():
        return timedelta(seconds=min(int(value[:12]), 10**9))
    moment = _moment(value)
    if moment is None:
        return None
    return max(timedelta(0), moment - (_moment(headers.get("date", "")) or datetime.now(UTC)))


def _moment(value: str) -> datetime | None:
    try:
        found = parsedate_to_datetime(value)
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
