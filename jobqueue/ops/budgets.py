"""How far each budget is spent in its present window, summed afresh for whoever asks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

from django.db import router
from django.utils import timezone

from jobqueue import sql
from jobqueue.conf import get_settings
from jobqueue.managers.budgeting import budget_sums
from jobqueue.managers.rows import Run
from jobqueue.models import Cost, Job


@dataclass(frozen=True, slots=True)
class BudgetState:
    """One budget of JOBQUEUE["BUDGETS"]; `level` is the share that was passed, in per cent: 0, 80 or 100."""

    name: str
    unit: str
    amount: Decimal
    spent: Decimal
    share: float  # of the amount: 1.0 is all of it, more is possible
    level: int
    at_limit: str  # alert, pause or refuse
    window_start: datetime
    window_end: datetime
    per: str  # hour, day or month
    job_type: str | None  # None: of a queue, or of everything
    queue: str | None


class Spent(NamedTuple):
    """What is spent of a budget in its window of now."""

    amount: Decimal
    window_start: datetime
    window_end: datetime


def budget_states(using: str | None = None) -> list[BudgetState]:
    """Return the state of every budget, by name, exact to the moment. Raises django.db errors.

    It reads a month of quarter-hours for a monthly budget: for pages and alerts, not for every request. Maintenance
    keeps the same figures, up to a tick old, in jobqueue.models.Budget.
    """
    terms = get_settings().BUDGETS
    if not terms:
        return []
    sums = budget_sums(_run(using), list(terms.values()))
    return _states({name: Spent(one.amount, one.window_start, one.window_end) for name, one in sums.items()})


def spent_today(using: str | None = None) -> tuple[dict[str, Decimal], list[BudgetState]]:
    """Return what today cost by unit, and the budgets as maintenance knew them at its last tick; one statement.

    A budget that nobody has added up in its window is left out.
    """
    params = {"zone": timezone.get_default_timezone_name(), "names": [*get_settings().BUDGETS]}
    rows = _run(using)(sql.TODAY_COSTS, params)
    spent = {name: Spent(*rest) for name, _unit, *rest in rows if name is not None}
    return {unit: amount for name, unit, amount, *_window in rows if name is None}, _states(spent)


def _run(using: str | None) -> Run:
    return Job.objects.db_manager(using or get_settings().DATABASE or router.db_for_read(Cost)).run_sql


def _states(sums: Mapping[str, Spent]) -> list[BudgetState]:
    """Return the states of the budgets of the settings whose sums are known, by name."""
    return [
        BudgetState(
            name=name,
            unit=terms.unit,
            amount=terms.amount,
            spent=sums[name].amount,
            share=float(sums[name].amount / terms.amount),
            level=terms.level(sums[name].amount),
            at_limit=terms.at_limit,
            window_start=sums[name].window_start,
            window_end=sums[name].window_end,
            per=terms.per,
            job_type=terms.job_type,
            queue=terms.queue,
        )
        for name, terms in sorted(get_settings().BUDGETS.items())
        if name in sums
    ]
