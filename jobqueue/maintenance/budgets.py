"""Watch the budgets: write how far each is spent, pause the queue of one that is, and resume what this has paused.

A budget pauses its queue once, when it is first seen spent in its window. A person who resumes that queue has decided
otherwise, and it stays resumed until the next window. A person's own pause is never touched: where one is in force the
budget's comes after it. One worker at a time does this for all, about once a tick.

Sums are exact. Those of days and months are kept in two parts: what lies two hours back and more changes only where a
transaction of a handler has been open for so long, and is summed anew every five minutes.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Final, NamedTuple

from jobqueue import sql
from jobqueue.budgets import PAUSE, REFUSE, SPENT_AT, BudgetTerms
from jobqueue.conf import get_settings
from jobqueue.managers import pausing
from jobqueue.managers.budgeting import BudgetRow, BudgetSum, budget_sums, write_budgets
from jobqueue.managers.leaderless import try_lock
from jobqueue.managers.sessions import Session

from .budget_pauses import BudgetPauses

logger = logging.getLogger("jobqueue.maintenance")

UNUSED_SECONDS: Final = 60.0  # without budgets, only rows of former ones are looked for
SETTLED_SECONDS: Final = 300.0
FRESH_SHARE: Final = 0.8  # of a tick: what another worker wrote within it is not done again

SEEN: Final = """
SELECT name, window_start, level, pauses, extract(epoch FROM statement_timestamp() - updated_at)::float8
  FROM jobqueue_budget
"""


class Seen(NamedTuple):
    """A budget's row as the last round left it."""

    window_start: datetime
    level: int
    pauses: bool
    age_seconds: float


class Settled(NamedTuple):
    """What a budget had spent before an edge two hours ago, and when that was summed."""

    terms: BudgetTerms
    window_start: datetime
    edge: datetime
    amount: Decimal
    at: float


class Budgets:
    """Evaluates all budgets of the settings."""

    name = "budgets"
    more = False

    def __init__(self, session: Session, *, home_queue: Callable[[str], str | None], interval_seconds: float) -> None:
        self._session, self._home_queue, self._tick = session, home_queue, interval_seconds
        self.interval_seconds = interval_seconds
        self._settled: dict[str, Settled] = {}
        self._homeless: set[str] = set()

    def run_once(self) -> dict[str, int]:
        """Do one round, unless another worker is at it or has just done it."""
        terms, run = get_settings().BUDGETS, self._session.run
        self.interval_seconds = self._tick if terms else UNUSED_SECONDS
        with self._session.transaction():
            if not try_lock(run, self.name):
                return {}
            seen = {name: Seen(*row) for name, *row in run(SEEN, {})}
            if terms and all(name in seen and seen[name].age_seconds < self._tick * FRESH_SHARE for name in terms):
                return {}
            forgotten = {row[0] for row in run(sql.FORGET_BUDGETS, {"names": list(terms)})}
            rows = [_row(terms[found.name], found) for found in self._sums(terms)]
            pauses = self._pauses(terms, rows, seen, forgotten)
            write_budgets(run, [row._replace(pauses=row.name in pauses.pausing) for row in rows])
            pausing.wake(run, pauses.woken)
        for row in rows:
            _tell(row, seen.get(row.name))
        return {"paused": pauses.paused, "resumed": pauses.resumed}

    def _pauses(
        self,
        terms: Mapping[str, BudgetTerms],
        rows: Sequence[BudgetRow],
        seen: Mapping[str, Seen],
        forgotten: set[str],
    ) -> BudgetPauses:
        """Pause and resume queues. Returns what was done."""
        pauses = BudgetPauses(self._session.run, others=set(seen) - set(terms) - forgotten)
        if any(budget.at_limit == PAUSE for budget in terms.values()) or any(row.pauses for row in seen.values()):
            spent = [row for row in rows if row.level == SPENT_AT and terms[row.name].at_limit == PAUSE]
            before = {row.name for row in rows if _paused_before(row, seen.get(row.name))}
            pauses.apply({row.name: (row, self._queue_of(terms[row.name])) for row in spent}, before)
        return pauses

    def _queue_of(self, terms: BudgetTerms) -> str | None:
        """Return the queue that a budget pauses, None for a type that this worker does not know."""
        if terms.job_type is None:
            return pausing.ALL_QUEUES if terms.queue is None else terms.queue
        queue = self._home_queue(terms.job_type)
        if queue is None and terms.name not in self._homeless:
            self._homeless.add(terms.name)
            logger.warning("budget spent, but its job type is not known here: nothing is paused budget=%s", terms.name)
        return queue

    def _sums(self, terms: Mapping[str, BudgetTerms]) -> list[BudgetSum]:
        """Return the sums, each with all that is spent in the window as its amount."""
        now = time.monotonic()
        known = {
            name: kept
            for name, kept in self._settled.items()
            if now - kept.at < SETTLED_SECONDS and kept.terms == terms.get(name)
        }
        found = budget_sums(self._session.run, list(terms.values()), {name: kept.edge for name, kept in known.items()})
        self._settled = {}
        sums = []
        for name, each in found.items():
            kept = known.get(name)
            if kept is not None and (kept.window_start, kept.edge) == (each.window_start, each.since):
                self._settled[name] = kept
                sums.append(each._replace(amount=kept.amount + each.amount))
                continue
            if each.settled_at > each.window_start:
                edge, settled = each.settled_at, each.settled
                self._settled[name] = Settled(terms[name], each.window_start, edge, settled, now)
            sums.append(each)
        return sums


def _row(terms: BudgetTerms, found: BudgetSum) -> BudgetRow:
    level = terms.level(found.amount)
    return BudgetRow(
        name=terms.name,
        window_start=found.window_start,
        window_end=found.window_end,
        unit=terms.unit,
        amount=terms.amount,
        spent=found.amount,
        level=level,
        refuses=level == SPENT_AT and terms.at_limit == REFUSE,
        pauses=False,
    )


def _paused_before(row: BudgetRow, seen: Seen | None) -> bool:
    return seen is not None and seen.pauses and seen.window_start == row.window_start


def _tell(row: BudgetRow, seen: Seen | None) -> None:
    """Log that a budget has passed a level of its window."""
    before = seen.level if seen is not None and seen.window_start == row.window_start else 0
    if row.level > before:
        logger.warning(
            "budget passed %s %% budget=%s spent=%s of=%s unit=%s until=%s",
            *(row.level, row.name, f"{row.spent:f}", f"{row.amount:f}", row.unit, row.window_end.isoformat()),
        )
