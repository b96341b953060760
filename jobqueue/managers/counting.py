"""Figures that a loose or a capped scan of small partial indexes gives, whatever the table's size."""

from __future__ import annotations

from jobqueue import sql
from jobqueue.states import Status

from .rows import Run


def pending_queues(run: Run) -> list[str]:
    """Return the queues that have due jobs, sorted."""
    return [row[0] for row in run(sql.PENDING_QUEUES, {})]


def oldest_pending_seconds(run: Run) -> float | None:
    """Return how long the oldest due job has waited, None when nothing is due."""
    seconds: float | None = run(sql.OLDEST_PENDING, {})[0][0]
    return seconds


def count_by_status(run: Run, *, cap: int | None) -> dict[Status, int]:
    """Return the number of jobs by status, each up to a cap (None: exact)."""
    return {Status(row[0]): row[1] for row in run(sql.COUNT_JOBS, {"cap": cap})}
