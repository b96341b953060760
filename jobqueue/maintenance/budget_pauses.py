"""The pauses that budgets set: which queue, by which budget, and that no person's pause or resume is undone.

Each queue is looked at by itself. Several budgets may want one queue paused: the one whose window ends last has it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from jobqueue.managers import pausing
from jobqueue.managers.budgeting import BudgetRow
from jobqueue.managers.rows import Run

logger = logging.getLogger("jobqueue.maintenance")

IN_FORCE: Final = """
SELECT name, paused_by, resumes_at FROM jobqueue_queue
 WHERE paused_at IS NOT NULL AND (resumes_at IS NULL OR resumes_at > statement_timestamp())
"""


class Pause(NamedTuple):
    """A pause that is in force."""

    paused_by: str
    resumes_at: datetime | None

    @property
    def budget(self) -> str | None:
        """The budget that set it, None for a person's."""
        return self.paused_by.removeprefix(pausing.BY_BUDGET) if self.paused_by.startswith(pausing.BY_BUDGET) else None


class BudgetPauses:
    """One round of pausing and resuming. `others` are budgets that only other workers' settings have."""

    def __init__(self, run: Run, *, others: set[str]) -> None:
        self._run, self._others = run, others
        self.pausing: set[str] = set()  # the budgets that have had their queue paused in this window
        self.woken: set[str] = set()  # queues that may have due jobs again
        self.paused = self.resumed = 0

    def apply(self, spent: Mapping[str, tuple[BudgetRow, str | None]], before: set[str]) -> None:
        """Make the queues what the spent budgets ask for; `before` are those that had theirs paused already."""
        in_force = {name: Pause(*row) for name, *row in self._run(IN_FORCE, {})}
        wanted: dict[str, list[BudgetRow]] = {name: [] for name, pause in in_force.items() if pause.budget is not None}
        for row, home in spent.values():
            queue = home or next((name for name, pause in in_force.items() if pause.budget == row.name), None)
            if queue is not None:
                wanted.setdefault(queue, []).append(row)
            elif row.name in before:  # a worker that knows the type has paused, and a person has resumed
                self.pausing.add(row.name)
        for queue, rows in wanted.items():
            self._turn(queue, in_force.get(queue), rows, before)

    def _turn(self, queue: str, pause: Pause | None, rows: Sequence[BudgetRow], before: set[str]) -> None:
        old = [row for row in rows if row.name in before]
        self.pausing |= {row.name for row in old}
        if pause is not None and (pause.budget is None or pause.budget in self._others):
            return  # a person's, or another worker's: a budget that is newly spent comes after it
        if pause is not None and not rows:
            self._resume(queue, pause)
            return
        if pause is None:  # those that had set one were resumed by a person, who is not overruled
            rows = [row for row in rows if row.name not in before]
        if rows and self._pause(queue, pause, max(rows, key=lambda row: (row.window_end, row.name))):
            self.pausing |= {row.name for row in rows}

    def _pause(self, queue: str, pause: Pause | None, row: BudgetRow) -> bool:
        wanted = Pause(f"{pausing.BY_BUDGET}{row.name}", row.window_end)
        if pause == wanted:
            return True
        reason = f"budget {row.name} is spent"  # no amounts: not all who see a queue may see costs
        until = row.window_end
        by = wanted.paused_by
        if not pausing.pause(self._run, name=queue, paused_by=by, reason=reason, until=until, yields=True):
            return False  # a person was quicker
        self.paused += 1
        logger.warning("queue paused queue=%s by=%s until=%s reason=%s", queue, by, until.isoformat(), reason)
        return True

    def _resume(self, queue: str, pause: Pause) -> None:
        if pausing.resume(self._run, name=queue, paused_by=pause.paused_by):
            self.resumed += 1
            self.woken |= pausing.woken_by(self._run, queue)
            logger.info("queue resumed queue=%s it was paused by=%s", queue, pause.paused_by)
