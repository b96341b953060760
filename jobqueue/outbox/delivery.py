"""Send one message now: the attempt behind the job, and what the alerts' command calls by itself."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import SplitResult, urljoin

from jobqueue.conf import get_settings
from jobqueue.exceptions import ConfigurationError, InvalidWebhook, WebhookError

from .answers import REDIRECTS, excerpt, judge
from .messages import MISSING, Message, new_message, signed_headers
from .urls import check_url, host_of, origin_of

MAX_REDIRECTS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """A message that was accepted: the answer's status, the head of its body, and how long all of it took."""

    id: str
    status: int
    response: str
    seconds: float
    redirects: int = 0


def deliver_webhook(
    url: str,
    event: str,
    data: Any,
    *,
    secret: str | None = None,
    headers: Mapping[str, str] | None = None,
    envelope: bool = True,
) -> Delivered:
    """Send a webhook at once, in this process, with no job and no second attempt; arguments as of send_webhook().

    Raises InvalidWebhook before anything is sent, ConfigurationError without the extra, WebhookError where the message
    was not accepted.
    """
    return deliver(new_message(url, event, data, secret=secret, headers=headers, envelope=envelope))


def deliver(message: Message) -> Delivered:
    """Make one attempt; raises WebhookError or ConfigurationError."""
    try:
        from .client import Clock, post  # noqa: PLC0415 - it needs an extra
    except ImportError as error:
        raise ConfigurationError(MISSING) from error
    began, clock = time.monotonic(), Clock(get_settings().WEBHOOK_TOTAL_SECONDS)
    parts, hops, own = _checked(message.url), 0, dict(message.headers)
    while True:
        headers = {**own, **signed_headers(message, datetime.now(UTC))}
        answer = post(parts.geturl(), host_of(parts), message.body, headers, clock)
        place = answer.headers.get("location")
        if answer.status not in REDIRECTS or not place:
            break
        if hops == MAX_REDIRECTS:
            text = f"{host_of(parts)} redirects once more, after {hops} redirects"
            raise WebhookError(text, permanent=True, status=answer.status)
        onward = _onward(parts, place)
        if origin_of(onward) != origin_of(parts):
            own = {}  # they may hold what only the first host is to know
        parts, hops = onward, hops + 1
    text = excerpt(answer.body)
    judge(host_of(parts), answer.status, answer.headers, text)
    return Delivered(
        id=message.id,
        status=answer.status,
        response=text,
        seconds=round(time.monotonic() - began, 3),
        redirects=hops,
    )


def _checked(url: str, *, redirected: bool = False) -> SplitResult:
    try:
        return check_url(url)
    except InvalidWebhook as error:  # the settings may have changed since the call
        raise WebhookError(f"{'redirected: ' if redirected else ''}{error}", permanent=True) from error


def _onward(parts: SplitResult, place: str) -> SplitResult:
    try:
        url = urljoin(parts.geturl(), place)
    except ValueError as error:
        raise WebhookError(f"redirected: the place cannot be read: {error}", permanent=True) from error
    return _checked(url, redirected=True)
