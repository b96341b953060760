"""Many rows in opposite orders: both sides get their way, nobody is chosen as a deadlock's victim (case C111)."""

import threading
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import pytest
from django.db import OperationalError, connection, connections, transaction

from jobqueue import sql
from jobqueue.managers import Done, copying
from jobqueue.managers import jobs as manager
from jobqueue.managers.settling import settle_done, settle_split, sqlstate
from jobqueue.models import Job
from jobqueue.states import Status
from tests.connections import SecondConnection, Watcher
from tests.factories import JobFactory, ago
from tests.races.conftest import Side

pytestmark = pytest.mark.django_db(transaction=True)


def together(*calls: Callable[[], Any]) -> list[BaseException]:
    """Run all calls at once in threads of their own; return what they raised."""
    errors: list[BaseException] = []
    barrier = threading.Barrier(len(calls))

    def one(call: Callable[[], Any]) -> None:
        try:
            barrier.wait()
            call()
        except BaseException as error:
            errors.append(error)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=one, args=[call]) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


Verb = Callable[[Side, Sequence[Job]], Any]
VERBS: dict[str, tuple[Status, Verb]] = {
    "complete": (Status.RUNNING, lambda side, jobs: side.complete(*[job.fence for job in jobs])),
    "fail": (Status.RUNNING, lambda side, jobs: side.fail(*[job.fence for job in jobs])),
    "release": (Status.RUNNING, lambda side, jobs: side.release(*[job.fence for job in jobs])),
    "release_stuck": (Status.RUNNING, lambda side, jobs: side.release_stuck(*[job.pk for job in jobs])),
    "cancel": (Status.RUNNING, lambda side, jobs: side.cancel(*[job.pk for job in jobs])),
    "redrive": (Status.DEAD, lambda side, jobs: side.redrive(*[job.pk for job in jobs])),
    "discard": (Status.DEAD, lambda side, jobs: side.discard(*[job.pk for job in jobs])),
    "edit": (Status.DEAD, lambda side, jobs: side.lock_payloads(*[job.pk for job in jobs])),
}
PAIRS = [
    ("complete", "cancel"),
    ("cancel", "complete"),
    ("fail", "complete"),
    ("release", "cancel"),
    ("release_stuck", "cancel"),
    ("redrive", "discard"),
    ("discard", "redrive"),
    ("edit", "redrive"),
]


@pytest.mark.parametrize("pair", PAIRS, ids=" and ".join)
def test_two_batches_of_the_same_rows_wait_for_each_other_in_id_order(
    pair: tuple[str, str], first: Side, second: Side, side: Callable[[], Side], watcher: Watcher
) -> None:
    """Guard: ORDER BY id before the lock of the first verb of the pair.

    The rows lie in the table, and are named, in the order 2, 3, 1, and a gate holds 3. In id order the first side has
    1 and 2 by then, and the second waits for it. In any other order it has 2 and will want 1, which the second has.
    """
    status, one = VERBS[pair[0]]
    jobs = JobFactory.create_batch(3, status=status, lease_until=ago(1))
    Job.objects.filter(pk=jobs[0].pk).update(owner="moved to the end of the table")
    given = [jobs[1], jobs[2], jobs[0]]
    for each in (first, second):
        # An index would sort them by id, and a nested loop would follow a list that is sorted but not locked.
        for way in ("indexscan", "bitmapscan", "nestloop", "mergejoin"):
            each.run(f"SET enable_{way} = off")
        each.commit()
    gate = side()
    gate.connection.lock(jobs[2])

    ahead = first.start(one, first, given)
    watcher.wait_until_blocked(first.pid, by=gate.pid)
    behind = second.start(VERBS[pair[1]][1], second, given)
    watcher.wait_until_blocked(second.pid, by=first.pid)
    gate.commit()

    assert len(ahead.result(5)) == 3
    first.commit()
    behind.result(5)
    second.commit()


def test_renewals_and_settles_in_any_order_never_deadlock() -> None:
    """Unordered renewals and settles gave nine deadlocks in ten seconds. Guards: ORDER BY id in both."""
    jobs = JobFactory.create_batch(60, status=Status.RUNNING)
    backwards = list(reversed(jobs))

    def renew() -> None:
        for _ in range(15):
            Job.objects.renew_lease(backwards)

    def settle() -> None:
        for start in range(0, 60, 4):
            Job.objects.complete(backwards[start : start + 4])

    def cancel() -> None:
        for start in range(0, 60, 4):
            Job.objects.cancel([job.pk for job in jobs[start : start + 4]])

    assert together(renew, settle, cancel) == []
    assert Job.objects.filter(status=Status.DONE).count() == 60


def test_two_bulk_enqueues_of_the_same_keys_in_opposite_order_both_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Case C111: 400 keys, in chunks, while a worker finishes them. Guard: one order of keys in all chunks."""
    monkeypatch.setattr(copying, "CHUNK", 50)
    # Upper and lower case, where a linguistic collation and the order of the bytes disagree.
    keys = [f"{letter}{number:03}" for number in range(100) for letter in "aBcD"]
    done = threading.Event()

    def enqueue(order: list[str]) -> None:
        for _ in range(6):
            Job.objects.enqueue_many([{"job_type": "probe.ok", "dedupe_key": key} for key in order])

    def work() -> None:
        for number in count():
            batch = Job.objects.claim(40, worker_id=f"w{number}")
            if not batch and done.is_set():
                return
            if batch:
                Job.objects.complete(batch)

    worker_errors: list[BaseException] = []
    worker = threading.Thread(target=lambda: worker_errors.extend(together(work)))
    worker.start()
    errors = together(lambda: enqueue(keys), lambda: enqueue(keys[::-1]))
    done.set()
    worker.join()

    assert errors + worker_errors == []
    assert not Job.objects.exclude(status=Status.DONE).exists()


def test_a_bulk_enqueue_takes_keys_in_one_order_whatever_the_database_sorts_by(
    first: Side, second: Side, watcher: Watcher
) -> None:
    """Guard: COLLATE "C" in insert_jobs. B comes before a by bytes, after it in most languages.

    The first side holds B, then wants a; a second that had taken a first and waited for B would be a deadlock.
    """
    insert = "INSERT INTO jobqueue_job (job_type, dedupe_key) VALUES ('probe.ok', %s)"
    first.run(insert, ["B"])

    def many() -> list[Any]:
        try:
            return Job.objects.enqueue_many([{"job_type": "probe.ok", "dedupe_key": key} for key in ("a", "B")])
        finally:
            connection.close()

    waiting = second.start(many)
    watcher.wait_until_any_blocked(by=first.pid)
    first.run("SET LOCAL lock_timeout = '1s'")
    first.run(insert, ["a"])
    first.commit()

    assert waiting.result(5) == [None, None]
    assert 'ORDER BY dedupe_key COLLATE "C"' in sql.INSERT_JOBS


def test_redriven_keys_are_taken_in_the_order_of_a_bulk_enqueue(
    first: Side, second: Side, watcher: Watcher, make_job: Callable[..., Job]
) -> None:
    """Guard: the update of redrive_jobs goes by key, not by id: an enqueue with both keys would be its deadlock."""
    JobFactory.create_batch(300, status=Status.DONE)
    jobs = [make_job(status=Status.DEAD, dedupe_key=key) for key in ("b", "a")]
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE jobqueue_job")
    first.run("INSERT INTO jobqueue_job (job_type, dedupe_key) VALUES ('probe.ok', 'a')")

    redriving = second.start(second.redrive, *[job.pk for job in jobs])
    watcher.wait_until_blocked(second.pid, by=first.pid)
    first.run("SET LOCAL lock_timeout = '1s'")
    first.run("INSERT INTO jobqueue_job (job_type, dedupe_key) VALUES ('probe.ok', 'b')")
    first.rollback()

    assert len(redriving.result(5)) == 2


def test_a_settle_that_meets_a_locked_row_is_split_until_that_row_stands_alone(
    second_connection: SecondConnection,
) -> None:
    jobs = JobFactory.create_batch(8, status=Status.RUNNING)
    second_connection.lock(jobs[5])
    left: list[tuple[int, str | None]] = []

    def settle(batch: Sequence[Done]) -> dict[int, int]:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL lock_timeout = '20ms'")
            return settle_done(Job.objects.run_sql, worker_id="worker-1", jobs=batch)

    def refuse(job: Done, error: Exception) -> dict[int, int]:
        left.append((job.id, sqlstate(error)))
        return {}

    settled = settle_split(settle, [Done(job.pk, 1) for job in jobs], refuse=refuse)

    assert left == [(jobs[5].pk, "55P03")]
    assert set(settled) == {job.pk for job in jobs} - {jobs[5].pk}


@pytest.mark.parametrize("verb", ["cancel", "redrive", "discard"])
def test_a_locked_row_is_named_and_the_others_are_moved(
    verb: str, second_connection: SecondConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guard: lock_timeout. Somebody's open transaction costs one row, not the whole action."""
    monkeypatch.setattr(manager, "LOCK_TIMEOUT", "20ms")
    jobs = JobFactory.create_batch(5, status=Status.PENDING if verb == "cancel" else Status.DEAD)
    second_connection.lock(jobs[2])

    moved = getattr(Job.objects, verb)([job.pk for job in jobs])

    assert moved.refused == {jobs[2].pk: "is locked by another transaction: try again"}
    assert set(moved.changed) == {job.pk for job in jobs} - {jobs[2].pk}


def test_another_error_of_the_database_is_not_taken_for_a_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql, "CANCEL_JOBS", "SELECT pg_sleep(5), %(ids)s, %(reason)s")

    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL statement_timeout = '50ms'")
        with pytest.raises(OperationalError, match="statement timeout"):
            Job.objects.cancel([1, 2, 3])
