"""travel() and due_now(): rows move, and the queue behaves as if the time had passed."""

from datetime import timedelta
from typing import Any

import pytest
from django.db.models import DateTimeField, F

from jobqueue.models import Attempt, Job
from jobqueue.models.expressions import StatementTimestamp
from jobqueue.states import Status
from jobqueue.testing import drain, due_now, run_once, travel
from tests.factories import JobFactory, ahead

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)


def enqueue(job_type: str = "probe.ok", **options: Any) -> Job:
    job = Job.objects.enqueue(job_type, **options)
    assert job is not None
    return job


def saved(job: Job) -> Job:
    return Job.objects.get(pk=job.pk)


def instants(row: Any) -> dict[str, Any]:
    return {each.name: getattr(row, each.name) for each in row._meta.concrete_fields if isinstance(each, DateTimeField)}


def test_what_is_due_within_the_time_is_due_and_the_rest_is_not() -> None:
    soon, later = enqueue(run_after=HOUR), enqueue(run_after=HOUR + timedelta(minutes=1))

    travel(HOUR)

    assert (saved(soon).status, saved(later).status) == (Status.PENDING, Status.SCHEDULED)
    assert drain() == [(soon.pk, Status.DONE)]


def test_a_backoff_is_over() -> None:
    job = enqueue("probe.boom", max_attempts=2)
    drain()

    travel(HOUR)

    assert drain() == [(job.pk, Status.DEAD)]


def test_a_lease_runs_out_and_old_rows_are_pruned() -> None:
    held, done = JobFactory.create(status=Status.RUNNING), JobFactory.create(status=Status.DONE)

    travel(timedelta(days=8))

    Job.objects.reap()
    assert (saved(held).status, Attempt.objects.get().job_id) == (Status.PENDING, held.pk)
    assert Job.objects.prune(status=Status.DONE, age=timedelta(days=7)) == [done.pk]


def test_every_instant_of_a_job_and_its_attempts_moves_alike() -> None:
    job = JobFactory.create(status=Status.DEAD, history=True)
    before = [instants(row) for row in (job, *job.attempt_rows.order_by("number"))]

    travel(HOUR)

    after = [instants(row) for row in (saved(job), *job.attempt_rows.order_by("number"))]
    assert after == [{name: at and at - HOUR for name, at in row.items()} for row in before]
    assert len(after) == 4


@pytest.mark.parametrize("by", [timedelta(0), timedelta(seconds=-1)])
def test_time_goes_forward_only(by: timedelta) -> None:
    with pytest.raises(ValueError, match="forward only"):
        travel(by)


def test_more_than_one_batch_comes_due() -> None:
    Job.objects.enqueue_many([{"job_type": "probe.ok", "run_after": HOUR}] * 1200)

    travel(HOUR)

    assert Job.objects.filter(status=Status.PENDING).count() == 1200


def test_scheduled_jobs_are_due_in_the_order_in_which_they_would_have_been() -> None:
    last, first, now = enqueue(run_after=2 * HOUR), enqueue(run_after=HOUR), enqueue()

    assert due_now() == [first.pk, last.pk]

    assert [pk for pk, _ in drain()] == [first.pk, now.pk, last.pk]
    assert saved(last).run_after - saved(first).run_after > timedelta(minutes=59)


def test_only_the_jobs_that_are_named_are_due() -> None:
    one, other, third = (enqueue(run_after=HOUR) for _ in range(3))

    assert due_now(third, one.pk) == [one.pk, third.pk]

    assert (saved(one).status, saved(other).status) == (Status.PENDING, Status.SCHEDULED)
    assert saved(other).run_after == other.run_after


def test_nothing_that_is_not_scheduled_is_touched() -> None:
    jobs = [JobFactory.create(status=status) for status in Status if status != Status.SCHEDULED]

    assert due_now(*jobs) == []

    assert [instants(saved(job)) for job in jobs] == [instants(job) for job in jobs]


def test_a_retry_a_snooze_and_a_job_of_the_past_are_due_at_once() -> None:
    retried, snoozed = enqueue("inside.asks_again"), enqueue("inside.snoozes")
    drain()
    overdue = JobFactory.create(status=Status.SCHEDULED, run_after=StatementTimestamp() - HOUR)

    assert set(due_now()) == {retried.pk, snoozed.pk, overdue.pk}

    assert Job.objects.filter(status=Status.PENDING, run_after__lte=StatementTimestamp()).count() == 3


def test_retries_run_without_their_backoff_on_request() -> None:
    bad, good = enqueue("probe.boom", max_attempts=2), enqueue("probe.echo")

    assert drain(without_backoff=True) == [
        *((bad.pk, Status.SCHEDULED), (good.pk, Status.DONE), (bad.pk, Status.DEAD)),
    ]


def test_run_once_counts_each_attempt() -> None:
    job = enqueue("probe.boom", max_attempts=3)

    assert run_once(2, without_backoff=True) == [(job.pk, Status.SCHEDULED)] * 2
    assert saved(job).status == Status.PENDING


def test_drain_raises_what_a_handler_raises_on_request() -> None:
    enqueue("probe.boom", payload={"text": "here"})

    with pytest.raises(RuntimeError, match="here"):
        drain(raise_errors=True)


def test_a_job_made_by_a_factory_is_due_when_it_says() -> None:
    job = JobFactory.create(status=Status.SCHEDULED, run_after=ahead(60))

    travel(timedelta(seconds=59))
    assert saved(job).status == Status.SCHEDULED
    travel(timedelta(seconds=1))

    assert Job.objects.filter(pk=job.pk, run_after__lte=F("created_at") + timedelta(seconds=61)).exists()
    assert saved(job).status == Status.PENDING
