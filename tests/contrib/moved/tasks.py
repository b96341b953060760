"""Tasks as Celery's users write them."""

from __future__ import annotations

import os
import signal
from typing import Any

from jobqueue.contrib.celery import SoftTimeLimitExceeded, shared_task


class Busy(Exception):
    """Somebody asks to come again."""


class Gone(Busy):
    """Somebody will never answer."""


@shared_task
def add(x: int, y: int = 0) -> int:
    """Add up."""
    return x + y


@shared_task(bind=True, name="moved.tells", queue="slow", priority=9, acks_late=True)
def tells(self: Any) -> dict[str, Any]:
    """Tell what a task knows of itself."""
    request = self.request
    self.request.job.progress(50)
    return {
        "id": request.id,
        "retries": request.retries,
        "name": self.name,
        "hostname": request.hostname,
        "directly": request.called_directly,
    }


@shared_task(bind=True, max_retries=2, default_retry_delay=0)
def retries(self: Any, until: int, limit: int | None = None) -> list[int]:
    """Succeed at the retry of that number."""
    try:
        if self.request.retries < until:
            raise Busy("later")
    except Busy as exc:
        raise self.retry(exc=exc, countdown=0, max_retries=limit) from exc
    return [self.request.retries, self.max_retries]


@shared_task(bind=True, max_retries=1)
def gives_up(self: Any) -> None:
    """Ask for retries without a reason, for ever."""
    self.retry(countdown=0)


@shared_task(autoretry_for=(Busy,), dont_autoretry_for=(Gone,), retry_kwargs={"max_retries": 1, "countdown": 0})
def fetch(kind: str) -> str:
    """Fail in one of several ways."""
    raise {"busy": Busy, "gone": Gone, "bad": ValueError}[kind](kind)


@shared_task(max_retries=1)
def is_killed() -> None:
    """End the process."""
    os.kill(os.getpid(), signal.SIGKILL)


@shared_task(soft_time_limit=0.5)
def runs_too_long() -> str:
    """Notice the limit, and tidy up."""
    try:
        while True:
            pass
    except SoftTimeLimitExceeded:
        raise


@shared_task(ignore_result=True)
def forgets() -> str:
    """Return what nobody wants to know."""
    return "forgotten"
