"""Reap, promote, cancel, redrive, discard, prune: the verbs that need no lease."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from jobqueue import sql
from jobqueue.conf import get_settings
from jobqueue.states import Status, status_name

from .querysets import patience
from .rows import Moved, Run


def reap(run: Run, *, limit: int, skip: Sequence[int] = ()) -> list[tuple[Any, ...]]:
    """Take back jobs whose lease ran out. Returns (id, status, worker that lost it, lease_epoch, queue) of each."""
    settings = get_settings()
    params = {"take": limit, "skip": list(skip), "notices": bool(settings.NOTIFIERS), "unit": settings.COST_UNITS[0]}
    return run(sql.REAP_JOBS, params)


def promote(run: Run, *, limit: int, skip: Sequence[int] = ()) -> list[tuple[int, str]]:
    """Make scheduled jobs whose time has come PENDING, earliest first. Returns (id, queue) of each."""
    return [(row[0], row[1]) for row in run(sql.PROMOTE_JOBS, {"take": limit, "skip": list(skip)})]


def first_to_move(run: Run, *, statement: str, skip: Sequence[int]) -> int | None:
    """Return the id that the next reap or promotion would take first (FIRST_EXPIRED, FIRST_DUE), None for none."""
    rows = run(statement, {"skip": list(skip)})
    return rows[0][0] if rows else None


def seconds_to_next_due(run: Run) -> float | None:
    """Return the seconds until the next scheduled job is due (negative: overdue), or None when nothing is scheduled."""
    seconds: float | None = run(sql.NEXT_DUE, {})[0][0]
    return seconds


def cancel(run: Run, *, ids: Sequence[int], reason: str) -> tuple[dict[int, int], set[str]]:
    """Cancel jobs. Returns ({id: status after, RUNNING meaning asked}, the workers to tell)."""
    rows = run(sql.CANCEL_JOBS, {"ids": list(ids), "reason": reason})
    return {row[0]: row[1] for row in rows}, {row[2] for row in rows if row[1] == Status.RUNNING and row[2]}


def redrive(
    run: Run, *, ids: Sequence[int], spread: timedelta, not_before: datetime | None = None
) -> list[tuple[int, int, str]]:
    """Put dead letters back with a fresh budget. Returns (id, status, queue) of each whose key was free."""
    params = {"ids": list(ids), "spread_seconds": spread.total_seconds(), "not_before": not_before}
    rows = run(sql.REDRIVE_JOBS, params)
    return [(row[0], row[1], row[2]) for row in rows]


def discard(run: Run, *, ids: Sequence[int], reason: str) -> list[int]:
    """Discard dead letters, keeping the reason. Returns the ids."""
    return [row[0] for row in run(sql.DISCARD_JOBS, {"ids": list(ids), "reason": reason})]


def release_stuck(
    run: Run, *, ids: Sequence[int], reason: str, dead: bool = False
) -> list[tuple[int, int, str | None, str]]:
    """Take stuck jobs from their workers: back to the queue, or to the dead letters.

    Returns (id, status, worker that loses it, queue) of each that was stuck.
    """
    settings = get_settings()
    seconds, patient = patience()
    rows = run(
        sql.RELEASE_STUCK_JOBS,
        {
            "ids": list(ids),
            "reason": reason,
            "dead": dead,
            "patience_seconds": seconds,
            "patient_types": list(patient),
            "patient_seconds": list(patient.values()),
            "notices": bool(settings.NOTIFIERS),
            "unit": settings.COST_UNITS[0],
        },
    )
    return [(row[0], row[1], row[2], row[3]) for row in rows]


def explain_refused(run: Run, *, ids: Sequence[int], moved: Moved, wanted: str) -> None:
    """Fill in why each id that was not changed was refused: gone, in another status, or blocked by another job."""
    missing = [job_id for job_id in ids if job_id not in moved.changed and job_id not in moved.refused]
    if not missing:
        return
    statuses = {row[0]: row[1] for row in run(sql.FENCE_STATE, {"ids": missing})}
    blockers: dict[int, int | None] = dict(run(sql.BLOCKED_REDRIVES, {"ids": missing})) if wanted == "redrive" else {}
    for job_id in missing:
        if job_id not in statuses:
            moved.refused[job_id] = "no such job"
        elif blockers.get(job_id):
            moved.refused[job_id] = f"blocked by #{blockers[job_id]}"
        elif wanted in ("release", "mark dead") and statuses[job_id] == Status.RUNNING:
            moved.refused[job_id] = "is not stuck: its worker holds the lease"
        else:
            moved.refused[job_id] = f"is {status_name(statuses[job_id])}"


def prune(
    run: Run,
    *,
    status: int,
    age: timedelta,
    limit: int,
    keep: Sequence[int] = (),
    after: tuple[datetime, int] | None = None,
) -> list[int]:
    """Delete one batch of finished jobs of one status older than an age, with their attempts. Returns the ids.

    `after` is the (finished_at, id) up to which everything is passed over, at no cost.
    """
    after_at, after_id = after or ("-infinity", 0)
    params = {"status": status, "age": age, "take": limit, "keep": list(keep)}
    return [row[0] for row in run(sql.PRUNE_JOBS, params | {"after_at": after_at, "after_id": after_id})]


def prune_figures(run: Run, *, age: timedelta, limit: int) -> dict[str, int]:
    """Delete one batch of each kind of figures older than an age. Returns how many of each kind, by its name."""
    stats, costs, counters, incidents = run(sql.PRUNE_FIGURES, {"age": age, "take": limit})[0]
    return {"stats": stats, "costs": costs, "counters": counters, "incidents": incidents}


def fold(run: Run, *, statement: str, from_span: int, to_span: int, age: timedelta, limit: int) -> int:
    """Fold one batch of statistics or cost rows into a longer span. Returns the number of rows folded."""
    rows = run(statement, {"from_span": from_span, "to_span": to_span, "age": age, "take": limit})
    return int(rows[0][0])
