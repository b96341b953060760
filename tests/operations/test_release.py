"""Giving back a stuck job on a person's word: only a stuck one, and never with two owners."""

from collections.abc import Callable

import pytest

from jobqueue import operations
from jobqueue.exceptions import InvalidTransition, LeaseLost
from jobqueue.managers import moving
from jobqueue.models import Attempt, Job, Stat
from jobqueue.outcomes import Outcome
from jobqueue.states import Status
from tests.connections import SecondConnection
from tests.factories import WORKER, ago, ahead

pytestmark = pytest.mark.django_db

MakeJob = Callable[..., Job]


@pytest.mark.parametrize(
    ("fields", "released"),
    [
        ({"lease_until": ago(1)}, True),
        ({"lease_until": ahead(60)}, False),
        ({"lease_until": ahead(60), "claimed_at": ago(601)}, True),
        ({"lease_until": ahead(60), "claimed_at": ago(601), "run_started_at": ago(9)}, False),
        ({"lease_until": ahead(60), "claimed_at": ago(599)}, False),
    ],
)
def test_only_a_stuck_job_is_released(make_job: MakeJob, fields: dict[str, object], released: bool) -> None:
    job = make_job(status=Status.RUNNING, **fields)
    assert Job.objects.stuck().exists() is released

    report = operations.release([job.pk], actor="command")

    assert (job.pk in report.changed) is released
    assert Job.objects.get(pk=job.pk).status == (Status.PENDING if released else Status.RUNNING)
    if not released:
        assert report.refused == {job.pk: "is not stuck: its worker holds the lease"}


def test_a_type_with_a_long_deadline_is_stuck_later(make_job: MakeJob, settings: object) -> None:
    settings.JOBQUEUE = {"LIMITS": {"probe.sleep": {"duration": 3_000}}}  # type: ignore[attr-defined]
    fields = {"status": Status.RUNNING, "claimed_at": ago(1_000)}
    patient, other = make_job(job_type="probe.sleep", **fields), make_job(job_type="probe.ok", **fields)
    late = make_job(job_type="probe.sleep", status=Status.RUNNING, claimed_at=ago(3_061))

    report = operations.release([patient.pk, other.pk, late.pk], actor="command")

    assert report.changed == [other.pk, late.pk]


def test_what_the_old_worker_still_sends_is_refused(make_job: MakeJob) -> None:
    """The fence: without a worker in the row, and with the next epoch, nothing of the old run can be stored."""
    old = make_job(expired=True)

    operations.release([old.pk], actor="command")

    with pytest.raises(LeaseLost):
        Job.objects.complete(old, {"late": True})
    with pytest.raises(LeaseLost):
        Job.objects.renew_lease(old)
    claimed = Job.objects.claim(worker_id=WORKER)[0]
    assert claimed.lease_epoch == old.lease_epoch + 1
    with pytest.raises(LeaseLost):
        Job.objects.complete(old, {"late": True})
    assert Job.objects.complete(claimed, {"second": True}) == {old.pk: Status.DONE}


def test_the_attempt_is_given_back_written_down_and_counted(make_job: MakeJob) -> None:
    job = make_job(expired=True, attempts=3, max_attempts=3)

    operations.release([job.pk], actor="command", reason="its host is gone")

    after, attempt = Job.objects.get(pk=job.pk), Attempt.objects.get()
    assert (after.status, after.attempts, after.interruptions) == (Status.PENDING, 2, 1)
    assert (after.worker_id, after.lease_until, after.finished_at) == (None, None, None)
    assert (attempt.job_id, attempt.lease_epoch, attempt.number) == (job.pk, job.lease_epoch, 3)
    assert (attempt.worker_id, attempt.outcome) == (WORKER, Outcome.INTERRUPTED)
    assert attempt.error_text == "released by a person while it was stuck: its host is gone"
    assert list(Stat.objects.values_list("outcome", "jobs")) == [(Outcome.INTERRUPTED, 1)]


def test_an_attempt_that_is_written_down_already_does_not_stop_the_release(
    make_job: MakeJob, make_attempt: Callable[..., Attempt]
) -> None:
    """Guard: ON CONFLICT. A person's last resort works on rows too that somebody wrote by hand."""
    job = make_job(expired=True)
    make_attempt(job=job, number=1, lease_epoch=job.lease_epoch)

    assert operations.release([job.pk], actor="command").changed == [job.pk]


def test_a_stuck_job_with_a_cancel_request_is_cancelled(make_job: MakeJob) -> None:
    job = make_job(expired=True, cancel_requested_at=ago(5))

    operations.release([job.pk], actor="command")

    after = Job.objects.get(pk=job.pk)
    assert (after.status, after.outcome) == (Status.CANCELLED, Outcome.CANCELLED)
    assert after.finished_at is not None


def test_the_manager_raises_for_a_single_job_that_is_not_stuck(make_job: MakeJob) -> None:
    job = make_job(status=Status.RUNNING)

    with pytest.raises(InvalidTransition, match="cannot release, its status is RUNNING"):
        Job.objects.release_stuck(job.pk)


@pytest.mark.django_db(transaction=True)
def test_a_renewal_that_comes_first_keeps_the_job(
    make_job: MakeJob, open_connection: Callable[[], SecondConnection], wait_until_blocked: Callable[..., None]
) -> None:
    """Guard: expiry is compared again after the wait for the row, not only when the list was read."""
    job, worker, person = make_job(expired=True), open_connection(), open_connection()
    worker.execute(
        "UPDATE jobqueue_job SET lease_until = statement_timestamp() + interval '60 s' WHERE id = %s", [job.pk]
    )
    released = person.start(moving.release_stuck, person.execute, ids=[job.pk], reason="")
    wait_until_blocked(person.pid, by=worker.pid)

    worker.commit()

    assert released.result(10) == []
    person.commit()
    assert Job.objects.get(pk=job.pk).status == Status.RUNNING
