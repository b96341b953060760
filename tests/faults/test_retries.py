"""When what failed comes back: capped, spread, never early, never at once again, whatever the clocks' zones say."""

import statistics
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection

from jobqueue import operations
from jobqueue.models import Attempt, Job
from jobqueue.outcomes import Outcome
from jobqueue.states import Status
from tests.worker.effects import Effects
from tests.worker.kinds import Enqueue, Launch, WaitFor
from tests.worker.waiting import until

DELAY = "extract(epoch FROM job.run_after - attempt.finished_at)::float8"


def delays(job_type: str, *, after_attempt: int) -> list[float]:
    """Return how long each job of a type waits after that attempt, shortest first."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT {DELAY} FROM jobqueue_job AS job JOIN jobqueue_attempt AS attempt ON attempt.job_id = job.id"
            " WHERE job.job_type = %s AND attempt.number = %s AND job.status = 5 ORDER BY 1",
            [job_type, after_attempt],
        )
        return [row[0] for row in cursor.fetchall()]


def all_wait(job_type: str, count: int, *, attempts: int) -> None:
    """Wait until all jobs of a type have failed that often and are scheduled again."""
    scheduled = Job.objects.filter(job_type=job_type, status=Status.SCHEDULED, attempts=attempts)
    until(lambda: scheduled.count() == count, within=30, what=lambda: f"{count} scheduled, {scheduled.count()} are")


def make_due(job_type: str) -> None:
    """Have the time of the scheduled jobs come: the rows' times move, no clock does."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE jobqueue_job SET run_after = statement_timestamp() WHERE status = 5 AND job_type = %s", [job_type]
        )


def busiest(waits: Sequence[float], *, window: float) -> int:
    """Return how many of the sorted times lie in the fullest window of that length."""
    return max(sum(1 for other in waits if start <= other < start + window) for start in waits)


@pytest.mark.short
def test_jobs_that_failed_together_do_not_come_back_together(
    launch: Launch, enqueue: Enqueue, effects: Effects
) -> None:
    """C78: 500 jobs fail within a moment; the second and the third attempt of each are spread over a fifth and more.

    C79: the mean of a plain backoff stays near its nominal length, and of 300 that asked for a minute none is early.
    """
    launch("--processes", "2")
    Job.objects.enqueue_many([("probe.wide_backoff", {})] * 500)
    for attempt, nominal in ((1, 30), (2, 60)):
        all_wait("probe.wide_backoff", 500, attempts=attempt)
        waits = delays("probe.wide_backoff", after_attempt=attempt)
        assert len(waits) == 500
        assert waits[0] >= nominal
        assert waits[-1] - waits[0] >= 0.2 * nominal
        assert 0.9 * nominal <= statistics.mean(waits) <= 1.3 * nominal
        assert busiest(waits, window=0.02 * nominal) < 100, "no spike: an even spread has 40 in such a window"
        make_due("probe.wide_backoff")

    Job.objects.enqueue_many([("probe.retry_after", {"delay": 60})] * 300)
    all_wait("probe.retry_after", 300, attempts=1)
    explicit = delays("probe.retry_after", after_attempt=1)
    assert len(explicit) == 300
    assert 60 <= explicit[0] <= explicit[-1] < 60.5


def test_a_bulk_retry_is_spread_and_each_of_its_jobs_runs_once(
    launch: Launch, enqueue: Enqueue, effects: Effects, admin_user: User
) -> None:
    """C78: 5,000 dead letters put back by a person become due over 50 s, not at once; none is lost or run twice."""
    Job.objects.enqueue_many([("probe.ok", {})] * 5_000)
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE jobqueue_job SET status = 4, attempts = 3, lease_epoch = 3, outcome = 2, worker_id = 'gone',"
            " finished_at = statement_timestamp()"
        )
    dead = Job.objects.filter(status=Status.DEAD)

    report = operations.retry(dead, actor=admin_user)

    assert len(report.changed) == 5_000
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT extract(epoch FROM run_after - updated_at)::float8 FROM jobqueue_job WHERE status = 5 ORDER BY 1"
        )
        waits = [row[0] for row in cursor.fetchall()]
    assert len(waits) > 4_900
    assert 45 < waits[-1] <= 50
    assert busiest(waits[::10], window=1) < 30, "about a hundred a second: ten times the sample's"
    launch()
    make_due("probe.ok")
    done = Job.objects.filter(status=Status.DONE, job_type="probe.ok")
    until(lambda: done.count() == 5_000, within=30)
    assert set(done.values_list("attempts", "lease_epoch")) == {(1, 4)}


def test_a_backoff_far_along_is_one_cap_long(launch: Launch, enqueue: Enqueue, effects: Effects) -> None:
    """C76: attempts set by SQL, factor 2 from a second and factor 10 from an hour; next to them others run."""
    numbers = (46, 60, 1_100, 4_998)
    caps = {"probe.gentle_backoff": 60, "probe.steep_backoff": 7_200}
    jobs = {name: [Job.objects.enqueue(name, run_after=timedelta(hours=1)) for _ in (*numbers, 4_999)] for name in caps}
    with connection.cursor() as cursor:
        for made in jobs.values():
            for job, attempts in zip(made, (*numbers, 4_999), strict=True):
                cursor.execute("UPDATE jobqueue_job SET attempts = %s WHERE id = %s", [attempts, job.pk])
    worker = launch("--processes", "1")
    for name in caps:
        make_due(name)

    for name, cap in caps.items():
        *retried, last = [job.pk for job in jobs[name]]
        scheduled = Job.objects.filter(pk__in=retried, status=Status.SCHEDULED, lease_epoch=1)
        until(lambda: scheduled.count() == len(numbers), what=f"all {name} are scheduled again")  # noqa: B023
        assert list(scheduled.order_by("pk").values_list("attempts", flat=True)) == [n + 1 for n in numbers]
        for number in numbers:
            (wait,) = delays(name, after_attempt=number + 1)
            assert cap <= wait <= 1.25 * cap + 0.1
        until(lambda: Job.objects.get(pk=last).status == Status.DEAD, what="the last attempt of 5,000")  # noqa: B023
    assert worker.code is None


def test_a_redriven_job_runs_with_a_fresh_budget(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, admin_user: User, effects: Effects
) -> None:
    """C82: dead at 3 of 3; put back while still broken it gets three more, mended it ends DONE; history counts on."""
    launch("--processes", "1")
    job = enqueue("waits_for_group", name="mended")
    wait_for(job, Status.DEAD)

    def retry() -> None:
        assert operations.retry(Job.objects.filter(pk=job.pk), actor=admin_user).changed == [job.pk]

    retry()
    until(lambda: Attempt.objects.filter(job=job).count() == 6, what="three more attempts")
    again = wait_for(job, Status.DEAD)
    assert (again.attempts, again.lease_epoch) == (3, 6)
    Group.objects.create(name="mended")
    retry()

    done = wait_for(job)
    assert (done.result, done.attempts, done.lease_epoch) == (1, 1, 7)
    history = done.attempt_history()
    assert [row["number"] for row in history] == [1, 2, 3, 1, 2, 3, 1]
    assert [row["lease_epoch"] for row in history] == [1, 2, 3, 4, 5, 6, 7]
    assert [row["outcome"] for row in history] == [Outcome.FAILED] * 6 + [Outcome.DONE]


@pytest.fixture
def far_east(transactional_db: None) -> Any:
    """Have every new connection of the database begin in another zone than the project's."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_database()")
        name = cursor.fetchone()[0]
        cursor.execute(f'ALTER DATABASE "{name}" SET timezone = %s', ["Asia/Tokyo"])
    yield
    with connection.cursor() as cursor:  # another one: the universal checks may have closed the connection
        cursor.execute(f'ALTER DATABASE "{name}" RESET timezone')


def test_zones_move_no_lease_no_delay_and_no_retention(
    far_east: None, launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    """C137: the project in Los Angeles, the database in Tokyo; fresh rows are not hours old, nor hours ahead."""
    launch("--processes", "3", env={"TIME_ZONE": "America/Los_Angeles"}, RETENTION_DONE_SECONDS=3_600)
    delayed = enqueue("mark", _run_after=timedelta(seconds=1.5))
    long = enqueue("mark", seconds=7)  # longer than its lease of five seconds
    flaky = enqueue("flaky", failures=1)

    done = wait_for(delayed)
    assert 0 <= (done.claimed_at - done.run_after).total_seconds() < 60, "not hours"
    assert abs((done.run_after - done.created_at).total_seconds() - 1.5) < 0.1
    assert wait_for(flaky).attempts == 2
    assert wait_for(long).attempts == 1
    assert effects.count("start", job_id=long.pk) == 1
    assert Job.objects.filter(pk=delayed.pk).exists(), "not pruned as if it were hours old"
    assert (Job.objects.get(pk=long.pk).finished_at - long.created_at).total_seconds() < 30
