"""Which signal follows which end, and sending it so that no receiver can hurt the job."""

from __future__ import annotations

import logging
from typing import Any

from django.dispatch import Signal

from jobqueue.errors import describe
from jobqueue.managers import Ending
from jobqueue.outcomes import Outcome
from jobqueue.states import Status

logger = logging.getLogger("jobqueue.run")


def has_receivers(signal: Signal, sender: str) -> bool:
    """Tell whether anybody listens; the common answer, nobody at all, costs next to nothing."""
    return bool(signal.receivers) and signal.has_listeners(sender)


def signal_for(end: Ending, status: int) -> tuple[str | None, dict[str, Any]]:
    """Return (the name of the signal for this end, its arguments besides those of every signal)."""
    about = {"outcome": Outcome(end.outcome), "error_class": end.error_class or "", "error_text": end.error_text or ""}
    if status == Status.DEAD:
        return "job_dead", about
    if status == Status.CANCELLED:
        return "job_cancelled", {"outcome": about["outcome"], "reason": about["error_text"]}
    if status in (Status.SCHEDULED, Status.PENDING):
        return "job_retrying", about | {"delay": end.delay}
    return None, {}


def send_signal(signal: Any, arguments: dict[str, Any], *, sender: str | None) -> None:
    """Send a signal to every receiver; those that raise are logged, each once, with the job's id."""
    for receiver, answer in signal.send_robust(sender=sender, **arguments):
        if isinstance(answer, BaseException):
            logger.error(
                "signal receiver failed receiver=%s job_id=%s error=%s",
                getattr(receiver, "__qualname__", receiver),
                arguments.get("job_id"),
                describe(answer, max_bytes=500).text,
                exc_info=answer,
            )
