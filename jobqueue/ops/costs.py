"""Sums of what jobs cost, exact to the last digit, over the rows of single settles and those folded into longer spans.

A folded row stands for the whole of its span, a minute or a quarter of an hour: a sum that begins within a span takes
all of it. Costs outlive the jobs, so a sum does not change when jobs are pruned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from django.db import models, router
from django.db.models import DurationField, Expression, ExpressionWrapper, F, Q, QuerySet, Sum, Value
from django.db.models.functions import Coalesce

from jobqueue.conf import get_settings
from jobqueue.models import Cost
from jobqueue.models.expressions import StatementTimestamp

#: The spans of time that people compare, shortest first.
WINDOWS: Final[Mapping[str, timedelta]] = {
    "1h": timedelta(hours=1),
    "24h": timedelta(hours=24),
    "7d": timedelta(days=7),
    "30d": timedelta(days=30),
}
LONGEST_SPAN: Final = timedelta(minutes=15)

Instant = datetime | Expression | models.expressions.Combinable


@dataclass(frozen=True, slots=True)
class CostSum:
    """What the attempts of one type cost, in one unit."""

    job_type: str
    unit: str
    amount: Decimal


@dataclass(frozen=True, slots=True)
class CostRow:
    """What the attempts of one type cost, in one unit, in each of several windows of time."""

    job_type: str
    unit: str
    amounts: tuple[Decimal, ...]


def cost_sums(since: Instant, *, using: str | None = None) -> list[CostSum]:
    """Return the sums by type and unit since an instant (aware, or an expression of the database's time), by name."""
    rows = _since(since, using).values("job_type", "unit").annotate(total=Sum("amount")).order_by("job_type", "unit")
    return [CostSum(row["job_type"], row["unit"], row["total"]) for row in rows]


def total_cost(since: Instant, *, unit: str, using: str | None = None) -> Decimal:
    """Return the sum of all types in one unit since an instant."""
    total: Decimal = _since(since, using).filter(unit=unit).aggregate(total=_sum())["total"]
    return total


def cost_table(windows: Sequence[timedelta], *, using: str | None = None) -> list[CostRow]:
    """Return the sums by type and unit for each window up to now, dearest in the longest window first."""
    now = StatementTimestamp()
    columns = {f"window_{index}": _sum(filter=_within(now - window)) for index, window in enumerate(windows)}
    rows = _since(now - max(windows), using).order_by().values("job_type", "unit").annotate(**columns)
    table = [CostRow(row[0], row[1], row[2:]) for row in rows.values_list("job_type", "unit", *columns)]
    return sorted(table, key=lambda row: (row.unit, -max(row.amounts), row.job_type))


def unit_totals(table: Sequence[CostRow]) -> list[CostRow]:
    """Return one row a unit with the totals of a table; units are never added up."""
    totals: dict[str, tuple[Decimal, ...]] = {}
    for row in table:
        before = totals.get(row.unit, (Decimal(0),) * len(row.amounts))
        totals[row.unit] = tuple(a + b for a, b in zip(before, row.amounts, strict=True))
    return [CostRow("", unit, amounts) for unit, amounts in sorted(totals.items())]


def _since(since: Any, using: str | None) -> QuerySet[Cost]:
    alias = using or get_settings().DATABASE or router.db_for_read(Cost)
    # The first condition is for the index, the second for the truth.
    earliest = since - LONGEST_SPAN if isinstance(since, datetime) else since - Value(LONGEST_SPAN)
    return Cost.objects.using(alias).filter(_within(since), at__gte=earliest)


def _within(since: Any) -> Q:
    span = ExpressionWrapper(F("span_seconds") * Value(timedelta(seconds=1)), output_field=DurationField())
    ends = ExpressionWrapper(F("at") + span, output_field=models.DateTimeField())
    return Q(models.lookups.GreaterThan(ends, since))


def _sum(**options: Any) -> Coalesce:
    amount = models.DecimalField(max_digits=38, decimal_places=8)
    return Coalesce(Sum("amount", **options), Value(Decimal(0), output_field=amount), output_field=amount)
