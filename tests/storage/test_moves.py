"""Redrive, discard and cancel: what people do to many jobs at once."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction

from jobqueue.exceptions import InvalidTransition
from jobqueue.managers import jobs as manager
from jobqueue.models import Job
from jobqueue.states import Status
from tests.factories import JobFactory, ago

pytestmark = pytest.mark.django_db

MakeJob = Callable[..., Job]


def test_a_redriven_job_starts_over_and_keeps_its_history(make_job: MakeJob) -> None:
    """Case C82: attempts at the maximum would kill it again at once without running it."""
    job = make_job(
        status=Status.DEAD,
        attempts=3,
        interruptions=4,
        lease_epoch=5,
        cost_total=2,
        progress={"percent": 9},
        cancel_requested_at=ago(9),
        unknown_since=ago(9),
        run_after=ago(99),
    )

    Job.objects.redrive(job.pk)

    after = Job.objects.get(pk=job.pk)
    assert (after.attempts, after.interruptions, after.worker_id, after.finished_at) == (0, 0, None, None)
    assert (after.progress, after.cancel_requested_at, after.unknown_since) == (None, None, None)
    assert (after.lease_epoch, after.cost_total, after.last_error) == (5, 2, "boom")
    assert (after.first_started_at, after.run_after) == (job.first_started_at, after.updated_at)


def test_redriven_jobs_are_spread_over_the_time_given(make_job: MakeJob) -> None:
    """Case C78: a bulk retry is not one spike."""
    jobs = JobFactory.create_batch(40, status=Status.DEAD)

    Job.objects.redrive([job.pk for job in jobs], spread=timedelta(minutes=10))

    delays = sorted((job.run_after - job.updated_at).total_seconds() for job in Job.objects.all())
    assert delays[0] > 0
    assert delays[-1] <= 600
    assert delays[-1] - delays[0] > 200


def test_a_dead_job_whose_key_is_active_is_blocked(make_job: MakeJob) -> None:
    """Case C160: visible as blocked by #id."""
    dead, active = make_job(status=Status.DEAD, dedupe_key="k"), make_job(dedupe_key="k")

    moved = Job.objects.redrive([dead.pk])

    assert (moved.changed, moved.refused) == ({}, {dead.pk: f"blocked by #{active.pk}"})


@pytest.mark.parametrize("status", [Status.RUNNING, Status.SCHEDULED, Status.WAITING])
def test_every_active_state_holds_the_key(status: Status, make_job: MakeJob) -> None:
    dead, active = make_job(status=Status.DEAD, dedupe_key="k"), make_job(status=status, dedupe_key="k")

    assert Job.objects.redrive([dead.pk]).refused == {dead.pk: f"blocked by #{active.pk}"}


def test_of_dead_jobs_with_one_key_only_the_newest_is_redriven(make_job: MakeJob) -> None:
    oldest, older, newest = (make_job(status=Status.DEAD, dedupe_key="k") for _ in range(3))
    other = make_job(status=Status.DEAD, dedupe_key="other")

    moved = Job.objects.redrive([oldest.pk, older.pk, newest.pk, other.pk])

    assert moved.changed == {newest.pk: Status.PENDING, other.pk: Status.PENDING}
    assert moved.refused == dict.fromkeys([oldest.pk, older.pk], f"blocked by #{newest.pk}")


def test_an_older_dead_job_is_blocked_by_a_newer_one_that_was_not_asked_for(make_job: MakeJob) -> None:
    older, newer = (make_job(status=Status.DEAD, dedupe_key="k") for _ in range(2))

    assert Job.objects.redrive([older.pk]).refused == {older.pk: f"blocked by #{newer.pk}"}


def test_an_older_job_of_the_key_that_is_done_blocks_nothing(make_job: MakeJob) -> None:
    make_job(status=Status.DONE, dedupe_key="k")
    dead = make_job(status=Status.DEAD, dedupe_key="k")
    make_job(status=Status.CANCELLED, dedupe_key="k")

    assert Job.objects.redrive([dead.pk]).changed == {dead.pk: Status.PENDING}


def test_one_id_that_is_blocked_is_an_error(make_job: MakeJob) -> None:
    dead = make_job(status=Status.DEAD, dedupe_key="k")
    holder = make_job(dedupe_key="k")

    with pytest.raises(InvalidTransition, match=f"job {dead.pk}: cannot redrive, blocked by #{holder.pk}$"):
        Job.objects.redrive(dead.pk)


def test_many_are_moved_in_batches(make_job: MakeJob, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manager, "BATCH", 3)
    jobs = JobFactory.create_batch(8, status=Status.DEAD)

    moved = Job.objects.redrive([job.pk for job in jobs])

    assert moved.changed == dict.fromkeys((job.pk for job in jobs), Status.PENDING)


def test_the_callers_transaction_keeps_its_own_lock_timeout(make_job: MakeJob) -> None:
    job = make_job()

    def lock_timeout() -> Any:
        with connection.cursor() as cursor:
            cursor.execute("SELECT current_setting('lock_timeout')")
            return cursor.fetchone()[0]

    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL lock_timeout = '7s'")
        Job.objects.cancel(job.pk)

        assert lock_timeout() == "7s"


def test_a_discarded_job_without_a_reason_keeps_its_error(make_job: MakeJob) -> None:
    job = make_job(status=Status.DEAD)

    Job.objects.discard([job.pk])

    assert Job.objects.get(pk=job.pk).last_error == "boom"


def test_a_second_cancel_keeps_the_time_of_the_first(leased: MakeJob) -> None:
    job = leased()
    Job.objects.cancel(job.pk)
    first = Job.objects.get(pk=job.pk).cancel_requested_at

    Job.objects.cancel(job.pk)

    assert Job.objects.get(pk=job.pk).cancel_requested_at == first


def test_a_cancelled_job_is_never_claimed_promoted_or_reaped(make_job: MakeJob) -> None:
    make_job(status=Status.CANCELLED, run_after=ago(1), lease_until=ago(1))

    assert (Job.objects.claim(worker_id="w"), Job.objects.promote(), Job.objects.reap()) == ([], [], {})
