"""Guards that only a second connection can miss: who waits for whom, and who steps over what."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from jobqueue import sql
from jobqueue.managers import moving
from jobqueue.models import Cost, Counter, Job, Stat, Worker
from jobqueue.states import Status
from tests.factories import CostFactory, CounterFactory, JobFactory, StatFactory, WorkerFactory, ago
from tests.races.conftest import Side
from tests.storage.test_workers import params

pytestmark = pytest.mark.django_db(transaction=True)

MakeJob = Callable[..., Job]
QUARTER = 900
IMPATIENT = "SET LOCAL lock_timeout = '300ms'"

Verb = Callable[..., Any]
RUNNING, PENDING, DEAD = Status.RUNNING, Status.PENDING, Status.DEAD
# What each changes, and how: the other job of the call is DONE.
REFUSALS: dict[str, tuple[Status, Verb]] = {
    "complete": (RUNNING, lambda side, *jobs: side.complete(*[job.fence for job in jobs])),
    "fail": (RUNNING, lambda side, *jobs: side.fail(*[job.fence for job in jobs])),
    "release": (RUNNING, lambda side, *jobs: side.release(*[job.fence for job in jobs])),
    "release_stuck": (RUNNING, lambda side, *jobs: side.release_stuck(*[job.pk for job in jobs])),
    "cancel": (PENDING, lambda side, *jobs: side.cancel(*[job.pk for job in jobs])),
    "redrive": (DEAD, lambda side, *jobs: side.redrive(*[job.pk for job in jobs])),
    "discard": (DEAD, lambda side, *jobs: side.discard(*[job.pk for job in jobs])),
    "edit": (DEAD, lambda side, *jobs: side.lock_payloads(*[job.pk for job in jobs])),
}


@pytest.mark.parametrize("verb", REFUSALS)
def test_what_is_refused_waits_for_nobody(verb: str, make_job: MakeJob, first: Side, second: Side) -> None:
    """Guard: the status where the rows are locked. Without it a late settle would wait for whoever deletes the row."""
    status, call = REFUSALS[verb]
    ended, job = make_job(status=Status.DONE), make_job(status=status, lease_until=ago(1))
    first.connection.lock(ended)

    second.run(IMPATIENT)

    assert list(call(second, ended, job)) == [job.pk]


def test_a_release_that_waits_for_another_attempt_is_refused(
    make_job: MakeJob, first: Side, second: Side, wait_until_blocked: Any
) -> None:
    """Guard: the epoch. The job was lost once more meanwhile: that is not the attempt that the person looked at."""
    job = make_job(expired=True)
    first.run("UPDATE jobqueue_job SET lease_epoch = 2, worker_id = 'worker-2' WHERE id = %s", [job.pk])

    releasing = second.start(second.release_stuck, job.pk)
    wait_until_blocked(second.pid, by=first.pid)
    first.commit()

    assert releasing.result(5) == []


def test_prune_steps_over_a_job_that_a_foreign_key_is_about_to_hold(
    make_job: MakeJob, first: Side, second: Side
) -> None:
    """Guard: FOR UPDATE. A weaker lock is compatible with the reference, and the deletion would wait for it."""
    referred, other = (make_job(status=Status.DONE, finished_at=ago(60)) for _ in range(2))
    first.connection.lock(referred, "KEY SHARE")

    second.run(IMPATIENT)

    assert second.prune(Status.DONE) == [other.pk]


FOLDED: dict[str, tuple[Any, Any, str]] = {  # with a field that tells rows of one quarter-hour apart
    "FOLD_STATS": (StatFactory, Stat, "queue"),
    "FOLD_COSTS": (CostFactory, Cost, "queue"),
    "FOLD_COUNTERS": (CounterFactory, Counter, "name"),
}


def fold(side: Side, name: str, *, limit: int = 100) -> int:
    """Fold rows as inserted into quarter-hours."""
    statement = getattr(sql, name)
    return moving.fold(side.run, statement=statement, from_span=0, to_span=QUARTER, age=timedelta(0), limit=limit)


@pytest.mark.parametrize("name", FOLDED)
def test_folding_steps_over_a_row_that_is_locked(name: str, first: Side, second: Side) -> None:
    factory, *_ = FOLDED[name]
    locked, _ = factory.create(at=ago(QUARTER)), factory.create(at=ago(QUARTER))
    first.connection.lock(locked)

    second.run(IMPATIENT)

    assert fold(second, name) == 1


@pytest.mark.parametrize("name", FOLDED)
def test_two_who_fold_at_once_take_different_rows(name: str, first: Side, second: Side) -> None:
    """Guard: the lock. Both would read all rows, and one would wait for the other to find them gone."""
    factory, model, field = FOLDED[name]
    for number in range(4):
        factory.create(at=ago(QUARTER), **{field: f"q{number}"})

    assert fold(first, name, limit=2) == 2
    second.run(IMPATIENT)
    assert fold(second, name) == 2
    first.commit()
    second.commit()

    assert model.objects.filter(span_seconds=QUARTER).count() == 4


@pytest.mark.parametrize("name", FOLDED)
def test_long_rows_are_taken_in_one_order(name: str, first: Side, second: Side, wait_until_blocked: Any) -> None:
    """Guard: the order of the insertion. Two who fold into the same quarter-hours never wait for each other.

    The first side holds the first long row and wants the others; a fold that had taken one before would be a deadlock.
    """
    factory, _, field = FOLDED[name]
    queues = [f"queue-{number:02}" for number in range(20)]
    moment = JobFactory.create().created_at.replace(minute=0, second=0, microsecond=0) - timedelta(hours=2)
    longs = [factory.create(at=moment, span_seconds=QUARTER, **{field: queue}) for queue in queues]
    for queue in reversed(queues):
        factory.create(at=moment, **{field: queue})
    first.connection.lock(longs[0])
    second.run("SET LOCAL enable_sort = off")  # rows of a group then come as a hash table has them

    folding = second.start(fold, second, name)
    wait_until_blocked(second.pid, by=first.pid)
    first.run(IMPATIENT)
    for long in longs[1:]:
        first.connection.lock(long)
    first.commit()

    assert folding.result(5) == 20


def test_a_worker_row_that_is_locked_is_left_for_the_next_time(first: Side, second: Side) -> None:
    """Guard: SKIP LOCKED. A worker that was slow, not dead, is writing its heartbeat just then."""
    slow, lost = WorkerFactory.create(heartbeat_at=ago(900)), WorkerFactory.create(heartbeat_at=ago(900))
    first.connection.lock(slow)

    second.run(IMPATIENT)

    assert second.run(sql.REMOVE_WORKERS, {"age": timedelta(minutes=10)}) == [(lost.pk,)]
    second.commit()
    assert list(Worker.objects.all()) == [slow]


def test_a_beat_that_is_sent_again_waits_for_the_one_that_is_under_way(
    first: Side, second: Side, wait_until_blocked: Any
) -> None:
    """Guard: the lock before the number is read. Both would see the old number, and both would count."""
    WorkerFactory.create(worker_id="w1")
    told = params(batch=1, counts='[{"name": "sessions", "labels": {}, "amount": 2}]')
    first.run(sql.WORKER_BEAT, told)

    again = second.start(second.run, sql.WORKER_BEAT, told)
    wait_until_blocked(second.pid, by=first.pid)
    first.commit()
    again.result(5)
    second.commit()

    assert list(Counter.objects.values_list("amount", flat=True)) == [2]


def test_two_claims_in_lock_step_charge_one_attempt(make_job: MakeJob, first: Side, second: Side) -> None:
    """Guard: the lock of the claim. Without it the second would wait, and find the job taken."""
    make_job()
    assert len(first.claim()) == 1

    second.run(IMPATIENT)

    assert second.claim() == []
