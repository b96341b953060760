"""What each month cost, read a month at a time; the months that are over are kept in the process for a while.

Summing a year of quarter-hours takes most of a second. What a month cost does not change when it is over, but for what
is pruned or written by hand: so it is summed again after a quarter of an hour, and by each process for itself. A look
that had time for some of the months leaves these to the next one.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from django.db import connections
from django.utils import timezone

from .costs import CostPoint, Part, cost_series
from .limited import Budget
from .periods import zone_of

KEPT_SECONDS: Final = 900
#: A month is over for good a day after its end, when nothing of it is under way any more.
SETTLED: Final = timedelta(days=1)
#: All parts of all months that are kept at once.
KEPT_POINTS: Final = 200_000

_kept: dict[Hashable, tuple[float, Sequence[CostPoint]]] = {}


def forget() -> None:
    """Read anew for whoever asks next."""
    _kept.clear()


def read(budget: Budget, by: Part, since: datetime, alias: str, *, most: int) -> list[CostPoint] | None:
    """Return the sums by part and month since the beginning of one; None: not in time, or more than `most`."""
    found: list[CostPoint] = []
    where = budget.read(lambda: _schema(alias), of="")
    for start, end in reversed(_months(since)):
        key = (where, by, start, str(zone_of(None)))
        points = _young(key) if where and end is not None else None
        if points is None:
            month = partial(cost_series, by, since=start, until=end, per="month", using=alias)
            points = budget.read(month, of="jobqueue_cost")
            if points is None:
                return None
            if end is not None and where and end < timezone.now() - SETTLED:
                _keep(key, points)
        found = [*points, *found]
        if len(found) > most:
            return None
    return found


def _months(since: datetime) -> list[tuple[datetime, datetime | None]]:
    """Return the beginning and the end of each month since one began, oldest first; the last one has no end yet."""
    zone = zone_of(None)
    local, now, starts = since.astimezone(zone), timezone.now().astimezone(zone), []
    year, month = local.year, local.month
    while (year, month) <= (now.year, now.month):
        starts.append(datetime(year, month, 1, tzinfo=zone))
        year, month = (year, month + 1) if month < 12 else (year + 1, 1)
    return list(zip(starts, [*starts[1:], None], strict=True))


def _schema(alias: str) -> tuple[str, ...]:
    """Return which tables a connection sees: a project may switch schemas between requests."""
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT current_database(), current_schemas(false)::text")
        return (alias, *cursor.fetchone())


def _young(key: Hashable) -> Sequence[CostPoint] | None:
    read_at, points = _kept.get(key, (float("-inf"), ()))
    return points if time.monotonic() - read_at < KEPT_SECONDS else None


def _keep(key: Hashable, points: Sequence[CostPoint]) -> None:
    if sum(len(kept) for _at, kept in _kept.values()) + len(points) > KEPT_POINTS:
        _kept.clear()
    _kept[key] = (time.monotonic(), points)
