"""What has happened since midnight UTC: what a monitor that counts for itself reads again and again.

A sum over all that is kept would shrink when old statistics are pruned, and one since a process began would differ from
process to process; both look like a counter that was reset. A day has one beginning for everybody who asks, is a whole
number of the quarter-hours that rows are folded into, and ends before anything of it is pruned.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, TypeVar

from django.db import InterfaceError, OperationalError, connections
from django.db.models import Count

from jobqueue.models import Budget, Incident

from .costs import costs_by
from .gauges import CounterSum, counter_sums
from .limited import Budget as TimeBudget
from .sharing import Shared
from .snapshot import read_alias
from .statistics import Figures, figures

if TYPE_CHECKING:
    from jobqueue.managers import JobManager

T = TypeVar("T")

# A day of many types is some thousand rows with their histograms: 50 ms, and more on a machine that has no time.
EACH: Final = timedelta(seconds=1)
TOTAL: Final = timedelta(seconds=1.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """Sums since midnight UTC. None: could not be read in time."""

    since: datetime | None = None
    ended: Mapping[tuple[str, ...], Figures] | None = None  # by queue and job type
    costs: Mapping[str, Decimal] | None = None  # by unit
    counters: Sequence[CounterSum] | None = None
    firing: Mapping[str, int] | None = None  # alerts that fire now, by rule
    budgets: Mapping[str, float] | None = None  # share that is spent of each, as of the last tick of maintenance


_shared: Final = Shared[Day]()


def read_day(manager: JobManager) -> Day:
    """Return the sums of today, at most a second old; all None where the database does not answer."""
    alias = read_alias(manager)
    if connections[alias].in_atomic_block:  # the caller's own transaction may have written what nobody else sees
        return _read(alias)
    return _shared.get(alias, lambda: _read(alias))


def forget() -> None:
    """Have the next sums read anew: for tests."""
    _shared.forget()


def _read(alias: str) -> Day:
    found: dict[str, Any] = {}
    budget = TimeBudget(alias, each=EACH, end=time.monotonic() + TOTAL.total_seconds())
    try:
        with budget.open():
            assert budget.opened_at is not None
            since = budget.opened_at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
            found["since"] = since
            for name, table, read in _reads(since, alias):
                found[name] = budget.read(read, of=table)
    except (OperationalError, InterfaceError):
        return Day()
    return Day(**found)


def _reads(since: datetime, alias: str) -> list[tuple[str, str, Callable[[], Any]]]:
    by = ("queue", "job_type")
    return [
        ("ended", "jobqueue_stat", lambda: figures(since, by=by, using=alias)),
        ("costs", "jobqueue_cost", lambda: {group.unit: group.amount for group in costs_by(since=since, using=alias)}),
        ("counters", "jobqueue_counter", lambda: counter_sums(since, using=alias)),
        ("firing", "jobqueue_incident", lambda: _firing(alias)),
        ("budgets", "jobqueue_budget", lambda: _budgets(alias)),
    ]


def _firing(alias: str) -> dict[str, int]:
    open_ones = Incident.objects.using(alias).filter(state=Incident.State.FIRING).values_list("rule")
    return dict(open_ones.annotate(incidents=Count("id")).order_by("rule"))


def _budgets(alias: str) -> dict[str, float]:
    rows = Budget.objects.using(alias).values_list("name", "spent", "amount")
    return {name: float(spent / amount) for name, spent, amount in rows if amount}
