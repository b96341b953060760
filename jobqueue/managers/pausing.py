"""Pause and resume queues: the verbs of jobqueue_queue, on whatever connection `run` stands for.

A claim leaves out the spans of paused queues in its own statement, so a pause holds for every claim that begins after
its commit, in every worker and without its knowing. Jobs that were claimed before go on.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from jobqueue import sql
from jobqueue.conf import get_settings

from .counting import pending_queues
from .rows import Run
from .waking import CHANNEL

#: The name of the pause that holds for all queues but the package's own, jobqueue.
ALL_QUEUES: Final = "*"
#: Before a budget's name in `paused_by`: such a pause is taken back by whoever set it, the budgets' service.
BY_BUDGET: Final = "budget:"


def pause(
    run: Run, *, name: str, paused_by: str, reason: str, until: datetime | None, yields: bool = False
) -> tuple[datetime, datetime | None] | None:
    """Pause a queue until an instant (None: until it is resumed). Returns (paused_at, resumes_at).

    With `yields` a person's pause that is in force stays as it is, and None is returned.
    """
    rows = run(
        sql.PAUSE_QUEUE,
        {"name": name, "paused_by": paused_by, "reason": reason, "resumes_at": until, "yields": yields},
    )
    return None if not rows else (rows[0][0], rows[0][1])


def resume(run: Run, *, name: str, paused_by: str | None = None) -> bool:
    """Resume a queue, or only where `paused_by` pauses it. Returns whether it was paused so."""
    return bool(run(sql.RESUME_QUEUE, {"name": name, "paused_by": paused_by}))


def woken_by(run: Run, name: str) -> set[str]:
    """Return the queues whose workers have to be woken once this one is resumed: those that may have due jobs."""
    return set(pending_queues(run)) if name == ALL_QUEUES else {name}


def wake(run: Run, queues: Iterable[str]) -> None:
    """Wake sleeping workers of queues at the commit of the current transaction."""
    names = sorted(queues)
    if names and get_settings().NOTIFY:
        run(sql.WAKE_QUEUES, {"channel": CHANNEL, "queues": names})
