"""Trends: periods of the clock without gaps, releases in their time, and waits left out where they take too long."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jobqueue import sql
from jobqueue.models import Release
from jobqueue.ops import trends
from jobqueue.ops.limited import Budget
from jobqueue.ops.trends import SCALES, Trend, Window, read_trend, starts_of
from jobqueue.outcomes import Outcome
from tests.factories import StatFactory, ago

pytestmark = pytest.mark.django_db

WINDOWS: list[Window] = ["1h", "24h", "7d"]


@pytest.fixture
def budget() -> Iterator[Budget]:
    budget = Budget("default", each=timedelta(seconds=5), end=time.monotonic() + 30)
    with budget.open():
        yield budget


def read(budget: Budget, window: Window = "1h") -> Trend:
    assert budget.opened_at is not None
    return read_trend(budget, window, "default", budget.opened_at)


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu", "America/St_Johns"])
def test_periods_are_whole_ones_of_the_clock_and_reach_to_now(window: Window, zone: str, settings: Any) -> None:
    settings.TIME_ZONE = zone
    now = datetime(2026, 11, 1, 7, 13, 44, tzinfo=UTC)  # hours after clocks went back in America

    starts = starts_of(window, now)

    length, step = SCALES[window]
    assert len(starts) == length // step
    assert starts[-1] <= now < starts[-1] + step + timedelta(hours=1)
    assert all(start.minute * 60 % min(step.total_seconds(), 3600) == 0 for start in starts)
    moments = [start.timestamp() for start in starts]
    assert moments == sorted(set(moments))


def test_what_ended_is_in_its_period_and_all_of_it_in_the_sum(budget: Budget) -> None:
    StatFactory.create(jobs=4, at=ago(20 * 60), wait_buckets=[14] * 4)
    StatFactory.create(jobs=2, at=ago(40 * 60), outcome=Outcome.FAILED, dead=1)
    StatFactory.create(jobs=9, at=ago(3 * 3600))

    trend = read(budget)

    assert trend.points is not None
    assert [point.figures.jobs for point in trend.points if point.figures.jobs] == [2, 4]
    assert (trend.whole.done, trend.whole.failed, trend.whole.dead) == (4, 2, 1)
    assert trend.whole.wait_p50 is not None
    assert read(budget, "24h").whole.jobs == 15


def test_the_newest_releases_of_the_time_are_told_oldest_first(budget: Budget, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trends, "RELEASES", 2)
    for version, seconds in (("1", 2000), ("2", 1000), ("3", 500), ("old", 7 * 3600)):
        Release.objects.create(version=version, first_seen_at=ago(seconds))

    assert [one.version for one in read(budget).releases] == ["2", "3"]


def test_waits_are_left_out_where_they_take_too_long_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    StatFactory.create(jobs=4, at=ago(60))
    real = sql.TREND
    slow = real.replace(
        "WITH lately", "WITH pause AS MATERIALIZED (SELECT pg_sleep(CASE WHEN %(times)s THEN 20 END)), lately", 1
    )
    monkeypatch.setattr(sql, "TREND", slow.replace("FROM lately GROUP BY", "FROM lately, pause GROUP BY", 1))

    impatient = Budget("default", each=timedelta(milliseconds=200), end=time.monotonic() + 5)
    with impatient.open():
        trend = read(impatient)

    assert not trend.timed
    assert trend.whole.jobs == 4
