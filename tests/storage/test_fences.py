"""The fence (id, RUNNING, worker, epoch): what no longer owns a job changes nothing, and is told so (case C01)."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from jobqueue import sql
from jobqueue.exceptions import LeaseLost
from jobqueue.managers import Done, Ending, Fence, Release, leasing, settling
from jobqueue.models import Attempt, Cost, Job, Stat
from jobqueue.outcomes import Outcome
from jobqueue.states import Status
from tests.factories import ago

pytestmark = pytest.mark.django_db

MakeJob = Callable[..., Job]
run = Job.objects.run_sql
LEASE = timedelta(seconds=60)


def complete_inside(fence: Fence) -> Any:
    """Run the statement that context.complete() runs inside the handler's own transaction."""
    params = {"result": "{}", "run_seconds": 0.0, "cpu_seconds": None, "cost": "0", "cost_lines": "[]"}
    return run(sql.COMPLETE_JOB, {**fence._asdict(), **params})


# Each answers with what it changed; an empty answer is a refusal.
WRITES: dict[str, Callable[[Fence], Any]] = {
    "settle_done": lambda f: settling.settle_done(run, worker_id=f.worker_id, jobs=[Done(f.id, f.lease_epoch)]),
    "settle_ended": lambda f: settling.settle_ended(
        run, worker_id=f.worker_id, endings=[Ending(f.id, f.lease_epoch, Outcome.FAILED)]
    ),
    "release_jobs": lambda f: leasing.release(run, worker_id=f.worker_id, releases=[Release(f.id, f.lease_epoch)]),
    "complete_job": complete_inside,
    "write_progress": lambda f: run(
        sql.WRITE_PROGRESS, {"worker_id": f.worker_id, "ids": [f.id], "epochs": [f.lease_epoch], "progress": ["{}"]}
    ),
    "write_costs": lambda f: leasing.write_costs(run, worker_id=f.worker_id, costs={(f.id, f.lease_epoch): ()}),
    "renew_leases": lambda f: [
        renewal
        for renewal in leasing.renew(run, worker_id=f.worker_id, held=[(f.id, f.lease_epoch, None)], lease=LEASE)
        if renewal.verdict != "lost"
    ],
}


@pytest.mark.parametrize("name", WRITES)
def test_the_owner_of_the_lease_is_let_through(name: str, leased: MakeJob) -> None:
    assert WRITES[name](leased().fence)


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize(
    "stale",
    [
        pytest.param({"worker_id": "worker-2"}, id="another worker"),
        pytest.param({"lease_epoch": 0}, id="an earlier epoch"),
        pytest.param({"lease_epoch": 2}, id="a later epoch"),
    ],
)
def test_a_stale_fence_changes_nothing(name: str, stale: dict[str, Any], leased: MakeJob) -> None:
    """Guards: worker_id and lease_epoch in the WHERE of each fenced statement."""
    job = leased()
    before = Job.objects.filter(pk=job.pk).values().get()

    assert not WRITES[name](job.fence._replace(**stale))

    assert Job.objects.filter(pk=job.pk).values().get() == before
    assert [model.objects.count() for model in (Attempt, Stat, Cost)] == [0, 0, 0]


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("status", [status for status in Status if status != Status.RUNNING])
def test_a_job_that_is_not_running_is_not_written(name: str, status: Status, make_job: MakeJob) -> None:
    """Guards: status = 2 in the WHERE of each fenced statement; worker and epoch are still those of the lease."""
    job = make_job(status=status, worker_id="worker-1", lease_epoch=1)
    before = Job.objects.filter(pk=job.pk).values().get()

    assert not WRITES[name](job.fence)

    assert Job.objects.filter(pk=job.pk).values().get() == before


@pytest.mark.parametrize("verb", ["complete", "release", "renew_lease"])
def test_a_single_lost_lease_is_an_error(verb: str, leased: MakeJob) -> None:
    job = leased()
    stale = job.fence._replace(worker_id="worker-2")

    with pytest.raises(LeaseLost, match=f"job {job.pk}: lease 1 is no longer held") as caught:
        getattr(Job.objects, verb)(stale)

    assert (caught.value.job_id, caught.value.lease_epoch) == (job.pk, 1)


def test_fail_of_a_single_lost_lease_is_an_error(leased: MakeJob) -> None:
    with pytest.raises(LeaseLost):
        Job.objects.fail(leased().fence._replace(lease_epoch=7), "boom")


def test_of_many_jobs_those_still_held_are_settled_and_the_lost_ones_left_out(leased: MakeJob) -> None:
    mine, lost, other_workers = leased(), leased(), leased(worker_id="worker-2")

    settled = Job.objects.complete([mine, lost.fence._replace(lease_epoch=9), other_workers])

    assert settled == {mine.pk: Status.DONE, other_workers.pk: Status.DONE}
    assert Job.objects.get(pk=lost.pk).status == Status.RUNNING


def test_renewals_of_many_answer_each(leased: MakeJob, make_job: MakeJob) -> None:
    mine, lost, asked = leased(), leased(), leased(cancel_requested_at=ago(1))

    renewals = Job.objects.renew_lease([mine, lost.fence._replace(lease_epoch=9), asked])

    assert {(row.id, row.verdict, row.cancel) for row in renewals} == {
        (mine.pk, "renewed", False),
        (lost.pk, "lost", False),
        (asked.pk, "renewed", True),
    }


def test_the_epoch_grows_with_every_claim_and_with_nothing_else(make_job: MakeJob, quiet: None) -> None:
    """Case C01, C33: release, retry, reap and redrive never bring an epoch back that a worker may still hold."""
    job = make_job(max_attempts=2)
    epochs = []

    def claim_again() -> Job:
        Job.objects.filter(pk=job.pk, status=Status.SCHEDULED).update(status=Status.PENDING)
        (claimed,) = Job.objects.claim(worker_id="w")
        epochs.append(claimed.lease_epoch)
        return claimed

    Job.objects.release(claim_again())
    Job.objects.fail(claim_again(), "boom")
    claim_again()
    Job.objects.filter(pk=job.pk).update(lease_until=ago(1))
    Job.objects.reap()
    Job.objects.redrive(job.pk)
    Job.objects.complete(claim_again())

    assert epochs == [1, 2, 3, 4]


def test_a_repeated_complete_is_accepted(leased: MakeJob) -> None:
    """The answer to the first one's COMMIT was lost: the worker sends it again and hears the truth."""
    job = leased()
    Job.objects.complete(job, {"first": True})

    assert Job.objects.complete(job, {"second": True}) == {job.pk: Status.DONE}

    assert Job.objects.get(pk=job.pk).result == {"first": True}
    assert Stat.objects.count() == 1


@pytest.mark.parametrize("max_attempts", [1, 3])
def test_a_repeated_fail_is_accepted(max_attempts: int, leased: MakeJob) -> None:
    job = leased(max_attempts=max_attempts)
    first = Job.objects.fail(job, "boom")

    assert Job.objects.fail(job, "boom") == first

    assert Attempt.objects.filter(job=job).count() == 1


def test_a_fail_after_the_handler_completed_itself_is_success(leased: MakeJob) -> None:
    """Effects once: the block with context.complete() committed, then the child died."""
    job = leased()
    complete_inside(job.fence)

    assert Job.objects.fail(job, "child died") == {job.pk: Status.DONE}

    assert Attempt.objects.count() == 0


def test_a_complete_after_the_attempt_had_failed_is_refused(leased: MakeJob) -> None:
    job = leased()
    Job.objects.fail(job, "boom")

    with pytest.raises(LeaseLost):
        Job.objects.complete(job)

    assert Job.objects.get(pk=job.pk).status == Status.SCHEDULED


@pytest.mark.parametrize("verb", ["complete", "fail"])
def test_a_repeated_settle_after_a_reap_is_refused(verb: str, make_job: MakeJob) -> None:
    """Guard: reap clears the worker, by which a settle recognises its own end."""
    job = make_job(expired=True, max_attempts=1)
    Job.objects.reap()

    with pytest.raises(LeaseLost):
        getattr(Job.objects, verb)(job, "late")

    assert Job.objects.get(pk=job.pk).status == Status.DEAD


@pytest.mark.parametrize("verb", ["complete", "fail"])
def test_a_repeated_settle_after_a_release_is_refused(verb: str, leased: MakeJob) -> None:
    """Guard: release clears the worker."""
    job = leased()
    Job.objects.release(job)

    with pytest.raises(LeaseLost):
        getattr(Job.objects, verb)(job, "late")

    assert Job.objects.get(pk=job.pk).status == Status.PENDING


def test_accepted_before_looks_at_worker_and_epoch(leased: MakeJob) -> None:
    """Guards: each of the three comparisons in accepted_before()."""
    done, running = leased(), leased()
    Job.objects.complete(done)

    def accepted(worker_id: str, *items: tuple[int, int]) -> dict[int, int]:
        return settling.accepted_before(run, worker_id=worker_id, items=items)

    assert accepted("worker-1", (done.pk, 1), (running.pk, 1)) == {done.pk: Status.DONE}
    assert accepted("worker-2", (done.pk, 1)) == {}
    assert accepted("worker-1", (done.pk, 2)) == {}
