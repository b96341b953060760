"""Every change of state of design.md section 4: a test for each that is allowed, a sweep for all that are not."""

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from jobqueue.exceptions import InvalidTransition, LeaseLost
from jobqueue.managers import Fence
from jobqueue.models import Job
from jobqueue.outcomes import Outcome
from jobqueue.states import Status
from tests.factories import JobFactory, ago

pytestmark = pytest.mark.django_db

MakeJob = Callable[..., Job]


def status_of(job: Job) -> Status:
    return Status(Job.objects.get(pk=job.pk).status)


def test_claim_takes_a_pending_job_to_running(make_job: MakeJob) -> None:
    job = make_job()

    claimed = Job.objects.claim(worker_id="w")

    assert [(row.pk, row.status, row.worker_id, row.lease_epoch) for row in claimed] == [
        (job.pk, Status.RUNNING, "w", 1)
    ]
    assert claimed[0].lease_until - claimed[0].claimed_at == timedelta(seconds=120)


def test_cancel_takes_a_pending_job_to_cancelled(make_job: MakeJob) -> None:
    job = make_job()

    moved = Job.objects.cancel(job.pk, reason="not needed")

    job.refresh_from_db()
    assert moved.changed == {job.pk: Status.CANCELLED}
    assert (job.status, job.outcome, job.last_error) == (Status.CANCELLED, Outcome.CANCELLED, "not needed")
    assert job.finished_at is not None
    assert job.finished_at == job.cancel_requested_at


def test_complete_takes_a_running_job_to_done_with_its_result(leased: MakeJob) -> None:
    job = leased()

    assert Job.objects.complete(job, {"pages": 3}) == {job.pk: Status.DONE}

    job.refresh_from_db()
    assert (job.status, job.outcome, job.result) == (Status.DONE, Outcome.DONE, {"pages": 3})
    assert job.lease_until is None
    assert job.finished_at is not None


def test_release_takes_a_running_job_back_to_pending(leased: MakeJob) -> None:
    job = leased()

    assert Job.objects.release(job) == {job.pk: Status.PENDING}

    after = Job.objects.get(pk=job.pk)
    assert (after.attempts, after.worker_id, after.lease_until, after.run_after) == (0, None, None, job.run_after)


def test_release_with_a_delay_takes_a_running_job_to_scheduled(leased: MakeJob) -> None:
    job = leased()

    assert Job.objects.release(job, delay=timedelta(hours=1)) == {job.pk: Status.SCHEDULED}

    job.refresh_from_db()
    assert job.run_after - job.updated_at == timedelta(hours=1)


def test_reap_takes_a_running_job_with_attempts_left_to_pending_at_once(make_job: MakeJob) -> None:
    job = make_job(expired=True, run_after=ago(3600))

    assert Job.objects.reap() == {job.pk: Status.PENDING}

    job.refresh_from_db()
    assert job.run_after == job.updated_at, "reap sets run_after to now"


def test_reap_takes_a_running_job_without_attempts_left_to_dead(make_job: MakeJob) -> None:
    """Case C09: the worker died during the last permitted attempt."""
    job = make_job(expired=True, max_attempts=1)

    assert Job.objects.reap() == {job.pk: Status.DEAD}

    job.refresh_from_db()
    assert (job.attempts, job.outcome) == (1, Outcome.LEASE_EXPIRED)
    assert job.finished_at is not None


def test_fail_takes_a_running_job_with_attempts_left_to_scheduled_at_the_backoff(leased: MakeJob) -> None:
    job = leased()

    assert Job.objects.fail(job, ValueError("bad input")) == {job.pk: Status.SCHEDULED}

    job.refresh_from_db()
    assert 5 <= (job.run_after - job.updated_at).total_seconds() <= 6.25
    assert (job.last_error, job.outcome, job.finished_at) == ("bad input", Outcome.FAILED, None)


def test_fail_takes_a_running_job_without_attempts_left_to_dead(leased: MakeJob) -> None:
    job = leased(max_attempts=1)

    assert Job.objects.fail(job, "boom") == {job.pk: Status.DEAD}

    assert Job.objects.get(pk=job.pk).finished_at is not None


def test_fail_with_dead_takes_a_running_job_to_dead_with_attempts_left(leased: MakeJob) -> None:
    job = leased()

    assert Job.objects.fail(job, "over the limit", dead=True, outcome=Outcome.MEMORY) == {job.pk: Status.DEAD}


def test_an_interruption_takes_a_running_job_back_to_pending(leased: MakeJob, end: Callable[..., Any]) -> None:
    job = leased()

    assert end(job, outcome=Outcome.INTERRUPTED, step="interrupt") == Status.PENDING


def test_a_discard_by_the_handler_takes_a_running_job_to_cancelled(leased: MakeJob, end: Callable[..., Any]) -> None:
    job = leased()

    assert end(job, outcome=Outcome.DISCARDED, step="cancel") == Status.CANCELLED


def test_cancel_asks_the_worker_of_a_running_job(leased: MakeJob) -> None:
    job = leased()

    moved = Job.objects.cancel(job.pk)

    job.refresh_from_db()
    assert moved.changed == {job.pk: Status.RUNNING}
    assert (job.status, job.outcome, job.finished_at) == (Status.RUNNING, None, None)
    assert job.cancel_requested_at is not None


def test_redrive_takes_a_dead_job_to_pending(make_job: MakeJob) -> None:
    job = make_job(status=Status.DEAD)

    assert Job.objects.redrive(job.pk).changed == {job.pk: Status.PENDING}


def test_redrive_over_a_while_takes_a_dead_job_to_scheduled(make_job: MakeJob) -> None:
    job = make_job(status=Status.DEAD)

    moved = Job.objects.redrive(job.pk, spread=timedelta(hours=1))

    job.refresh_from_db()
    assert moved.changed == {job.pk: Status.SCHEDULED}
    assert timedelta(0) < job.run_after - job.updated_at <= timedelta(hours=1)


def test_discard_takes_a_dead_job_to_cancelled_and_keeps_the_reason(make_job: MakeJob) -> None:
    job = make_job(status=Status.DEAD)

    assert Job.objects.discard(job.pk, reason="obsolete").changed == {job.pk: Status.CANCELLED}

    job.refresh_from_db()
    assert (job.outcome, job.last_error) == (Outcome.DISCARDED, "boom [discarded: obsolete]")


def test_promote_takes_a_scheduled_job_whose_time_has_come_to_pending(make_job: MakeJob) -> None:
    due, later = make_job(status=Status.SCHEDULED, run_after=ago(1)), make_job(status=Status.SCHEDULED)

    assert Job.objects.promote() == [due.pk]

    assert (status_of(due), status_of(later)) == (Status.PENDING, Status.SCHEDULED)
    assert Job.objects.get(pk=due.pk).run_after == due.run_after, "it keeps its place in the order"


def test_promote_takes_no_more_than_its_limit_earliest_first(make_job: MakeJob) -> None:
    jobs = [make_job(status=Status.SCHEDULED, run_after=ago(seconds)) for seconds in (1, 3, 2)]

    assert sorted(Job.objects.promote(limit=2)) == [jobs[1].pk, jobs[2].pk]


def test_jobs_in_other_states_do_not_use_up_the_limit_of_a_promotion(make_job: MakeJob) -> None:
    """Guard: status = 5 inside the limit, not only in the update."""
    for status in (Status.PENDING, Status.DONE):
        make_job(status=status, run_after=ago(60))
    due = make_job(status=Status.SCHEDULED, run_after=ago(1))

    assert Job.objects.promote(limit=1) == [due.pk]


def test_cancel_takes_a_scheduled_job_to_cancelled(make_job: MakeJob) -> None:
    job = make_job(status=Status.SCHEDULED)

    assert Job.objects.cancel(job.pk).changed == {job.pk: Status.CANCELLED}


def as_leased(job: Job) -> Fence:
    """Return the fence of a row, whatever its status, as a worker that still believes in its lease would send it."""
    return Fence(job.pk, job.worker_id or "worker-1", job.lease_epoch)


CHANGES: dict[str, tuple[set[Status], Callable[[Job], Any]]] = {
    "claim": ({Status.PENDING}, lambda job: Job.objects.claim(worker_id="w")),
    "renew": ({Status.RUNNING}, lambda job: Job.objects.renew_lease(as_leased(job))),
    "complete": ({Status.RUNNING}, lambda job: Job.objects.complete(as_leased(job))),
    "fail": ({Status.RUNNING}, lambda job: Job.objects.fail(as_leased(job), "boom")),
    "release": ({Status.RUNNING}, lambda job: Job.objects.release(as_leased(job))),
    "release_stuck": ({Status.RUNNING}, lambda job: Job.objects.release_stuck(job.pk)),
    "reap": ({Status.RUNNING}, lambda job: Job.objects.reap()),
    "promote": ({Status.SCHEDULED}, lambda job: Job.objects.promote()),
    "cancel": ({Status.PENDING, Status.RUNNING, Status.SCHEDULED}, lambda job: Job.objects.cancel(job.pk)),
    "redrive": ({Status.DEAD}, lambda job: Job.objects.redrive(job.pk)),
    "discard": ({Status.DEAD}, lambda job: Job.objects.discard(job.pk)),
}
REFUSED = [(name, status) for name, (allowed, _) in CHANGES.items() for status in Status if status not in allowed]


@pytest.mark.parametrize(("name", "status"), REFUSED, ids=lambda value: getattr(value, "name", value))
def test_no_verb_changes_a_job_in_a_state_that_it_does_not_leave(name: str, status: Status) -> None:
    """Guards: the status check of each statement. Its lease is over and its time has come: nothing else holds it."""
    job = JobFactory.create(status=status, lease_until=ago(1), run_after=ago(1))
    before = Job.objects.filter(pk=job.pk).values().get()

    with suppress(LeaseLost, InvalidTransition):
        CHANGES[name][1](job)

    assert Job.objects.filter(pk=job.pk).values().get() == before


@pytest.mark.parametrize("name", ["cancel", "redrive", "discard"])
def test_a_refused_change_of_one_job_is_an_error_with_its_status(name: str, make_job: MakeJob) -> None:
    job = make_job(status=Status.DONE)

    with pytest.raises(InvalidTransition, match=f"job {job.pk}: cannot {name}, its status is DONE") as caught:
        getattr(Job.objects, name)(job.pk)

    assert (caught.value.job_id, caught.value.status, caught.value.wanted) == (job.pk, Status.DONE, name)


def test_a_change_of_a_job_that_is_gone_is_an_error_without_a_status() -> None:
    with pytest.raises(InvalidTransition, match="there is no such job") as caught:
        Job.objects.cancel(10**9)

    assert caught.value.status is None


def test_refused_changes_of_many_are_reported_and_the_others_done(make_job: MakeJob) -> None:
    waiting, done = make_job(), make_job(status=Status.DONE)

    moved = Job.objects.cancel([waiting.pk, done.pk, 10**9])

    assert moved.changed == {waiting.pk: Status.CANCELLED}
    assert moved.refused == {done.pk: "is DONE", 10**9: "no such job"}
