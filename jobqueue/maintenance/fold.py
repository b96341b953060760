"""Fold statistics, costs and counters into minutes, and minutes into quarter-hours, without changing any sum."""

from __future__ import annotations

import time
from datetime import timedelta

from jobqueue import sql
from jobqueue.managers import moving
from jobqueue.managers.rows import Run

BATCH = 5_000
MINUTE, QUARTER = 60, 900
# Minutes are kept for as long as a figure "of the last hour" needs them.
# Rows of single settles go soon: those of a busy worker are what makes a look at the last minutes slow.
TO_MINUTES = (0, MINUTE, timedelta(seconds=2))
TO_QUARTERS = (MINUTE, QUARTER, timedelta(minutes=75))
BUSY_SECONDS, IDLE_SECONDS = 5.0, 15.0  # until the next look, after one that folded anything and one that did not
STATEMENTS = {"stats": sql.FOLD_STATS, "costs": sql.FOLD_COSTS, "counters": sql.FOLD_COUNTERS}


class Fold:
    """Folds one batch of each kind."""

    name = "fold"
    more = False

    def __init__(self, run: Run) -> None:
        self._run = run
        self.interval_seconds = BUSY_SECONDS
        self._quarters_at = 0.0

    def run_once(self) -> dict[str, int]:
        """Fold one batch of each step, of the minutes no more than once in one."""
        steps = [TO_MINUTES]
        if time.monotonic() >= self._quarters_at:
            steps.append(TO_QUARTERS)
        counts = {name: [self._fold(statement, *step) for step in steps] for name, statement in STATEMENTS.items()}
        self.more = any(BATCH in folded for folded in counts.values())
        if len(steps) > 1 and not self.more:
            self._quarters_at = time.monotonic() + MINUTE
        total = {name: sum(folded) for name, folded in counts.items()}
        self.interval_seconds = BUSY_SECONDS if any(total.values()) else IDLE_SECONDS
        return total

    def _fold(self, statement: str, from_span: int, to_span: int, age: timedelta) -> int:
        return moving.fold(self._run, statement=statement, from_span=from_span, to_span=to_span, age=age, limit=BATCH)
