"""What handlers measured and counted: gauges of the living workers, and sums of counters over a window of time.

Labels select as in Prometheus: those given must be there with these values, others may be. A folded counter row stands
for the whole of its span, a minute or a quarter of an hour: a sum that begins within a span takes all of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import fsum
from typing import Any, Final, Literal

from django.db import connections, router

from jobqueue import sql
from jobqueue.conf import get_settings
from jobqueue.models import Counter, Worker

Aggregate = Literal["min", "max", "sum", "avg"]


def _mean(values: list[float]) -> float:
    return fsum(values) / len(values)


_AGGREGATES: Final[Mapping[str, Callable[[list[float]], float]]] = {"min": min, "max": max, "sum": sum, "avg": _mean}


@dataclass(frozen=True, slots=True)
class GaugeValue:
    """One series of one living worker, and how long ago it was set."""

    worker_id: str
    name: str
    labels: Mapping[str, str]
    value: float
    age_seconds: float


@dataclass(frozen=True, slots=True)
class CounterSum:
    """How much was counted under one name and one set of labels."""

    name: str
    labels: Mapping[str, str]
    amount: float


def gauge_values(
    name: str | None = None, labels: Mapping[str, str] | None = None, *, using: str | None = None
) -> list[GaugeValue]:
    """Return the gauges of the living workers, by worker, name and labels; None: of all names.

    A worker lives while its heartbeat is younger than half a minute or half a lease, whichever is longer; a gauge
    that was not set for ten minutes is left out.
    """
    alive = max(timedelta(seconds=30), get_settings().lease / 2)
    params = {"name": name, "labels": json.dumps(dict(labels or {})), "alive": alive}
    rows = _run(using or _alias(Worker), sql.GAUGE_VALUES, params)
    return [GaugeValue(row[0], row[1], json.loads(row[2]), row[3], row[4]) for row in rows]


def gauge_over_workers(
    name: str,
    labels: Mapping[str, str] | None = None,
    aggregate: Aggregate = "min",
    *,
    using: str | None = None,
) -> float | None:
    """Return the least, the greatest, the sum or the mean of a gauge over the living workers; None where none has it.

    Raises ValueError for another aggregate.
    """
    if aggregate not in _AGGREGATES:
        raise ValueError(f"aggregate must be one of {', '.join(_AGGREGATES)}, not {aggregate!r}")
    values = [found.value for found in gauge_values(name, labels, using=using)]
    return float(_AGGREGATES[aggregate](values)) if values else None


def count_over(
    name: str,
    labels: Mapping[str, str] | None = None,
    since: datetime | timedelta = timedelta(hours=1),
    *,
    using: str | None = None,
) -> float:
    """Return how much was counted under a name since an instant (aware), or in the window up to now; 0 for nothing."""
    params = {"name": name, "labels": json.dumps(dict(labels or {})), **_window(since)}
    rows = _run(using or _alias(Counter), sql.COUNT_OVER, params)
    return float(rows[0][0])


def counter_sums(since: datetime | timedelta, *, using: str | None = None) -> list[CounterSum]:
    """Return what was counted since an instant (aware), or in the window up to now, by name and labels."""
    rows = _run(using or _alias(Counter), sql.COUNTER_SUMS, _window(since))
    return [CounterSum(row[0], json.loads(row[1]), row[2]) for row in rows]


def _window(since: datetime | timedelta) -> dict[str, Any]:
    """Return the two parameters of which one is NULL: the instant is the caller's, the window the database's."""
    given = isinstance(since, timedelta)
    return {"since": None if given else since, "window": since if given else None}


def _alias(model: type[Counter | Worker]) -> str:
    return get_settings().DATABASE or router.db_for_read(model)


def _run(alias: str, statement: str, params: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    with connections[alias].cursor() as cursor:
        cursor.execute(statement, params)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows
