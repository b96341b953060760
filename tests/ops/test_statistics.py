"""Figures of any window: equal to sums by hand over single jobs, whatever was folded and whatever was pruned."""

import random
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models import F
from pytest_django import DjangoAssertNumQueries

from jobqueue import sql
from jobqueue.histograms import NO_COUNTS, bucket_of, counts_of, percentile
from jobqueue.maintenance.fold import MINUTE, QUARTER
from jobqueue.managers import Done, Ending, moving, settling
from jobqueue.models import Job, Stat
from jobqueue.ops.statistics import NOTHING, Figures, figures, histogram, series
from jobqueue.outcomes import Outcome
from jobqueue.states import Status
from tests.factories import StatFactory, ago

pytestmark = pytest.mark.django_db

run = Job.objects.run_sql

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)
# Sums of these are exact in any order, in float8 as in Python: multiples of 1/64 s.
TICK = 0.015625

RUNNING = """
INSERT INTO jobqueue_job (job_type, queue, status, attempts, max_attempts, lease_epoch, worker_id,
                          run_after, claimed_at, lease_until)
SELECT 'type' || n % 3, 'q' || n % 2, 2, 1, 1, 1, 'worker-1',
       statement_timestamp() - (n % 700) * interval '0.015625 s', statement_timestamp(),
       statement_timestamp() + interval '1 hour'
  FROM generate_series(1, {jobs}) AS n
"""


def running(jobs: int) -> list[Job]:
    """Insert so many running jobs, of three types in two queues, which waited from 0 to 11 s."""
    with connection.cursor() as cursor:
        cursor.execute(RUNNING.format(jobs=jobs))
        cursor.execute("ANALYZE jobqueue_job")  # else each settle reads the whole table
    return list(Job.objects.filter(status=Status.RUNNING).order_by("id"))


def settle(jobs: list[Job], seconds: dict[int, float]) -> None:
    """Settle jobs as a worker does: every seventh failed and is dead, the others are done; in batches."""
    for start in range(0, len(jobs), 250):
        batch = jobs[start : start + 250]
        done = [
            Done(job.pk, 1, run_seconds=seconds[job.pk], cpu_seconds=TICK, peak_memory=job.pk)
            for job in batch
            if job.pk % 7
        ]
        bad = [Ending(job.pk, 1, Outcome.FAILED, run_seconds=seconds[job.pk]) for job in batch if not job.pk % 7]
        settling.settle_done(run, worker_id="worker-1", jobs=done)
        settling.settle_ended(run, worker_id="worker-1", endings=bad)


def by_hand(jobs: list[Job], seconds: dict[int, float], key: Callable[[Job], tuple[str, ...]]) -> dict[Any, Figures]:
    """Sum single jobs in plain Python."""
    groups: dict[tuple[str, ...], list[Job]] = defaultdict(list)
    for job in jobs:
        groups[key(job)].append(job)
    return {name: one_by_hand(group, seconds) for name, group in groups.items()}


def one_by_hand(jobs: list[Job], seconds: dict[int, float]) -> Figures:
    bad = [job for job in jobs if not job.pk % 7]
    done = [job for job in jobs if job.pk % 7]
    waits = [(job.claimed_at - job.run_after).total_seconds() for job in jobs]
    runs = [seconds[job.pk] for job in jobs]
    return Figures(
        outcomes={Outcome.DONE: len(done), Outcome.FAILED: len(bad)},
        dead=len(bad),
        wait_seconds=sum(waits),
        run_seconds=sum(runs),
        cpu_seconds=len(done) * TICK,
        peak_memory_bytes=max(job.pk for job in done),
        wait_counts=counts_of(waits),
        run_counts=counts_of(runs),
    )


def without_time(found: dict[Any, Figures]) -> dict[Any, Figures]:
    """Return figures without the length of their window, which no sum by hand has."""
    return {key: NOTHING + Figures(**{**_fields(one), "seconds": 0.0}) for key, one in found.items()}


def _fields(one: Figures) -> dict[str, Any]:
    return {name: getattr(one, name) for name in Figures.__dataclass_fields__}


def fold(from_span: int, to_span: int) -> int:
    return moving.fold(
        run, statement=sql.FOLD_STATS, from_span=from_span, to_span=to_span, age=timedelta(0), limit=10_000
    )


def test_sums_of_single_jobs_by_hand_are_the_figures_before_and_after_folding_and_pruning() -> None:
    """Case C166: counts, sums and buckets of settles, minutes and quarter-hours, with and without the jobs."""
    jobs = running(1_000)
    dice = random.Random(3)
    seconds = {job.pk: dice.choice([0, 1, 2, 5, 40, 600, 70_000]) * TICK for job in jobs}
    settle(jobs, seconds)
    # As if they had been settled over the last hour: one statement gives all its rows one time.
    Stat.objects.update(at=F("at") - F("id") % 60 * timedelta(minutes=1))
    expected = {
        (): by_hand(jobs, seconds, lambda job: ()),
        ("queue",): by_hand(jobs, seconds, lambda job: (job.queue,)),
        ("job_type",): by_hand(jobs, seconds, lambda job: (job.job_type,)),
        ("queue", "job_type"): by_hand(jobs, seconds, lambda job: (job.queue, job.job_type)),
        ("job_type", "queue"): by_hand(jobs, seconds, lambda job: (job.job_type, job.queue)),
    }

    def check() -> None:
        for by, figures_by_hand in expected.items():
            assert without_time(figures(DAY, by=by)) == figures_by_hand

    check()
    assert fold(0, MINUTE) > 0
    check()
    assert fold(MINUTE, QUARTER) > 0
    check()
    for status in (Status.DONE, Status.DEAD):
        Job.objects.prune(status=status, age=timedelta(0), limit=5_000)
    assert set(Job.objects.values_list("job_type", flat=True)) == {"jobqueue.notify"}
    check()


def test_percentiles_of_ten_thousand_random_runs_are_in_the_buckets_of_the_true_ones() -> None:
    jobs = running(10_000)
    dice = random.Random(5)
    seconds = {job.pk: dice.lognormvariate(0, 2) for job in jobs}
    settle(jobs, seconds)
    fold(0, MINUTE)

    found = figures(HOUR, by=())[()]

    waits = sorted((job.claimed_at - job.run_after).total_seconds() for job in jobs)
    runs = sorted(seconds.values())
    for share, wait, time in (
        (0.5, found.wait_p50, found.run_p50),
        (0.95, found.wait_p95, found.run_p95),
        (0.99, found.wait_p99, found.run_p99),
    ):
        assert wait is not None
        assert time is not None
        assert bucket_of(wait) == bucket_of(waits[int(share * 10_000) - 1])
        assert bucket_of(time) == bucket_of(runs[int(share * 10_000) - 1])


def test_the_figures_that_people_ask_for() -> None:
    StatFactory.create(jobs=6, run_buckets=[3] * 6, wait_buckets=[0] * 6)
    StatFactory.create(jobs=2, outcome=Outcome.DEADLINE, dead=1, peak_memory_bytes=7)
    StatFactory.create(jobs=4, outcome=Outcome.CANCELLED, peak_memory_bytes=5)

    one = figures(HOUR)[("default",)]

    assert (one.jobs, one.done, one.failed, one.dead) == (12, 6, 2, 1)
    assert one.outcomes == {Outcome.DONE: 6, Outcome.DEADLINE: 2, Outcome.CANCELLED: 4}
    assert one.failure_rate == 0.25
    assert one.peak_memory_bytes == 7
    assert one.run_p50 == percentile(counts_of([0.002] * 6), 0.5)
    assert (one.wait_p50, one.wait_p95) == (pytest.approx(0.0005, rel=0.2), pytest.approx(0.00095, rel=0.1))


def test_what_nobody_ran_has_no_percentiles_and_no_rates() -> None:
    assert figures(HOUR) == {}
    assert figures(HOUR, by=()) == {(): Figures(seconds=3_600)}
    assert (NOTHING.jobs, NOTHING.failure_rate, NOTHING.run_p50, NOTHING.peak_memory_bytes) == (0, None, None, None)


def test_an_outcome_of_a_newer_release_is_counted() -> None:
    StatFactory.create(outcome=99, jobs=3)

    assert figures(HOUR, by=())[()].outcomes == {99: 3}


def test_rows_of_releases_without_histograms_count_beside_others() -> None:
    StatFactory.create(jobs=5)
    StatFactory.create(jobs=1, run_buckets=[4])
    StatFactory.create(jobs=2, span_seconds=60, at=ago(120), run_counts=[0, 2])

    one = figures(HOUR, by=())[()]

    assert (one.jobs, sum(one.run_counts), sum(one.wait_counts)) == (8, 3, 0)


def test_only_one_queue_or_one_type_can_be_asked_for() -> None:
    for queue, job_type in (("a", "x"), ("a", "y"), ("b", "x")):
        StatFactory.create(queue=queue, job_type=job_type)

    assert set(figures(HOUR, queue="a", by=("job_type",))) == {("x",), ("y",)}
    assert figures(HOUR, queue="a", job_type="x", by=())[()].jobs == 1
    assert set(figures(HOUR, job_type="x")) == {("a",), ("b",)}


def test_figures_by_something_else_are_refused() -> None:
    with pytest.raises(ValueError, match="not by owner"):
        figures(HOUR, by=("queue", "owner"))


def test_without_times_there_are_counts_only() -> None:
    StatFactory.create(jobs=2, run_buckets=[4, 4], wait_buckets=[1, 1])

    one = figures(HOUR, by=(), times=False)[()]

    assert (one.jobs, one.run_seconds) == (2, 0.25)
    assert one.run_counts == one.wait_counts == NO_COUNTS


def test_a_window_may_end_before_now() -> None:
    for minutes in (5, 20, 30):
        StatFactory.create(at=ago(60 * minutes), jobs=minutes)

    quarter = timedelta(minutes=15)

    assert figures(quarter, by=())[()].jobs == 5
    assert figures(HOUR, until=quarter, by=())[()].jobs == 50
    assert figures(datetime.now(UTC) - HOUR, until=datetime.now(UTC) - quarter, by=())[()].jobs == 50


def test_a_folded_row_counts_wherever_its_span_reaches_into_the_window_and_the_figures_say_how_far() -> None:
    StatFactory.create(jobs=1, at=ago(3_630), span_seconds=60)
    StatFactory.create(jobs=2, at=ago(3_670), span_seconds=60)
    StatFactory.create(jobs=4, at=ago(4_400), span_seconds=900)
    StatFactory.create(jobs=8, at=ago(4_600), span_seconds=900)

    one = figures(HOUR, by=())[()]

    assert one.jobs == 5
    assert one.seconds == pytest.approx(4_400, abs=30)


def test_the_figures_of_a_window_without_long_rows_stand_for_the_window() -> None:
    StatFactory.create(at=ago(30))

    assert figures(HOUR, by=())[()].seconds == pytest.approx(3_600, abs=0.01)


def test_one_statement_reads_it_all(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    """Between two of them maintenance could fold rows, which would be counted twice or not at all."""
    StatFactory.create()

    with django_assert_num_queries(1):
        figures(HOUR, by=("queue", "job_type"))


def test_the_histogram_has_counts_and_sums() -> None:
    StatFactory.create(jobs=2, queue="a", run_buckets=[4, 4], wait_buckets=[1, 1], run_seconds=0.005, wait_seconds=2.0)
    StatFactory.create(jobs=1, queue="b", run_buckets=[5], run_seconds=0.0075, wait_seconds=0.0)

    found = histogram(HOUR)

    assert found.run_counts[:6] == (0, 0, 0, 0, 2, 1)
    assert found.wait_counts[:6] == (0, 2, 0, 0, 0, 0)
    assert (found.run_sum, found.wait_sum, found.attempts) == (0.0125, 2.0, 3)
    assert histogram(HOUR, queue="b").attempts == 1
    assert histogram(HOUR, queue="nobody's") == (NO_COUNTS, NO_COUNTS, 0.0, 0.0, 0)


# -- series ---------------------------------------------------------------------------------------------------------

KOLKATA = "Asia/Kolkata"


def quarter(text: str, jobs: int = 1, **fields: Any) -> None:
    """Insert the statistics of a quarter-hour that began at that time UTC."""
    at = datetime.fromisoformat(text).replace(tzinfo=UTC)
    StatFactory.create(at=at, span_seconds=QUARTER, jobs=jobs, run_counts=[jobs], **fields)


def test_days_are_those_of_the_zone() -> None:
    """Case C166: midnight in Kolkata is at 18:30 UTC, between two rows."""
    quarter("2026-03-01 18:15", 1)
    quarter("2026-03-01 18:30", 2)
    quarter("2026-03-02 12:00", 4)
    quarter("2026-03-02 18:15", 8)
    quarter("2026-03-02 18:30", 16)
    since, until = datetime(2026, 3, 1, 0, 0, tzinfo=UTC), datetime(2026, 3, 2, 20, 0, tzinfo=UTC)

    kolkata = series(since, DAY, until=until, zone=KOLKATA)[()]
    utc = series(since, DAY, until=until, zone="UTC")[()]

    assert [(f"{point.start:%m-%d %H:%M}", point.figures.jobs) for point in kolkata] == [
        ("03-01 00:00", 1),
        ("03-02 00:00", 14),
        ("03-03 00:00", 16),
    ]
    assert [(f"{point.start:%m-%d %H:%M}", point.figures.jobs) for point in utc] == [
        ("03-01 00:00", 3),
        ("03-02 00:00", 28),
    ]
    assert sum(point.figures.jobs for point in kolkata) == sum(point.figures.jobs for point in utc) == 31
    assert [sum(point.figures.run_counts) for point in kolkata] == [1, 14, 16]


def test_the_zone_is_that_of_the_settings_unless_told(settings: Any) -> None:
    settings.TIME_ZONE = KOLKATA
    quarter("2026-03-01 18:15", 1)
    quarter("2026-03-01 18:30", 2)

    points = series(datetime(2026, 3, 1, 12, tzinfo=UTC), DAY, until=datetime(2026, 3, 2, 12, tzinfo=UTC))[()]

    assert [point.figures.jobs for point in points] == [1, 2]
    assert {str(point.start.tzinfo) for point in points} == {KOLKATA}


@pytest.mark.parametrize(
    ("day", "hours"), [("2026-03-29", 23), ("2026-10-25", 25), ("2026-06-01", 24)], ids=["spring", "autumn", "summer"]
)
def test_the_days_on_which_clocks_change_have_23_or_25_hours(day: str, hours: int) -> None:
    zone = "Europe/Berlin"
    noon = datetime.fromisoformat(f"{day} 10:00").replace(tzinfo=UTC)
    points = series(noon, DAY, until=noon + DAY, zone=zone)[()]
    by_hour = series(points[0].start, HOUR, until=points[0].end, zone=zone)[()]

    assert points[0].figures.seconds == hours * 3_600
    assert len(by_hour) == hours
    assert {point.figures.seconds for point in by_hour} == {3_600}


def test_a_series_has_no_gaps_and_begins_and_ends_where_it_is_said() -> None:
    quarter("2026-03-01 10:15", 3, queue="a")
    quarter("2026-03-01 11:45", 5, queue="b")

    found = series(
        datetime(2026, 3, 1, 10, 20, tzinfo=UTC),
        timedelta(minutes=30),
        until=datetime(2026, 3, 1, 11, 50, tzinfo=UTC),
        by=("queue",),
        zone="UTC",
    )

    assert [(key, [point.figures.jobs for point in points]) for key, points in found.items()] == [
        (("a",), [3, 0, 0, 0]),
        (("b",), [0, 0, 0, 5]),
    ]
    first, *_, last = found[("a",)]
    assert (first.start.hour, first.start.minute) == (10, 0)
    assert (last.end.hour, last.end.minute) == (11, 50)
    assert (first.figures.seconds, last.figures.seconds) == (1_800, 1_200)


def test_a_series_up_to_now_ends_with_what_has_just_been_settled() -> None:
    StatFactory.create(jobs=4)
    StatFactory.create(jobs=2, at=ago(86_400))

    points = series(2 * DAY, HOUR)[()]

    assert points[-1].figures.jobs + points[-2].figures.jobs == 4
    assert sum(point.figures.jobs for point in points) == 6
    assert len(points) in (48, 49)


def test_a_series_of_nothing_is_all_zeros() -> None:
    assert [point.figures.jobs for point in series(HOUR, timedelta(minutes=15))[()]] in ([0] * 4, [0] * 5)
    assert series(HOUR, HOUR, by=("queue",)) == {}
    assert series(datetime.now(UTC) + HOUR, HOUR) == {(): []}


@pytest.mark.parametrize("step", [timedelta(minutes=5), timedelta(minutes=50), timedelta(0), -DAY, timedelta(hours=36)])
def test_other_steps_are_refused(step: timedelta) -> None:
    with pytest.raises(ValueError, match="a step is whole days, or quarter-hours"):
        series(DAY, step)


def test_a_series_is_no_longer_than_people_can_look_at() -> None:
    with pytest.raises(ValueError, match="more than 10,000 periods"):
        series(400 * DAY, timedelta(minutes=15))


def test_times_without_a_zone_are_refused() -> None:
    with pytest.raises(ValueError, match="aware"):
        series(datetime(2026, 3, 1), DAY)
