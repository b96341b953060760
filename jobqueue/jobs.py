"""The app's own job: tell people of jobs that died or broke a limit."""

from __future__ import annotations

from typing import Any

from jobqueue.backoff import Backoff
from jobqueue.notifiers import Notification, load_notifiers
from jobqueue.registry import job


@job("jobqueue.notify", priority=0, max_attempts=5, backoff=Backoff(base=10, cap=600))
def notify(context: Any, **event: Any) -> dict[str, int]:
    """Pass one notification to every notifier; the first that fails has the job tried again."""
    notifiers = load_notifiers()
    notification = Notification.from_json(event)
    for notifier in notifiers:
        notifier.notify(notification)
    return {"notified": len(notifiers)}
