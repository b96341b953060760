"""How far each budget is spent in its present window, summed afresh for whoever asks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from django.db import router

from jobqueue.conf import get_settings
from jobqueue.managers.budgeting import budget_sums
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


def budget_states(using: str | None = None) -> list[BudgetState]:
    """Return the state of every budget, by name, exact to the moment. Raises django.db errors.

    It reads a month of quarter-hours for a monthly budget: for pages and alerts, not for every request. Maintenance
    keeps the same figures, up to a tick old, in jobqueue.models.Budget.
    """
    settings = get_settings()
    if not settings.BUDGETS:
        return []
    manager = Job.objects.db_manager(using or settings.DATABASE or router.db_for_read(Cost))
    sums = budget_sums(manager.run_sql, list(settings.BUDGETS.values()))
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
        for name, terms in sorted(settings.BUDGETS.items())
    ]
