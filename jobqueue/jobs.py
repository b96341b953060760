"""The app's own jobs: tell people of jobs that died or broke a limit and of alerts, send webhooks and mails."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from jobqueue.alerting import ALERT, ATTEMPTS
from jobqueue.backoff import Backoff
from jobqueue.internal import INTERNAL_QUEUE, is_internal
from jobqueue.limits import Limits
from jobqueue.models import Job
from jobqueue.notifiers import LogNotifier, Notification, load_notifiers
from jobqueue.outbox.mails import MAIL, run_mail
from jobqueue.outbox.running import BACKOFF, run_webhook
from jobqueue.outbox.webhooks import WEBHOOK
from jobqueue.registry import job


@job("jobqueue.notify", queue=INTERNAL_QUEUE, priority=0, max_attempts=5, backoff=Backoff(base=10, cap=600))
def notify(context: Any, **event: Any) -> dict[str, int]:
    """Pass one notification to every notifier; the first that fails has the job tried again."""
    notification = Notification.from_json(event)
    # A mail that cannot be sent is told to the log only: by mail it would tell of itself for ever.
    notifiers = [LogNotifier()] if is_internal(notification.job_type) else load_notifiers()
    for notifier in notifiers:
        notifier.notify(notification)
    return {"notified": len(notifiers)}


@job(ALERT, queue=INTERNAL_QUEUE, priority=0, max_attempts=ATTEMPTS, backoff=Backoff(base=5, cap=60))
def alert(context: Any, *, incident: int) -> None:
    """Enqueue the messages about one incident, one job a target, unless somebody was told of it already."""
    from jobqueue.ops.alert_sending import enqueue_messages  # noqa: PLC0415 - no child needs that floor but for this

    alias = Job.objects.write_db
    with transaction.atomic(using=alias):
        context.complete({"messages": enqueue_messages(incident, using=alias)})


@job(WEBHOOK, queue=INTERNAL_QUEUE, max_attempts=12, backoff=BACKOFF, limits=Limits(duration=300))
def webhook(context: Any, **payload: Any) -> dict[str, Any]:
    """Send one webhook; the result holds the answer's status and the head of its body."""
    return run_webhook(payload, attempt=context.attempt)


@job(MAIL, queue=INTERNAL_QUEUE, max_attempts=12, backoff=BACKOFF, limits=Limits(duration=300))
def mail(context: Any, **payload: Any) -> dict[str, Any]:
    """Send one e-mail by the mail backend that sends."""
    return run_mail(payload)
