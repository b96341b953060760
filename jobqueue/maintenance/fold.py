"""Fold statistics, costs and counters into minutes, and minutes into quarter-hours, without changing any sum."""

from __future__ import annotations

from datetime import timedelta

from jobqueue import sql
from jobqueue.managers import moving
from jobqueue.managers.rows import Run

BATCH = 5_000
MINUTE, QUARTER = 60, 900
# Minutes are kept for as long as a figure "of the last hour" needs them.
# Rows of single settles go soon: those of a busy worker are what makes a look at the last minutes slow.
STEPS = ((0, MINUTE, timedelta(seconds=2)), (MINUTE, QUARTER, timedelta(minutes=75)))
STATEMENTS = {"stats": sql.FOLD_STATS, "costs": sql.FOLD_COSTS, "counters": sql.FOLD_COUNTERS}


class Fold:
    """Folds one batch of each kind."""

    name = "fold"
    more = False

    def __init__(self, run: Run, *, interval_seconds: float = 5.0) -> None:
        self._run = run
        self.interval_seconds = interval_seconds

    def run_once(self) -> dict[str, int]:
        """Fold one batch of each step."""
        counts = {"stats": 0, "costs": 0, "counters": 0}
        self.more = False
        for name, statement in STATEMENTS.items():
            for from_span, to_span, age in STEPS:
                folded = moving.fold(
                    self._run, statement=statement, from_span=from_span, to_span=to_span, age=age, limit=BATCH
                )
                counts[name] += folded
                self.more = self.more or folded == BATCH
        return counts
