"""What became of attempts over the last hour, day or week, in some dozens of periods, and which releases began then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final, Literal, NamedTuple

from jobqueue import sql
from jobqueue.histograms import BUCKETS
from jobqueue.managers.rows import Run
from jobqueue.models import Job, Release

from .attempts import Figures, Point
from .limited import Budget
from .periods import beginnings, zone_of

Window = Literal["1h", "24h", "7d"]


class Scale(NamedTuple):
    """How long a chart looks back, and how long a period of it is."""

    length: timedelta
    step: timedelta


SCALES: Final[Mapping[Window, Scale]] = {
    "1h": Scale(timedelta(hours=1), timedelta(minutes=2)),
    "24h": Scale(timedelta(hours=24), timedelta(minutes=30)),
    "7d": Scale(timedelta(days=7), timedelta(hours=4)),
}
#: So many releases are marked, the newest ones.
RELEASES: Final = 10
#: The part of the time of one read that is tried with waits: their histograms cost ten times what the counts do.
TIMED: Final = 0.4


class Deploy(NamedTuple):
    """When a release was first seen."""

    at: datetime
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """The periods of a window, oldest first; None: could not be read in time. The last one is not over yet."""

    window: Window
    points: tuple[Point, ...] | None = None
    releases: tuple[Deploy, ...] = ()  # oldest first
    timed: bool = True  # whether the waits were read, too

    @property
    def whole(self) -> Figures:
        """Return the figures of all periods together."""
        total = Figures()
        for point in self.points or ():
            total = total + point.figures
        return total


def read_trend(budget: Budget, window: Window, alias: str, now: datetime) -> Trend:
    """Return the trend of a window that ends now, by the database's clock; without waits where those take too long."""
    starts, run = starts_of(window, now), Job.objects.db_manager(alias).run_sql
    points, timed = budget.read(partial(_points, run, starts, now), of="jobqueue_stat", part=TIMED), True
    if points is None:
        points, timed = budget.read(partial(_points, run, starts, now, times=False), of="jobqueue_stat"), False
    releases = budget.read(partial(_releases, starts[0], alias), of="jobqueue_release") or []
    return Trend(window=window, points=points, releases=tuple(reversed(releases)), timed=timed)


def _points(run: Run, starts: list[datetime], end: datetime, *, times: bool = True) -> tuple[Point, ...]:
    """Return the figures of each period: outcomes, dead letters and, unless without times, waits."""
    outcomes: list[dict[int, int]] = [{} for _start in starts]
    dead, waits = [0] * len(starts), [[0] * BUCKETS for _start in starts]
    for period, outcome, jobs, died, bucket, waited in run(sql.TREND, {"starts": starts, "times": times}):
        if outcome is not None:
            outcomes[period][outcome] = jobs
            dead[period] += died
        elif 0 <= bucket < BUCKETS:  # which all are but those written by hand
            waits[period][bucket] = waited
    ends = [*starts[1:], end.astimezone(starts[0].tzinfo)]
    return tuple(
        Point(start, stop, Figures(outcomes=outcomes[number], dead=dead[number], wait_counts=tuple(waits[number])))
        for number, (start, stop) in enumerate(zip(starts, ends, strict=True))
    )


def starts_of(window: Window, now: datetime) -> list[datetime]:
    """Return when each period begins, in TIME_ZONE: whole ones of the clock, the last with what there is of it."""
    length, step = SCALES[window]
    number = length // step
    if step >= timedelta(minutes=15):
        # One more than needed: where clocks are put back there is an hour more.
        return beginnings(now - length - timedelta(hours=2), now, step)[-number:]
    since = timedelta(minutes=now.astimezone(zone_of(None)).minute % (step // timedelta(minutes=1)))
    # In UTC, since differences between two datetimes of one zone are those of their clocks.
    last = now.astimezone(UTC).replace(second=0, microsecond=0) - since
    return [(last - step * ago).astimezone(zone_of(None)) for ago in reversed(range(number))]


def _releases(since: datetime, alias: str) -> list[Deploy]:
    rows = Release.objects.using(alias).filter(first_seen_at__gte=since).order_by("-first_seen_at")
    return [Deploy(*row) for row in rows.values_list("first_seen_at", "version")[:RELEASES]]
