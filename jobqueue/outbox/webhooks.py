"""Enqueue a webhook in the caller's transaction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from jobqueue.internal import INTERNAL_QUEUE
from jobqueue.models import Job

from .messages import new_message

if TYPE_CHECKING:
    from datetime import datetime, timedelta

WEBHOOK: Final = "jobqueue.webhook"


def send_webhook(
    url: str,
    event: str,
    data: Any,
    *,
    secret: str | None = None,
    headers: Mapping[str, str] | None = None,
    envelope: bool = True,
    queue: str = INTERNAL_QUEUE,
    priority: int | None = None,
    max_attempts: int = 12,
    dedupe_key: str | None = None,
    run_after: datetime | timedelta | None = None,
    owner: str = "",
    using: str | None = None,
) -> Job | None:
    """Enqueue one webhook: it is sent after the commit, and gone with a rollback.

    The body is {"type": event, "timestamp": …, "data": data}, or with `envelope=False` the data alone. `secret` is a
    name in JOBQUEUE["WEBHOOK_SECRETS"]; without one the message is not signed. `using` is the alias of the jobs'
    database. Returns the job, None when an active job holds `dedupe_key`. Raises InvalidWebhook, or what enqueue()
    raises, before any SQL.
    """
    message = new_message(url, event, data, secret=secret, headers=headers, envelope=envelope)
    manager = Job.objects if using is None else Job.objects.db_manager(using)
    return manager.enqueue(
        WEBHOOK,
        message.to_json(),
        queue=queue,
        priority=priority,
        max_attempts=max_attempts,
        dedupe_key=dedupe_key,
        run_after=run_after,
        owner=owner,
    )
