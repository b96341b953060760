"""What the page of costs shows, read in bounded time: what takes too long is None, and the rest stands."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from django.db import OperationalError, router

from jobqueue.conf import get_settings
from jobqueue.managers.settling import sqlstate
from jobqueue.models import Cost

from . import months
from .budgets import BudgetState, budget_states
from .costly import CostlyJob, RetryCost, costliest_jobs, failures_since, retry_costs
from .costs import WINDOWS, CostPoint, CostRow, Part, Period, cost_series, cost_table, total_cost
from .limited import QUERY_CANCELED, Budget
from .periods import beginnings, zone_of

EACH: Final = timedelta(seconds=1)
TOTAL: Final = timedelta(seconds=2.5)
#: How many hours, days and months are looked back on, with the one that is not over yet.
PERIODS: Final[Mapping[Period, int]] = {"hour": 24, "day": 30, "month": 12}
COSTLIEST: Final = 10
FILE: Final = timedelta(seconds=5)
#: So many sums by part and period are read for a page, and for a file.
POINTS: Final = 20_000
LINES: Final = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CostPage:
    """All figures of the page. None: could not be read in time. Amounts of different units are never added up."""

    starts: Sequence[datetime] = ()  # when each period begins, oldest first, in TIME_ZONE
    unit: str = ""  # of the series
    units: Sequence[str] = ()  # all that something cost in, in this time
    totals: Mapping[datetime, Decimal] | None = None  # by period; without costs: left out
    points: Sequence[CostPoint] | None = None  # the same by part
    table: Sequence[CostRow] | None = None
    budgets: Sequence[BudgetState] | None = None
    costliest: Sequence[CostlyJob] | None = None
    retries: Sequence[RetryCost] | None = None
    retries_since: datetime | None = None
    retries_of: Decimal | None = None  # what all attempts cost since then, in the first of JOBQUEUE["COST_UNITS"]


@dataclass(slots=True)
class _Look:
    budget: Budget
    found: dict[str, Any] = field(default_factory=dict)

    def keep(self, name: str, table: str, read: Any) -> Any:
        self.found[name] = self.budget.read(read, of=table)
        return self.found[name]


def read_costs(by: Part, per: Period, *, unit: str = "", using: str | None = None) -> CostPage:
    """Return the costs by one part, in the last 24 hours, 30 days or 12 months, of one unit where there are several.

    A unit that nothing cost in, or none, stands for the first of JOBQUEUE["COST_UNITS"] that something did. Raises
    django.db errors when the database is away.
    """
    alias = using or get_settings().DATABASE or router.db_for_read(Cost)
    look = _Look(Budget(alias, each=EACH, end=time.monotonic() + TOTAL.total_seconds()))
    try:
        with look.budget.open():
            assert look.budget.opened_at is not None
            _read(look, by, per, unit, alias, look.budget.opened_at)
    except OperationalError as error:
        if sqlstate(error) != QUERY_CANCELED:  # else the end of the transaction took too long: all was read
            raise
    return CostPage(**look.found)


def read_points(by: Part, per: Period, *, using: str | None = None) -> Sequence[CostPoint] | None:
    """Return the costs by one part and period, of all units; None: not in time, or more than 200,000 sums."""
    alias = using or get_settings().DATABASE or router.db_for_read(Cost)
    budget = _patient(alias)
    with budget.open():
        assert budget.opened_at is not None
        return _points(budget, by, per, starts_of(per, budget.opened_at)[0], alias, most=LINES)


def read_table(by: Part, *, using: str | None = None) -> Sequence[CostRow] | None:
    """Return the sums by one part in each of WINDOWS; None: not in time."""
    alias = using or get_settings().DATABASE or router.db_for_read(Cost)
    budget = _patient(alias)
    with budget.open():
        return budget.read(lambda: cost_table(list(WINDOWS.values()), by=by, using=alias), of="jobqueue_cost")


def starts_of(per: Period, now: datetime) -> list[datetime]:
    """Return when each of the last 24 hours, 30 days or 12 months of TIME_ZONE began, the present one last."""
    number, local = PERIODS[per], now.astimezone(zone_of(None))
    if per == "month":
        months = [divmod(local.year * 12 + local.month - 1 - ago, 12) for ago in reversed(range(number))]
        return [datetime(year, month + 1, 1, tzinfo=local.tzinfo) for year, month in months]
    step = timedelta(hours=1) if per == "hour" else timedelta(days=1)
    # One more than needed: where clocks are put back a day is longer.
    return beginnings(now - step * (number + 1), now, step)[-number:]


def _patient(alias: str) -> Budget:
    """Return the time for a file, which takes longer than a page."""
    return Budget(alias, each=FILE, end=time.monotonic() + FILE.total_seconds())


def _read(look: _Look, by: Part, per: Period, unit: str, alias: str, now: datetime) -> None:
    starts = look.found["starts"] = starts_of(per, now)
    since, cost = starts[0], "jobqueue_cost"
    look.keep("budgets", cost, lambda: budget_states(alias))
    look.keep("table", cost, lambda: cost_table(list(WINDOWS.values()), by=by, using=alias))
    look.keep("costliest", "jobqueue_job", lambda: costliest_jobs(since, limit=COSTLIEST, using=alias))
    points = _points(look.budget, by, per, since, alias, most=POINTS)
    # The totals alone take less, and have few rows whatever there is.
    sums = points
    if sums is None:
        sums = look.keep("totals", cost, lambda: cost_series(since=since, per=per, using=alias))
    units = look.found["units"] = sorted({point.unit for point in sums or ()})
    known = [*(each for each in get_settings().COST_UNITS if each in units), *units, get_settings().COST_UNITS[0]]
    shown = look.found["unit"] = unit if unit in units else known[0]
    look.found["points"] = None if points is None else [point for point in points if point.unit == shown]
    look.found["totals"] = None if sums is None else _totals(sums, shown)
    kept = get_settings().RETENTION_DONE_SECONDS
    # What failed is known of attempts whose jobs are kept.
    known_since = since if kept is None else max(since, now - timedelta(seconds=kept))
    cut = look.budget.read(lambda: failures_since(known_since, using=alias), of="jobqueue_attempt")
    known_since = known_since if cut is None else cut
    look.found["retries_since"] = known_since.astimezone(zone_of(None))
    look.keep("retries", "jobqueue_attempt", lambda: retry_costs(known_since, using=alias))
    first = get_settings().COST_UNITS[0]
    look.keep("retries_of", cost, lambda: total_cost(known_since, unit=first, using=alias))


def _points(budget: Budget, by: Part, per: Period, since: datetime, alias: str, *, most: int) -> list[CostPoint] | None:
    """Return the sums by part and period in all units; None for too many of them, too."""
    if per == "month":
        return months.read(budget, by, since, alias, most=most)
    try:
        return budget.read(lambda: cost_series(by, since=since, per=per, most=most, using=alias), of="jobqueue_cost")
    except ValueError:
        return None


def _totals(points: Sequence[CostPoint], unit: str) -> dict[datetime, Decimal]:
    totals: dict[datetime, Decimal] = {}
    for point in points:
        if point.unit == unit:
            at = point.at.astimezone(UTC)
            totals[at] = totals.get(at, Decimal(0)) + point.amount
    return totals
