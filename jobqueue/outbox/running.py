"""What the job `jobqueue.webhook` does: wait for its turn, send, and say by its end what the answer means."""

from __future__ import annotations

import logging
import random
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import DatabaseError

from jobqueue.backoff import Backoff
from jobqueue.exceptions import Dead, InvalidWebhook, Retry, Snooze, WebhookError

from . import hosts
from .delivery import deliver
from .messages import Message
from .urls import check_url, host_of

logger = logging.getLogger("jobqueue.outbox")

#: Twelve attempts take about a day and a quarter.
BACKOFF: Final = Backoff(base=10, factor=3, cap=6 * 3600)
#: Waiting for a host that is left alone costs no attempt; of a message older than this it does, so that it ends.
FREE_WAIT_SECONDS: Final = 86_400.0


def run_webhook(payload: Mapping[str, Any], *, attempt: int) -> dict[str, Any]:
    """Make one attempt and return what is kept of the answer.

    Raises Snooze while it is not its turn, Retry where a later attempt may succeed, Dead where none can.
    """
    message = Message(**payload)
    try:
        host = host_of(check_url(message.url))
    except InvalidWebhook as error:  # the settings allow it no more
        raise Dead(str(error)) from error
    turn = hosts.take(host)
    if turn.token is None:
        raise _waiting(message, host, turn.wait, attempt)
    well: bool | None = None
    try:
        delivered = deliver(message)
        well = True
    except WebhookError as error:
        well = _is_well(error)
        if error.permanent:
            raise Dead(str(error)) from error
        raise Retry(max(error.retry_after or timedelta(0), BACKOFF.delay(attempt)), str(error)) from error
    finally:
        _free(host, turn.token, well)
    return asdict(delivered)


def _is_well(error: WebhookError) -> bool | None:
    """Tell whether a host that answered so is well: one that answers, be it with a refusal, is."""
    if error.status is None:
        return None if error.permanent else False
    return error.status < 500 and error.status != 408


def _free(host: str, token: datetime, well: bool | None) -> None:
    try:
        hosts.free(host, token, well=well)
    except DatabaseError as error:
        # What was sent is sent: the attempt does not fail for this. The place is free again after its time-out.
        logger.warning("host not freed host=%s error=%s", host, type(error).__name__)


def _waiting(message: Message, host: str, wait: timedelta, attempt: int) -> Retry | Snooze:
    if wait and message.age_seconds > FREE_WAIT_SECONDS:
        return Retry(max(wait, BACKOFF.delay(attempt)), f"{host} is left alone after failures in a row")
    # Jobs that wait for a busy host look again the later, the longer they have waited: thousands of them cost little.
    seconds = wait.total_seconds() or min(30.0, max(1.0, message.age_seconds / 4))
    return Snooze(seconds * random.uniform(1, 1.5))
