"""What attempts came to in any window of time: how many, how they ended, how long they waited and ran.

Sums and counts are exact, over the rows of single settles and those that maintenance has folded into longer spans. A
folded row stands for the whole of its span, a minute or, after 75 minutes, a quarter of an hour: a sum that begins
within a span takes all of it, and `Figures.seconds` says how long the time is that the figures stand for. Statistics
outlive the jobs, so no sum changes when jobs are pruned.

The rows are found by their indexes: the cost is that of the window, whatever lies before it. See docs/statistics.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta, tzinfo
from functools import reduce
from typing import Any, Final

from django.db import connections, router

from jobqueue import sql
from jobqueue.conf import get_settings
from jobqueue.histograms import padded
from jobqueue.models import Stat
from jobqueue.outcomes import Outcome

from .attempts import FAILURES, NOTHING, Figures, Histogram, Point
from .periods import beginnings, zone_of

__all__ = ["FAILURES", "NOTHING", "By", "Figures", "Histogram", "Key", "Point", "figures", "histogram", "series"]

Key = tuple[str, ...]
By = tuple[str, ...]  # of "queue" and "job_type"


def figures(
    since: datetime | timedelta,
    *,
    until: datetime | timedelta | None = None,
    by: By = ("queue",),
    queue: str | None = None,
    job_type: str | None = None,
    times: bool = True,
    using: str | None = None,
) -> dict[Key, Figures]:
    """Return the figures of a window of time by queue, type, both or, with `by=()`, of all under the key `()`.

    `since` and `until` are aware datetimes, or how long ago by the database's clock; until now unless told. `queue`
    and `job_type` leave out the others. Without `times` there are no percentiles, at a fraction of the cost. A key
    without attempts is left out, but for `()`. Raises ValueError for another name in `by`.
    """
    rows = _read(since, until, by=by, queue=queue, job_type=job_type, times=times, using=using)
    found = {key: one for (_, key), one in _gather(rows, by).items()}
    return found or ({} if by else {(): Figures(seconds=_length(since, until, using))})


def series(
    since: datetime | timedelta,
    step: timedelta,
    *,
    until: datetime | None = None,
    by: By = (),
    queue: str | None = None,
    job_type: str | None = None,
    times: bool = True,
    zone: tzinfo | str | None = None,
    using: str | None = None,
) -> dict[Key, list[Point]]:
    """Return the figures by period, oldest first and without gaps, for each key; see figures().

    A step is whole days, or quarter-hours that a day is a multiple of, counted from midnight in the zone (None:
    TIME_ZONE). The first period is the one that `since` is in, from its beginning; the last may not be over yet.
    Raises ValueError for another step and for more than 10,000 periods.
    """
    now = _now(using)
    end = until or now
    starts = beginnings(now - since if isinstance(since, timedelta) else since, end, step, zone=zone)
    if not starts:
        return {} if by else {(): []}
    rows = _read(starts[0], end, by=by, queue=queue, job_type=job_type, times=times, using=using, starts=starts)
    gathered = _gather(rows, by)
    keys = sorted({key for _, key in gathered}) or ([] if by else [()])
    ends = [*starts[1:], end.astimezone(zone_of(zone))]
    spans = [(number, start, stop) for number, (start, stop) in enumerate(zip(starts, ends, strict=True))]
    return {
        key: [
            Point(start, stop, _lasting(gathered.get((number, key), NOTHING), start, stop))
            for number, start, stop in spans
        ]
        for key in keys
    }


def histogram(
    since: datetime | timedelta,
    *,
    until: datetime | timedelta | None = None,
    queue: str | None = None,
    job_type: str | None = None,
    using: str | None = None,
) -> Histogram:
    """Return the times of a window by bucket, of all queues and types unless told; see figures()."""
    one = figures(since, until=until, by=(), queue=queue, job_type=job_type, using=using)[()]
    return Histogram(one.wait_counts, one.run_counts, one.wait_seconds, one.run_seconds, one.jobs)


_ALWAYS: Final = ["-infinity"]


def _alias(using: str | None) -> str:
    return using or get_settings().DATABASE or router.db_for_read(Stat)


def _now(using: str | None) -> datetime:
    with connections[_alias(using)].cursor() as cursor:
        cursor.execute("SELECT statement_timestamp()")
        now: datetime = cursor.fetchone()[0]
        return now


def _read(
    since: datetime | timedelta,
    until: datetime | timedelta | None,
    *,
    by: By,
    queue: str | None,
    job_type: str | None,
    times: bool,
    using: str | None,
    starts: list[datetime] | None = None,
) -> list[tuple[Any, ...]]:
    if unknown := set(by) - {"queue", "job_type"}:
        msg = f"figures are by queue and job_type, not by {', '.join(sorted(unknown))}"
        raise ValueError(msg)
    params: dict[str, Any] = {
        "since": None if isinstance(since, timedelta) else since,
        "window": since if isinstance(since, timedelta) else None,
        "until": None if isinstance(until, timedelta) else until,
        "until_ago": until if isinstance(until, timedelta) else None,
        "starts": starts or _ALWAYS,
        "by_queue": "queue" in by,
        "by_type": "job_type" in by,
        "queue": queue,
        "job_type": job_type,
        "times": times,
    }
    with connections[_alias(using)].cursor() as cursor:
        cursor.execute(sql.READ_STATISTICS, params)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows


def _gather(rows: Iterable[tuple[Any, ...]], by: By) -> dict[tuple[int, Key], Figures]:
    """Put the outcomes of each moment and key together."""
    parts: dict[tuple[int, Key], list[Figures]] = {}
    for moment, queue, job_type, outcome, jobs, dead, wait, run, cpu, peak, seconds, waits, runs in rows:
        names = {"queue": queue, "job_type": job_type}
        part = Figures(
            outcomes={_outcome(outcome): jobs},
            dead=dead,
            wait_seconds=wait,
            run_seconds=run,
            cpu_seconds=cpu,
            peak_memory_bytes=peak,
            wait_counts=padded(waits),
            run_counts=padded(runs),
            seconds=seconds,
        )
        parts.setdefault((moment, tuple(names[name] for name in by)), []).append(part)
    return {place: reduce(Figures.__add__, found) for place, found in parts.items()}


def _outcome(number: int) -> int:
    """Return the outcome; what only a newer release knows stays a number."""
    return Outcome(number) if number in Outcome.values else number


def _lasting(one: Figures, start: datetime, stop: datetime) -> Figures:
    # Not stop - start: that is the difference of two clocks on the wall, which are put forward and back.
    return replace(one, seconds=stop.timestamp() - start.timestamp())


def _length(since: datetime | timedelta, until: datetime | timedelta | None, using: str | None) -> float:
    """Return the seconds of a window in which nothing ended."""
    now = _now(using)
    begins, ends = (now - one if isinstance(one, timedelta) else one or now for one in (since, until))
    return max(0.0, (ends - begins).total_seconds())
