"""Budgets in the database: what is spent of them, and the refusal of enqueues once one is."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

from django.utils import timezone

from jobqueue import sql
from jobqueue.budgets import BudgetTerms, refusing
from jobqueue.conf import get_settings
from jobqueue.exceptions import BudgetSpent

from .rows import Run


class BudgetSum(NamedTuple):
    """What one budget has spent in its window of now, since `since`; `settled` of it before `settled_at`."""

    name: str
    window_start: datetime
    window_end: datetime
    since: datetime  # the start of the window, or the edge that was given where that is later
    settled_at: datetime
    settled: Decimal
    amount: Decimal


class BudgetRow(NamedTuple):
    """One row of jobqueue_budget to be written."""

    name: str
    window_start: datetime
    window_end: datetime
    unit: str
    amount: Decimal
    spent: Decimal
    level: int
    refuses: bool
    pauses: bool


def budget_sums(
    run: Run, terms: Collection[BudgetTerms], edges: Mapping[str, datetime] | None = None
) -> dict[str, BudgetSum]:
    """Return the exact sums of budgets in their windows of now, by name, in the time zone of the settings.

    An edge has a budget's costs before it left out: whoever names it knows their sum.
    """
    if not terms:
        return {}
    known = edges or {}
    rows = run(
        sql.BUDGET_SUMS,
        {
            "names": [budget.name for budget in terms],
            "job_types": [budget.job_type for budget in terms],
            "queues": [budget.queue for budget in terms],
            "units": [budget.unit for budget in terms],
            "pers": [budget.per for budget in terms],
            "edges": [known.get(budget.name) for budget in terms],
            "zone": timezone.get_default_timezone_name(),
        },
    )
    return {row[0]: BudgetSum(*row) for row in rows}


def write_budgets(run: Run, rows: Collection[BudgetRow]) -> None:
    """Write how far budgets are spent."""
    if not rows:
        return
    columns = list(zip(*rows, strict=True))
    names = ("names", "starts", "ends", "units", "amounts", "spents", "levels", "refuses", "pauses")
    run(sql.WRITE_BUDGETS, {name: list(column) for name, column in zip(names, columns, strict=True)})


def refuse_if_spent(run: Run, jobs: Iterable[tuple[str, str]]) -> None:
    """Raise BudgetSpent where one of the jobs, (job type, queue), falls under a spent budget that refuses.

    Asks the database once, and only where the settings have such a budget for one of them.
    """
    terms = get_settings().BUDGETS
    if not terms:
        return
    kinds = set(jobs)
    asked = [budget for budget in refusing(terms) if any(budget.covers(*kind) for kind in kinds)]
    if not asked:
        return
    rows = run(
        sql.SPENT_BUDGETS,
        {
            "names": [budget.name for budget in asked],
            "amounts": [budget.amount for budget in asked],
            "units": [budget.unit for budget in asked],
        },
    )
    for name, spent, resumes_at in rows:
        raise BudgetSpent(name, spent, terms[name].amount, terms[name].unit, resumes_at)
