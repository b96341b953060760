"""Sums of what jobs cost, exact to the last digit, over the rows of single settles and those folded into longer spans.

A folded row stands for the whole of its span, a minute or a quarter of an hour: a sum that begins or ends within a span
takes all of it, so that two which meet there both have it. Whole quarter-hours, and so the hours, days and months of
every time zone, are exact. Costs outlive the jobs, so a sum does not change when jobs are pruned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Any, Final, Literal

from django.db import models, router
from django.db.models import DurationField, Expression, ExpressionWrapper, F, Func, Q, QuerySet, Sum, Value
from django.db.models.functions import Coalesce

from jobqueue.conf import get_settings
from jobqueue.models import Cost
from jobqueue.models.expressions import StatementTimestamp

from .periods import zone_of

#: The spans of time that people compare, shortest first.
WINDOWS: Final[Mapping[str, timedelta]] = {
    "1h": timedelta(hours=1),
    "24h": timedelta(hours=24),
    "7d": timedelta(days=7),
    "30d": timedelta(days=30),
}
LONGEST_SPAN: Final = timedelta(minutes=15)
#: What costs can be summed by, beside the unit.
PARTS: Final = ("job_type", "queue", "component", "owner")

Part = Literal["job_type", "queue", "component", "owner"]
Period = Literal["hour", "day", "month"]

#: An aware datetime, how long ago by the database's clock, or an expression of its time.
Instant = datetime | timedelta | Expression | models.expressions.Combinable


@dataclass(frozen=True, slots=True)
class CostSum:
    """What the attempts of one type cost, in one unit."""

    job_type: str
    unit: str
    amount: Decimal


@dataclass(frozen=True, slots=True)
class CostRow:
    """What the attempts of one type, queue, component or owner cost, in one unit, in several windows of time."""

    key: str
    unit: str
    amounts: tuple[Decimal, ...]


@dataclass(frozen=True, slots=True)
class CostGroup:
    """What the attempts of one group cost, in one unit; `key` has a name for each part that was asked for."""

    key: tuple[str, ...]
    unit: str
    amount: Decimal


@dataclass(frozen=True, slots=True)
class CostPoint:
    """What the attempts of one group cost, in one unit, in the period that begins `at`, in the zone asked for."""

    at: datetime
    key: tuple[str, ...]
    unit: str
    amount: Decimal


def costs_by(
    *by: Part, since: Instant, until: Instant | None = None, using: str | None = None, **only: str
) -> list[CostGroup]:
    """Return the sums since an instant, and before another, by any of job_type, queue, component, owner; dearest first.

    There is one sum a unit: units are never added up. `only` takes the rows of one value of a part or of one unit:
    costs_by("owner", since=…, queue="mail", unit="USD"). Raises ValueError for another part.
    """
    rows = _chosen(since, until, using, by, only).values(*by, "unit").annotate(total=Sum("amount"))
    groups = [CostGroup(row[:-2], row[-2], row[-1]) for row in rows.values_list(*by, "unit", "total")]
    return sorted(groups, key=lambda group: (group.unit, -group.amount, group.key))


def cost_series(
    *by: Part,
    since: Instant,
    per: Period,
    until: Instant | None = None,
    zone: tzinfo | str | None = None,
    most: int | None = None,
    using: str | None = None,
    **only: str,
) -> list[CostPoint]:
    """Return the sums by hour, day or month of a time zone (None: TIME_ZONE), oldest first, and by parts in each.

    Periods without costs are left out. The first one begins where its hour, day or month does, and has only what is
    since the instant. `by` and `only` are as in costs_by(). Raises ValueError for another period or part, and where
    there are more than `most` sums.
    """
    local = zone_of(zone)
    begins = _begin(per, _name(local))
    rows = _chosen(since, until, using, by, only).annotate(begins=begins).values("begins", *by, "unit")
    sums = rows.annotate(total=Sum("amount")).values_list("begins", *by, "unit", "total")
    found = list(sums if most is None else sums[: most + 1])
    if most is not None and len(found) > most:
        msg = f"more than {most:,} sums: take a shorter time or fewer parts"
        raise ValueError(msg)
    at = _on_the_clock if per == "hour" else _first_midnight
    points = [CostPoint(at(row[0], local), row[1:-2], row[-2], row[-1]) for row in found]
    return sorted(points, key=lambda point: (point.at.astimezone(UTC), point.unit, -point.amount, point.key))


def cost_sums(since: Instant, *, using: str | None = None) -> list[CostSum]:
    """Return the sums by type and unit since an instant, by name."""
    rows = _since(since, using).values("job_type", "unit").annotate(total=Sum("amount")).order_by("job_type", "unit")
    return [CostSum(row["job_type"], row["unit"], row["total"]) for row in rows]


def total_cost(since: Instant, *, unit: str, using: str | None = None) -> Decimal:
    """Return the sum of all types in one unit since an instant."""
    total: Decimal = _since(since, using).filter(unit=unit).aggregate(total=_sum())["total"]
    return total


def cost_table(windows: Sequence[timedelta], *, by: Part = "job_type", using: str | None = None) -> list[CostRow]:
    """Return the sums by one part and unit for each window up to now, dearest in the longest window first."""
    now = StatementTimestamp()
    columns = {f"window_{index}": _sum(filter=_within(now - window)) for index, window in enumerate(windows)}
    rows = _since(now - max(windows), using).order_by().values(by, "unit").annotate(**columns)
    table = [CostRow(row[0], row[1], row[2:]) for row in rows.values_list(by, "unit", *columns)]
    return sorted(table, key=lambda row: (row.unit, -max(row.amounts), row.key))


def unit_totals(table: Sequence[CostRow]) -> list[CostRow]:
    """Return one row a unit with the totals of a table; units are never added up."""
    totals: dict[str, tuple[Decimal, ...]] = {}
    for row in table:
        before = totals.get(row.unit, (Decimal(0),) * len(row.amounts))
        totals[row.unit] = tuple(a + b for a, b in zip(before, row.amounts, strict=True))
    return [CostRow("", unit, amounts) for unit, amounts in sorted(totals.items())]


def _chosen(since: Any, until: Any, using: str | None, by: Sequence[str], only: Mapping[str, str]) -> QuerySet[Cost]:
    if wrong := [part for part in by if part not in PARTS] + [part for part in only if part not in (*PARTS, "unit")]:
        msg = f"costs are by {', '.join(PARTS)}, not by {wrong[0]!r}"
        raise ValueError(msg)
    rows = _since(since, using).filter(**only).order_by()
    return rows if until is None else rows.filter(at__lt=moment(until))


def _name(zone: tzinfo) -> str:
    """Return a zone as the server knows it: by its name; a fixed offset as POSIX has it, where west is positive."""
    if not isinstance(zone, timezone):
        return str(zone)
    east = timedelta() if (offset := zone.utcoffset(None)) is None else offset
    return f"<fixed>{'-' if east >= timedelta() else '+'}{abs(east)}"


def _begin(per: str, zone: str) -> Expression:
    """Return when the period begins that a row is in. The server knows the rules of all zones."""
    instant, name = models.DateTimeField(), Value(zone, output_field=models.TextField())
    if per in ("day", "month"):
        return Func(Value(per), F("at"), name, function="date_trunc", output_field=instant)
    if per != "hour":
        msg = f"costs are by hour, day or month, not by {per!r}"
        raise ValueError(msg)
    # What the clock has gone on since the hour is taken off: cut to its hour by that clock, the hour that comes twice
    # in autumn would be one hour of two.
    clock = Func(name, F("at"), function="timezone", output_field=instant)
    since_the_hour = clock - Func(Value("hour"), clock, function="date_trunc", output_field=instant)
    return ExpressionWrapper(F("at") - since_the_hour, output_field=instant)


def _on_the_clock(at: datetime, local: tzinfo) -> datetime:
    return at.astimezone(local)


def _first_midnight(at: datetime, local: tzinfo) -> datetime:
    """Return when the day begins: of a midnight that comes twice the server takes the second one."""
    return datetime.combine(at.astimezone(local).date(), time(), local).astimezone(UTC).astimezone(local)


def moment(instant: Instant) -> Any:
    """Return an instant for a query; a timedelta is so long ago by the database's clock."""
    return StatementTimestamp() - instant if isinstance(instant, timedelta) else instant


def _since(since: Any, using: str | None) -> QuerySet[Cost]:
    alias = using or get_settings().DATABASE or router.db_for_read(Cost)
    since = moment(since)
    # The first condition is for the index, the second for the truth.
    earliest = since - LONGEST_SPAN if isinstance(since, datetime) else since - Value(LONGEST_SPAN)
    return Cost.objects.using(alias).filter(_within(since), at__gte=earliest)


def _within(since: Any) -> Q:
    span = ExpressionWrapper(F("span_seconds") * Value(timedelta(seconds=1)), output_field=DurationField())
    ends = ExpressionWrapper(F("at") + span, output_field=models.DateTimeField())
    return Q(models.lookups.GreaterThan(ends, since)) | Q(at__gte=since)


def _sum(**options: Any) -> Coalesce:
    amount = models.DecimalField(max_digits=38, decimal_places=8)
    return Coalesce(Sum("amount", **options), Value(Decimal(0), output_field=amount), output_field=amount)
