"""Delete statistics, costs, counters and resolved incidents past their retention, in small batches."""

from __future__ import annotations

from datetime import timedelta

from jobqueue.conf import get_settings
from jobqueue.managers import moving
from jobqueue.managers.rows import Run

BATCH = 1_000


class PruneFigures:
    """Prunes what outlives the jobs; what is that old and not folded yet is left until it is."""

    name = "figures"
    more = False

    def __init__(self, run: Run, *, interval_seconds: float = 60.0, age: timedelta | None = None) -> None:
        self._run, self._age = run, age
        self.interval_seconds = interval_seconds

    def run_once(self, limit: int = BATCH) -> dict[str, int]:
        """Delete one batch of each kind, each of at most `limit` rows; nothing where figures are kept for good."""
        age = retention() if self._age is None else self._age
        counts = {} if age is None else moving.prune_figures(self._run, age=age, limit=limit)
        self.more = limit in counts.values()
        return counts


def retention() -> timedelta | None:
    """Return the age past which figures are deleted, None where they are kept for good."""
    seconds = get_settings().RETENTION_STATISTICS_SECONDS
    return None if seconds is None else timedelta(seconds=seconds)
