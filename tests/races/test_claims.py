"""Claims meet locks: step over a row locked elsewhere, but not over one that a foreign key of the project holds."""

import threading
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, connections, transaction

from jobqueue import operations, sql
from jobqueue.managers import leasing
from jobqueue.models import Job
from jobqueue.states import Status
from tests.connections import SecondConnection
from tests.factories import ago
from tests.races.conftest import Side

pytestmark = pytest.mark.django_db(transaction=True)

MakeJob = Callable[..., Job]


def claim(limit: int = 10, lock_timeout: str = "500ms") -> list[int]:
    """Claim through the manager, where waiting for a row would fail."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT set_config('lock_timeout', %s, true)", [lock_timeout])
        return [job.pk for job in Job.objects.claim(limit, worker_id="w")]


def test_claim_steps_over_a_row_locked_elsewhere(make_job: MakeJob, second_connection: SecondConnection) -> None:
    """Guard: SKIP LOCKED. FOR UPDATE alone gives right answers and no parallelism; only the lock_timeout notices."""
    held, free = make_job(), make_job()
    second_connection.lock(held)

    assert claim() == [free.pk]


def test_two_claims_at_once_take_different_jobs(make_job: MakeJob, first: Side, second: Side) -> None:
    jobs = [make_job().pk for _ in range(4)]

    assert (first.claim(2), second.claim(2)) == (jobs[:2], jobs[2:])


def test_claim_does_not_step_over_a_row_that_a_foreign_key_holds(
    make_job: MakeJob, second_connection: SecondConnection
) -> None:
    """Guard: FOR NO KEY UPDATE. A project's open transaction with a new reference holds FOR KEY SHARE on the job."""
    job = make_job()
    second_connection.lock(job, "KEY SHARE")

    assert claim() == [job.pk]


LEASED = ["complete", "fail", "release", "release_stuck", "renew_lease", "progress", "costs", "strays", "reap"]
OTHERS = {
    "promote": Status.SCHEDULED,
    "cancel": Status.PENDING,
    "redrive": Status.DEAD,
    "discard": Status.DEAD,
    "edit": Status.DEAD,
}
VERBS = [*LEASED, *OTHERS]
EDIT = operations.FieldEdit(kind="set", path=("n",), value=1)


@pytest.mark.parametrize("verb", VERBS)
def test_no_verb_waits_for_a_foreign_key_of_the_project(
    verb: str, make_job: MakeJob, second_connection: SecondConnection
) -> None:
    """Guard: FOR NO KEY UPDATE, and no update of a key column, in every statement."""
    status = OTHERS.get(verb, Status.RUNNING)
    job = make_job(status=status, lease_until=ago(1), run_after=ago(1))
    second_connection.lock(job, "KEY SHARE")
    calls: dict[str, Callable[[], Any]] = {
        "complete": lambda: Job.objects.complete(job),
        "fail": lambda: Job.objects.fail(job, "boom"),
        "release": lambda: Job.objects.release(job),
        "renew_lease": lambda: Job.objects.renew_lease(job)[0].verdict == "renewed",
        "progress": lambda: Job.objects.run_sql(
            sql.WRITE_PROGRESS, {"worker_id": job.worker_id, "ids": [job.pk], "epochs": [1], "progress": ["{}"]}
        ),
        "costs": lambda: leasing.write_costs(Job.objects.run_sql, worker_id="worker-1", costs={(job.pk, 1): ()}),
        "strays": lambda: leasing.release_strays(Job.objects.run_sql, worker_id="worker-1", held=[]),
        "reap": Job.objects.reap,
        "promote": Job.objects.promote,
        "cancel": lambda: Job.objects.cancel([job.pk]).changed,
        "redrive": lambda: Job.objects.redrive([job.pk]).changed,
        "discard": lambda: Job.objects.discard([job.pk]).changed,
        "edit": lambda: operations.edit_field(job.pk, EDIT, actor="command", retry=False).changed,
        "release_stuck": lambda: Job.objects.release_stuck([job.pk]).changed,
    }

    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL lock_timeout = '500ms'")
        assert calls[verb]()


def test_a_claim_whose_job_was_taken_meanwhile_leaves_it_out(make_job: MakeJob, first: Side, second: Side) -> None:
    job = make_job()
    first.claim()
    first.commit()

    assert second.claim() == []
    assert Job.objects.get(pk=job.pk).attempts == 1


def test_progress_of_a_locked_job_is_left_for_the_next_time(make_job: MakeJob, first: Side, second: Side) -> None:
    """Guard: SKIP LOCKED in write_progress. Only a settle ever waits for a row."""
    locked, free = make_job(status=Status.RUNNING), make_job(status=Status.RUNNING)
    first.connection.lock(locked)

    params = {"worker_id": "worker-1", "ids": [locked.pk, free.pk], "epochs": [1, 1], "progress": ["{}", "{}"]}
    assert second.run(sql.WRITE_PROGRESS, params) == [(free.pk,)]


def test_costs_of_a_locked_job_are_left_for_the_next_time(make_job: MakeJob, first: Side, second: Side) -> None:
    """Guard: SKIP LOCKED in write_costs. The heartbeat must not wait: it has leases to renew."""
    locked, free = make_job(status=Status.RUNNING), make_job(status=Status.RUNNING)
    first.connection.lock(locked)

    written = leasing.write_costs(second.run, worker_id="worker-1", costs={(locked.pk, 1): (), (free.pk, 1): ()})

    assert written == {free.pk}


def test_strays_that_are_locked_are_stepped_over(make_job: MakeJob, first: Side, second: Side) -> None:
    locked, free = make_job(status=Status.RUNNING), make_job(status=Status.RUNNING)
    first.connection.lock(locked)

    assert leasing.release_strays(second.run, worker_id="worker-1", held=[]) == [free.pk]


def test_a_crowd_of_claimers_takes_each_job_once(make_job: MakeJob) -> None:
    """Case C32: eight claimers until dry; ids unique and complete, one attempt each."""
    jobs = Job.objects.enqueue_many([("probe.ok", {"n": n}) for n in range(1_200)])
    taken: list[int] = []
    errors: list[BaseException] = []
    barrier = threading.Barrier(8)

    def drain(worker_id: str) -> None:
        try:
            barrier.wait()
            while batch := Job.objects.claim(7, worker_id=worker_id, lease=timedelta(seconds=60)):
                taken.extend(job.pk for job in batch)
                Job.objects.complete(batch)
        except BaseException as error:
            errors.append(error)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=drain, args=[f"w{number}"]) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []
    assert [count for count in Counter(taken).values() if count > 1] == []
    assert set(taken) == {job.pk for job in jobs if job}
    assert Counter(Job.objects.values_list("status", "attempts", "lease_epoch")) == {(Status.DONE, 1, 1): 1_200}
