"""Pairs in lock-step: the first side has changed the row and not committed, the second comes, then the first decides.

Steps of the second side that may wait run in a thread; the server says when they do (pg_blocking_pids).
"""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from jobqueue import sql
from jobqueue.models import Attempt, Job, Stat
from jobqueue.states import Status
from tests.connections import Watcher
from tests.factories import ago
from tests.races.conftest import Side

pytestmark = pytest.mark.django_db(transaction=True)

MakeJob = Callable[..., Job]
StatusOf = Callable[[Job], int]
Wait = Callable[..., None]


@pytest.fixture
def leased(make_job: MakeJob) -> MakeJob:
    """Return the function that inserts a job leased to worker-1 under epoch 1."""
    return lambda **fields: make_job(status=Status.RUNNING, **fields)


def test_reap_steps_over_a_job_that_is_being_completed(
    make_job: MakeJob, first: Side, second: Side, status_of: StatusOf
) -> None:
    """Case C04: finished with an expired lease, not committed; the tick must skip it, and find nothing later."""
    job = make_job(expired=True)
    assert first.complete(job.fence) == {job.pk: Status.DONE}

    assert second.reap() == {}
    first.commit()
    assert [second.reap() for _ in range(3)] == [{}, {}, {}]

    assert (status_of(job), Attempt.objects.count()) == (Status.DONE, 0)


def test_reap_finds_the_job_again_when_the_completion_is_rolled_back(
    make_job: MakeJob, first: Side, second: Side
) -> None:
    job = make_job(expired=True)
    first.complete(job.fence)
    first.rollback()

    assert second.reap() == {job.pk: Status.PENDING}


@pytest.mark.parametrize("settle", ["complete", "fail"])
def test_a_settle_waits_for_a_reap_and_is_refused(
    settle: str, make_job: MakeJob, first: Side, second: Side, wait_until_blocked: Wait, status_of: StatusOf
) -> None:
    """Guards: worker_id and epoch are looked at again after the wait (the row's newest version)."""
    job = make_job(expired=True)
    assert first.reap() == {job.pk: Status.PENDING}

    late = second.start(getattr(second, settle), job.fence)
    wait_until_blocked(second.pid, by=first.pid)
    first.commit()

    assert late.result(5) == {}
    second.commit()
    assert (status_of(job), Stat.objects.count(), Attempt.objects.count()) == (Status.PENDING, 1, 1)


def test_of_two_completions_of_one_attempt_one_is_counted(
    leased: MakeJob, first: Side, second: Side, wait_until_blocked: Wait
) -> None:
    job = leased()
    assert first.complete(job.fence) == {job.pk: Status.DONE}

    repeated = second.start(second.complete, job.fence)
    wait_until_blocked(second.pid, by=first.pid)
    first.commit()

    assert repeated.result(5) == {}
    second.commit()
    assert Stat.objects.count() == 1
    assert Job.objects.complete(job) == {job.pk: Status.DONE}, "the worker asks again, and hears that it was accepted"


def test_the_second_completion_is_accepted_when_the_first_is_rolled_back(
    leased: MakeJob, first: Side, second: Side, wait_until_blocked: Wait
) -> None:
    job = leased()
    first.complete(job.fence)

    repeated = second.start(second.complete, job.fence)
    wait_until_blocked(second.pid, by=first.pid)
    first.rollback()

    assert repeated.result(5) == {job.pk: Status.DONE}


def test_renew_says_locked_while_the_row_is_held_and_lost_once_it_is_reaped(
    make_job: MakeJob, first: Side, second: Side
) -> None:
    """No worker statement but settle waits for a row. Guard: SKIP LOCKED in renew_leases."""
    job = make_job(expired=True)
    first.reap()

    assert second.renew(job.fence) == {job.pk: "locked"}
    second.commit()
    first.commit()
    assert second.renew(job.fence) == {job.pk: "lost"}


def test_reap_steps_over_a_lease_that_is_being_renewed(
    make_job: MakeJob, first: Side, second: Side, status_of: StatusOf
) -> None:
    """Guards: SKIP LOCKED in reap_jobs, and the expiry in its own WHERE."""
    job = make_job(expired=True)
    assert first.renew(job.fence) == {job.pk: "renewed"}

    assert second.reap() == {}
    second.commit()
    first.commit()
    assert (second.reap(), status_of(job)) == ({}, Status.RUNNING)


def test_reap_sees_a_renewal_that_committed_after_its_snapshot(
    make_job: MakeJob, first: Side, second: Side, status_of: StatusOf, wait_until_blocked: Wait
) -> None:
    """Case C04. Guard: the expiry is checked on the row's newest version.

    The reaper's snapshot is older than the renewal: a function it calls for the first row waits meanwhile.
    """
    gate, job = make_job(status=Status.DONE), make_job(expired=True)
    second.run(
        """
        CREATE FUNCTION pg_temp.at_the_gate(job_id bigint) RETURNS bool LANGUAGE plpgsql AS
        $$BEGIN PERFORM 1 FROM jobqueue_job WHERE id = job_id FOR SHARE; RETURN true; END$$
        """
    )
    first.run("SELECT 1 FROM jobqueue_job WHERE id = %s FOR UPDATE", [gate.pk])
    slow = sql.REAP_JOBS.replace(
        "WITH expired AS", f"WITH gate AS MATERIALIZED (SELECT pg_temp.at_the_gate({gate.pk}) AS passed), expired AS"
    ).replace(
        "FROM jobqueue_job\n     WHERE status = 2",
        "FROM jobqueue_job\n     WHERE (SELECT passed FROM gate) AND status = 2",
    )
    assert slow.count("gate") >= 3

    reaping = second.start(second.run, slow, {"take": 10, "skip": [], "notices": False, "unit": "USD"})
    wait_until_blocked(second.pid, by=first.pid)
    Job.objects.renew_lease(job)
    first.commit()

    assert reaping.result(5) == []
    second.commit()
    assert status_of(job) == Status.RUNNING


def test_a_cancel_that_waits_for_a_claim_asks_the_worker(
    make_job: MakeJob, first: Side, second: Side, wait_until_blocked: Wait
) -> None:
    """The row was PENDING when the cancel looked and is RUNNING when it gets it. Guard: the update asks the row."""
    job = make_job()
    assert first.claim() == [job.pk]

    cancelling = second.start(second.cancel, job.pk)
    wait_until_blocked(second.pid, by=first.pid)
    first.commit()

    assert cancelling.result(5) == {job.pk: Status.RUNNING}
    second.commit()
    job.refresh_from_db()
    assert (job.status, job.cancel_requested_at is None) == (Status.RUNNING, False)


def test_claim_steps_over_a_job_that_is_being_cancelled(
    make_job: MakeJob, first: Side, second: Side, status_of: StatusOf
) -> None:
    job = make_job()
    assert first.cancel(job.pk) == {job.pk: Status.CANCELLED}

    assert second.claim() == []
    second.commit()
    first.commit()
    assert (second.claim(), status_of(job)) == ([], Status.CANCELLED)


def test_a_cancel_that_waits_for_a_completion_is_refused(
    leased: MakeJob, first: Side, second: Side, wait_until_blocked: Wait, status_of: StatusOf
) -> None:
    """Case C80: a success that won the race stays DONE."""
    job = leased()
    first.complete(job.fence)

    cancelling = second.start(second.cancel, job.pk)
    wait_until_blocked(second.pid, by=first.pid)
    first.commit()

    assert cancelling.result(5) == {}
    second.commit()
    assert status_of(job) == Status.DONE


def test_a_failure_that_waits_for_a_cancel_is_no_retry(
    leased: MakeJob, first: Side, second: Side, wait_until_blocked: Wait
) -> None:
    """Case C80: the request is read from the row's newest version."""
    job = leased()
    first.cancel(job.pk)

    failing = second.start(second.fail, job.fence)
    wait_until_blocked(second.pid, by=first.pid)
    first.commit()

    assert failing.result(5) == {job.pk: Status.CANCELLED}


def test_of_two_redrives_one_does_it(
    make_job: MakeJob, first: Side, second: Side, wait_until_blocked: Wait, status_of: StatusOf
) -> None:
    """Guard: status = 4 after the wait."""
    job = make_job(status=Status.DEAD)
    assert first.redrive(job.pk) == {job.pk: Status.PENDING}

    again = second.start(second.redrive, job.pk)
    wait_until_blocked(second.pid, by=first.pid)
    first.commit()

    assert again.result(5) == {}
    second.commit()
    assert status_of(job) == Status.PENDING


def test_a_redrive_that_waits_for_a_discard_is_refused(
    make_job: MakeJob, first: Side, second: Side, wait_until_blocked: Wait, status_of: StatusOf
) -> None:
    job = make_job(status=Status.DEAD)
    first.discard(job.pk)

    redriving = second.start(second.redrive, job.pk)
    wait_until_blocked(second.pid, by=first.pid)
    first.commit()

    assert redriving.result(5) == {}
    second.commit()
    assert status_of(job) == Status.CANCELLED


def test_a_redrive_whose_key_is_taken_meanwhile_is_refused(
    make_job: MakeJob, first: Side, second: Side, watcher: Watcher
) -> None:
    """Case C37: the manager catches the race in its savepoint and names who holds the key now."""
    older = make_job(status=Status.DEAD, dedupe_key="k")
    first.run("INSERT INTO jobqueue_job (job_type, dedupe_key) VALUES ('probe.ok', 'k')")

    def redrive() -> Any:
        try:
            return Job.objects.redrive([older.pk])
        finally:
            connection.close()

    redriving = second.start(redrive)
    watcher.wait_until_any_blocked(by=first.pid)
    first.commit()

    moved = redriving.result(5)
    assert moved.changed == {}
    assert moved.refused == {older.pk: "its key was taken meanwhile"}


def test_promote_steps_over_a_job_that_is_being_cancelled(
    make_job: MakeJob, first: Side, second: Side, status_of: StatusOf
) -> None:
    """Guard: SKIP LOCKED in promote_jobs."""
    job, other = (make_job(status=Status.SCHEDULED, run_after=ago(1)) for _ in range(2))
    first.cancel(job.pk)

    assert second.promote() == [other.pk]
    second.commit()
    first.commit()
    assert (second.promote(), status_of(job)) == ([], Status.CANCELLED)


def test_a_cancel_that_waits_for_a_promotion_cancels_the_due_job(
    make_job: MakeJob, first: Side, second: Side, wait_until_blocked: Wait, status_of: StatusOf
) -> None:
    job = make_job(status=Status.SCHEDULED, run_after=ago(1))
    assert first.promote() == [job.pk]

    cancelling = second.start(second.cancel, job.pk)
    wait_until_blocked(second.pid, by=first.pid)
    first.commit()

    assert cancelling.result(5) == {job.pk: Status.CANCELLED}
    second.commit()
    assert status_of(job) == Status.CANCELLED


def test_prune_steps_over_a_job_that_is_being_redriven(
    make_job: MakeJob, first: Side, second: Side, status_of: StatusOf
) -> None:
    """Guard: SKIP LOCKED in prune_jobs."""
    job, other = (make_job(status=Status.DEAD, finished_at=ago(60)) for _ in range(2))
    first.redrive(job.pk)

    assert second.prune(Status.DEAD) == [other.pk]
    second.commit()
    first.commit()
    assert (second.prune(Status.DEAD), status_of(job)) == ([], Status.PENDING)


def test_an_edit_waits_for_a_redrive_and_is_refused(
    make_job: MakeJob, first: Side, second: Side, wait_until_blocked: Wait
) -> None:
    """Guard: the lock. What is read without it is edited although the job was put back meanwhile, and may run."""
    job = make_job(status=Status.DEAD)
    assert first.redrive(job.pk) == {job.pk: Status.PENDING}

    editing = second.start(second.lock_payloads, job.pk)
    wait_until_blocked(second.pid, by=first.pid)
    first.commit()

    assert editing.result(5) == []
