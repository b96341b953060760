"""The snapshot's queues: depth, ages, rates and percentiles, who serves them, and whether they are paused."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection

from jobqueue.histograms import percentile
from jobqueue.models import Job, Queue
from jobqueue.ops import counts, metric_families, queue_figures
from jobqueue.ops.queue_figures import QueueFigures
from jobqueue.ops.statistics import figures
from jobqueue.outcomes import Outcome
from jobqueue.states import Status
from tests.factories import JobFactory, StatFactory, WorkerFactory, ago, ahead

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("patient")]

MakeJob = Callable[..., Job]
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


def queues() -> dict[str, QueueFigures]:
    taken = Job.objects.ops()
    assert taken.unknown == frozenset()
    return {each.queue: each for each in taken.queues}


def test_queues_are_those_with_due_jobs_with_jobs_of_late_and_paused_ones(make_job: MakeJob) -> None:
    make_job(queue="due", created_at=LONG_AGO)
    make_job(queue="enqueued", status=Status.DONE, finished_at=LONG_AGO)
    StatFactory.create(queue="ended")
    StatFactory.create(queue="earlier", at=ago(3_600))
    Queue.objects.create(name="paused", paused_at=ago(5))
    Queue.objects.create(name="*", paused_at=ago(5))
    Queue.objects.create(name="resumed")

    assert list(queues()) == ["due", "ended", "enqueued", "paused"]


def test_depth_and_age_are_of_each_queues_due_jobs(make_job: MakeJob) -> None:
    make_job(queue="mail", run_after=ago(30), priority=90)
    make_job(queue="mail", run_after=ago(100), priority=110)
    make_job(queue="mail", status=Status.SCHEDULED, run_after=ahead(60))
    make_job(queue="mail", status=Status.RUNNING)
    make_job(queue="slow", run_after=ago(7))
    make_job(queue="calm", status=Status.DONE)

    found = queues()

    assert {name: each.depth for name, each in found.items()} == {"mail": 2, "slow": 1, "calm": 0}
    assert found["mail"].oldest_sec == pytest.approx(100, abs=5)
    assert found["slow"].oldest_sec == pytest.approx(7, abs=5)
    assert found["calm"].oldest_sec == 0


def test_a_job_due_in_the_future_has_waited_for_no_time(make_job: MakeJob) -> None:
    """A row by hand: what is PENDING before its time makes no negative age."""
    make_job(queue="mail", run_after=ahead(100))

    assert queues()["mail"].oldest_sec == 0


def test_each_queue_is_counted_up_to_the_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts, "COUNT_CAP", 3)
    JobFactory.create_batch(3, queue="fits")
    JobFactory.create_batch(4, queue="long")

    found = queues()

    assert [(each.depth, each.depth_capped) for each in found.values()] == [(3, False), (3, True)]


def test_many_long_queues_share_a_first_look_and_the_longest_get_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first look reads at most 100 of each here; each of the two is counted to the cap all the same."""
    monkeypatch.setattr(counts, "COUNT_CAP", 150)
    monkeypatch.setattr(queue_figures, "ENTRIES", 10)
    _insert("a", 120)
    _insert("b", 151)
    _insert("c", 100)

    found = queues()

    assert {name: (each.depth, each.depth_capped) for name, each in found.items()} == {
        "a": (120, False),
        "b": (150, True),
        "c": (100, False),
    }


def test_of_very_many_queues_the_first_ones_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_figures, "MOST_QUEUES", 3)
    for name in ("a", "b", "c", "d"):
        JobFactory.create(queue=name, created_at=LONG_AGO, priority=90)
        JobFactory.create(queue=name, created_at=LONG_AGO, priority=91)
    monkeypatch.setattr(queue_figures, "NEWEST", 1)

    StatFactory.create(queue="d")

    # Not 0: it was not looked at.
    assert {name: each.depth for name, each in queues().items()} == {"a": 2, "b": 2, "c": 2, "d": None}


def _insert(queue: str, jobs: int, *, seconds_ago: float = 0) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO jobqueue_job (job_type, queue, created_at) SELECT 'probe.ok', %s,"
            " statement_timestamp() - make_interval(secs => %s) FROM generate_series(1, %s)",
            [queue, seconds_ago, jobs],
        )


def test_arrivals_are_counted_where_the_newest_jobs_reach_back_far_enough() -> None:
    JobFactory.create_batch(9, queue="mail", created_at=ago(600), status=Status.DONE)
    JobFactory.create_batch(5, queue="mail", created_at=ago(1_000))
    JobFactory.create(queue="other", created_at=ago(1_000))

    found = queues()

    assert found["mail"].arrival_per_sec == pytest.approx(9 / 900, rel=0.01)
    assert found["other"].arrival_per_sec == 0
    assert not found["mail"].arrival_estimated


def test_arrivals_are_estimated_where_more_came_than_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """600 of late, 400 and 200 of them in turn, behind 3,000 older ones of another queue."""
    monkeypatch.setattr(queue_figures, "NEWEST", 200)
    _insert("old", 3_000, seconds_ago=1_000)
    _insert("mail", 600, seconds_ago=500)
    Job.objects.filter(queue="mail").extra(where=["id %% 3 = 0"]).update(queue="other")

    found = queues()

    assert found["mail"].arrival_per_sec == pytest.approx(400 / 900, rel=0.15)
    assert found["other"].arrival_per_sec == pytest.approx(200 / 900, rel=0.3)
    assert found["mail"].arrival_estimated
    assert sum(each.arrival_per_sec or 0 for each in found.values()) == pytest.approx(600 / 900)
    assert found["old"].arrival_per_sec == 0


def test_a_burst_that_hides_what_came_before_it_is_not_taken_for_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest rows are all of the burst: the rate is over the whole time, and the sample goes further back."""
    monkeypatch.setattr(queue_figures, "NEWEST", 100)
    _insert("steady", 300, seconds_ago=600)
    _insert("burst", 300, seconds_ago=1)

    found = queues()

    assert [found[name].arrival_per_sec for name in ("steady", "burst")] == pytest.approx([300 / 900] * 2, rel=0.15)


def test_deleted_jobs_have_arrived_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_figures, "NEWEST", 100)
    _insert("mail", 900, seconds_ago=600)
    with connection.cursor() as cursor:
        cursor.execute(
            "DELETE FROM jobqueue_job WHERE id %% 3 = 0 AND id < (SELECT max(id) - 100 FROM jobqueue_job)", []
        )

    assert queues()["mail"].arrival_per_sec == pytest.approx(1, rel=0.01)


def test_all_jobs_may_be_of_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_figures, "NEWEST", 10)
    _insert("mail", 90, seconds_ago=0)

    assert queues()["mail"].arrival_per_sec == pytest.approx(90 / 900)


def test_rates_percentiles_and_failures_are_of_the_last_quarter_of_an_hour() -> None:
    StatFactory.create(queue="mail", jobs=60, at=ago(300), wait_counts=[0, 60], run_counts=[0, 0, 60], span_seconds=60)
    StatFactory.create(queue="mail", jobs=2, wait_buckets=[20, 20], run_buckets=[30, 30], outcome=Outcome.FAILED)
    StatFactory.create(queue="mail", jobs=5, outcome=Outcome.CANCELLED)
    StatFactory.create(queue="mail", jobs=1_000, at=ago(2_000))

    found = queues()["mail"]

    assert found.done_per_sec == pytest.approx(60 / 900, rel=0.08)
    assert found.failure_rate == pytest.approx(2 / 62)
    assert found.wait_p50_sec == percentile([0, 60, *[0] * 18, 2], 0.5)
    assert found.wait_p50_sec < found.run_p50_sec < 0.01
    assert found.run_p95_sec < 0.01


def test_the_snapshot_and_the_statistics_agree() -> None:
    """They have statements of their own: one for a short while of all queues, one for any window."""
    for number in range(40):
        folded = number % 2
        times = {"wait_counts": [1, 2, number], "run_counts": [0, number]} if folded else {"wait_buckets": [number, 7]}
        StatFactory.create(
            queue=f"q{number % 3}", outcome=1 + number % 5, jobs=number, dead=number % 2, at=ago(number * 30),
            span_seconds=60 * folded, **times,
        )  # fmt: skip

    snapshot = queue_figures.read_ended(Job.objects.run_sql)
    statistics = figures(timedelta(minutes=15), by=("queue",))
    without = queue_figures.read_ended_without_times("default")

    assert snapshot.keys() == {"q0", "q1", "q2"} == without.keys()
    for queue, one in snapshot.items():
        other = statistics[(queue,)]
        assert (one.outcomes, one.dead, without[queue].outcomes) == (other.outcomes, other.dead, other.outcomes)
        assert (one.wait_counts, one.run_counts) == (other.wait_counts, other.run_counts)
        assert one.seconds == pytest.approx(other.seconds, abs=2)


def test_an_outcome_of_a_newer_release_hides_nothing() -> None:
    StatFactory.create(queue="mail", jobs=5)
    StatFactory.create(queue="mail", jobs=5, outcome=99)

    assert queues()["mail"].done_per_sec == pytest.approx(5 / 900)


def test_a_queue_where_nothing_ended_has_rates_of_zero_and_no_percentiles(make_job: MakeJob) -> None:
    make_job(queue="mail")

    found = queues()["mail"]

    assert (found.done_per_sec, found.failure_rate, found.wait_p50_sec, found.run_p95_sec) == (0, None, None, None)


def test_workers_of_a_queue_live_and_claim_from_it(make_job: MakeJob) -> None:
    """Case C144: a queue with due jobs that nobody serves is seen at a glance."""
    make_job(queue="emial")
    make_job(queue="mail")
    make_job(queue="jobqueue")
    WorkerFactory.create(queues=["mail"])
    WorkerFactory.create(queues=["default", "mail"])
    WorkerFactory.create(queues=["mail"], heartbeat_at=ago(3_600))
    WorkerFactory.create(queues=["mail"], stopping=True)

    assert {name: each.workers for name, each in queues().items()} == {"emial": 0, "mail": 2, "jobqueue": 2}

    WorkerFactory.create(queues=["*"])

    assert queues()["emial"].workers == 1


def test_a_pause_is_shown_with_who_why_and_until_when(make_job: MakeJob) -> None:
    """Case C144: paused is shown as paused."""
    for name in ("mail", "slow", "jobqueue"):
        make_job(queue=name)
    Queue.objects.create(name="mail", paused_at=ago(5), paused_by="anna", reason="relay down", resumes_at=ahead(60))
    Queue.objects.create(name="slow", paused_at=ago(60), resumes_at=ago(1))
    assert {name: bool(each.paused) for name, each in queues().items()} == {
        "mail": True,
        "slow": False,
        "jobqueue": False,
    }

    Queue.objects.create(name="*", paused_at=ago(5), paused_by="budget:all")

    found = queues()
    assert found["mail"].paused is not None
    assert (found["mail"].paused.paused_by, found["mail"].paused.reason) == ("anna", "relay down")
    assert found["mail"].paused.resumes_at is not None
    assert found["slow"].paused is not None
    assert found["slow"].paused.paused_by == "budget:all"
    assert found["jobqueue"].paused is None


def test_the_time_to_drain_is_the_depth_by_what_leaves_more_than_comes() -> None:
    JobFactory.create_batch(30, queue="mail", created_at=LONG_AGO)
    JobFactory.create_batch(9, queue="mail", status=Status.DONE, created_at=ago(300))  # 0.01 a second
    StatFactory.create(queue="mail", jobs=54)  # 0.06 a second
    StatFactory.create(queue="mail", jobs=9, dead=9, outcome=Outcome.FAILED)  # 0.01 a second leave it as dead letters
    StatFactory.create(queue="mail", jobs=500, outcome=Outcome.FAILED)  # these come back

    assert queues()["mail"].drain_sec == pytest.approx(30 / 0.06, rel=0.08)


def test_the_time_to_drain_of_what_is_not_counted_to_the_end_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one such queue the index knows the depth, about; of two it knows the sum."""
    monkeypatch.setattr(counts, "COUNT_CAP", 3)
    _insert("long", 500, seconds_ago=1_000)
    JobFactory.create_batch(3, queue="short", created_at=LONG_AGO)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE jobqueue_job")
    for name in ("long", "short"):
        StatFactory.create(queue=name, jobs=900)

    one = queues()
    _insert("longer", 4, seconds_ago=1_000)
    two = queues()

    assert [(one[name].drain_capped, two[name].drain_capped) for name in ("long", "short")] == [
        (False, True),
        (False, False),
    ]
    assert one["long"].drain_sec == pytest.approx(500, rel=0.1)
    assert two["long"].drain_sec == pytest.approx(3, rel=0.1)


def test_no_metric_tells_a_time_to_drain_that_is_a_lower_bound() -> None:
    capped = QueueFigures(queue="capped", depth=10_000, depth_capped=True, drain_sec=200.0)
    shown = (
        QueueFigures(queue="counted", depth=9, drain_sec=9.0),
        replace(capped, queue="estimated", depth_estimate=30_000),
        capped,
    )

    seen = replace(Job.objects.ops(), queues=shown)
    told = {family.name: family.samples for family in metric_families.snapshot_families(seen)}

    assert {one.labels["queue"] for one in told["jobqueue_queue_drain_seconds"]} == {"counted", "estimated"}
    assert {one.labels["queue"] for one in told["jobqueue_queue_depth"]} == {"counted", "estimated", "capped"}


def test_no_time_to_drain_is_made_up() -> None:
    JobFactory.create_batch(20, queue="grows")
    StatFactory.create(queue="grows", jobs=5)
    JobFactory.create(queue="paused", created_at=LONG_AGO)
    StatFactory.create(queue="paused", jobs=900)
    Queue.objects.create(name="paused", paused_at=ago(5))
    StatFactory.create(queue="empty")

    found = queues()

    assert {name: each.drain_sec for name, each in found.items()} == {"grows": None, "paused": None, "empty": 0}
