"""Cut time into quarter-hours, hours or days as people see them on the clocks of one time zone.

Statistics are kept by quarter-hours of UTC, and every time zone in use today is whole quarter-hours away from it
(Kolkata 5:30, Kathmandu 5:45): a day there is made of whole rows, at reading, without any change of a sum.
"""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

from django.utils import timezone

DAY: Final = timedelta(days=1)
QUARTER: Final = timedelta(minutes=15)
MOST: Final = 10_000


def zone_of(zone: tzinfo | str | None) -> tzinfo:
    """Return a time zone by its name, or the one that TIME_ZONE names. Raises ZoneInfoNotFoundError."""
    if zone is None:
        return timezone.get_default_timezone()
    return ZoneInfo(zone) if isinstance(zone, str) else zone


def beginnings(
    since: datetime, until: datetime, step: timedelta, *, zone: tzinfo | str | None = None
) -> list[datetime]:
    """Return when each period from the one that `since` is in to the one that `until` ends in begins, oldest first.

    A step is whole days, or whole quarter-hours that a day is a multiple of. Both count from midnight in the zone
    (None: TIME_ZONE): where clocks change a day has 23 or 25 hours, and a period that midnight cuts is shorter. All
    are aware, in that zone. Raises ValueError for another step, naive datetimes, and more than 10,000 periods.
    """
    _check(since, until, step)
    if since >= until:
        return []
    local = zone_of(zone)
    day = since.astimezone(local).date()
    found: list[datetime] = []
    while (midnight := datetime.combine(day, time(), local)) < until:
        day += max(step, DAY)
        # In UTC, since differences between two datetimes of one zone are those of their clocks.
        at, end = midnight.astimezone(UTC), datetime.combine(day, time(), local).astimezone(UTC)
        while at < min(end, until):
            found.append(at)
            at += max(step, QUARTER) if step < DAY else end - at
            if len(found) > MOST:
                msg = f"more than {MOST:,} periods of {step}: take a longer step"
                raise ValueError(msg)
    first = max((number for number, at in enumerate(found) if at <= since), default=0)
    return [at.astimezone(local) for at in found[first:]]


def _check(since: datetime, until: datetime, step: timedelta) -> None:
    if timezone.is_naive(since) or timezone.is_naive(until):
        msg = "a period begins and ends at aware datetimes"
        raise ValueError(msg)
    whole_days = step >= DAY and step % DAY == timedelta(0)
    part_of_a_day = QUARTER <= step < DAY and step % QUARTER == timedelta(0) and DAY % step == timedelta(0)
    if not (whole_days or part_of_a_day):
        msg = f"a step is whole days, or quarter-hours of which a day is a multiple, not {step}"
        raise ValueError(msg)
