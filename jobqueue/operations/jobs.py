"""What people do with jobs: retry, discard, cancel, release."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from .acting import Report, Targets, User, act_on_jobs, clean

if TYPE_CHECKING:
    from jobqueue.managers import JobManager, Moved

# What failed together in one outage should not come back together. A hundred jobs a second, for ten minutes at most.
SPREAD_FROM: Final = 100
SPREAD_A_JOB: Final = timedelta(milliseconds=10)
LONGEST_SPREAD: Final = timedelta(minutes=10)


def retry(
    targets: Targets,
    *,
    actor: User | str,
    reason: str = "",
    spread: timedelta | None = None,
    subject: str = "",
    using: str | None = None,
) -> Report:
    """Put dead letters back with a fresh budget of attempts, due at random within `spread` from now.

    None spreads 100 jobs and more by themselves (default_spread()); timedelta(0) makes all due at once. Refused: jobs
    that are not dead, and `blocked by #id` where another job holds or outranks the dedupe key. A `subject` ("group:…")
    tells in the audit what they have in common. Raises PermissionDenied, and ValueError for a negative spread.
    """
    check_spread(spread)

    def redrive(manager: JobManager, ids: list[int], seen: int) -> Moved:
        return manager.redrive(ids, spread=default_spread(seen) if spread is None else spread)

    return act_on_jobs("retry", targets, actor, clean(reason), using, redrive, subject=subject)


def check_spread(spread: timedelta | None) -> None:
    """Raise ValueError for a negative spread."""
    if spread is not None and spread < timedelta(0):
        msg = f"spread must not be negative, not {spread}"
        raise ValueError(msg)


def discard(
    targets: Targets, *, actor: User | str, reason: str = "", subject: str = "", using: str | None = None
) -> Report:
    """Discard dead letters: they become CANCELLED and are pruned as such. Raises PermissionDenied."""
    why = clean(reason)

    def throw_away(manager: JobManager, ids: list[int], _seen: int) -> Moved:
        return manager.discard(ids, reason=why)

    return act_on_jobs("discard", targets, actor, why, using, throw_away, subject=subject)


def cancel(targets: Targets, *, actor: User | str, reason: str = "", using: str | None = None) -> Report:
    """Cancel jobs: waiting ones at once, running ones by a request to their worker. Raises PermissionDenied."""
    why = clean(reason)
    return act_on_jobs("cancel", targets, actor, why, using, lambda manager, ids, _: manager.cancel(ids, reason=why))


def release(targets: Targets, *, actor: User | str, reason: str = "", using: str | None = None) -> Report:
    """Give stuck running jobs back to the queue, uncharged; what their old workers still send is refused.

    Refused: jobs that are not stuck (QuerySet.stuck()): a living worker holds their lease. Raises PermissionDenied.
    """
    why = clean(reason)
    return act_on_jobs(
        "release", targets, actor, why, using, lambda manager, ids, _: manager.release_stuck(ids, reason=why)
    )


def default_spread(jobs: int) -> timedelta:
    """Return over how long so many retried jobs become due when nobody says: at once below 100, at most ten minutes."""
    return timedelta(0) if jobs < SPREAD_FROM else min(jobs * SPREAD_A_JOB, LONGEST_SPREAD)
