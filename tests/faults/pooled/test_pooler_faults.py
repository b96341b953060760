"""The pooler itself fails: killed, paused, used up. Workers hold on, and nothing is lost or done twice."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from time import monotonic

import psycopg
import pytest
from django.db import connection

from jobqueue.models import Attempt, Job
from jobqueue.outcomes import Outcome
from jobqueue.states import Status
from tests.factories import JobFactory, ago, ahead
from tests.faults.measured import Recovery
from tests.faults.pgbouncer import PgBouncer
from tests.worker import processes
from tests.worker.effects import Effects
from tests.worker.kinds import Enqueue, Launch, WaitFor
from tests.worker.test_outcomes import finished
from tests.worker.waiting import holds_for, until

from .test_pgbouncer import database

CONNECT_AGAIN_WITHIN = 10  # docs/guarantees.md: 5 s
STATEMENT_TIMEOUT = 2
CUT_AFTER = STATEMENT_TIMEOUT + 3


def test_a_pooler_that_is_killed_under_load_costs_no_job(
    launch: Launch, enqueue: Enqueue, effects: Effects, pooler: PgBouncer, recovery: Recovery
) -> None:
    """C68, C25: three times away for two seconds; what ran ends once, what waited starts when it is back."""
    workers = [launch("--processes", "2", LEASE_SECONDS=20) for _ in range(2)]
    jobs = [job for job in Job.objects.enqueue_many([("probe.mark", {"seconds": 0.05})] * 300) if job]
    slowest = 0.0
    for times in range(1, 4):
        effects.wait("end", times=times * 30)
        pooler.kill()
        holds_for(2, lambda: all(worker.code is None for worker in workers))
        connection.close()
        ended = effects.count("end")
        back = monotonic()
        pooler.start()
        effects.wait("start", times=ended + 20)
        slowest = max(slowest, monotonic() - back)

    recovery("jobs start again after the pooler's return", slowest, within=CONNECT_AGAIN_WITHIN)
    done = finished(jobs, within=40)
    assert {(job.status, job.attempts) for job in done} == {(Status.DONE, 1)}
    assert effects.count("start") == len(jobs)
    assert pooler.left_set(database()) == []


def test_a_paused_pooler_stops_the_world_for_a_while(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects, pooler: PgBouncer, recovery: Recovery
) -> None:
    """C68, C72: no statement is answered for longer than the worker waits; it costs no run, little log, no time."""
    worker = launch("--processes", "1", LEASE_SECONDS=30, STATEMENT_TIMEOUT=STATEMENT_TIMEOUT)
    running = enqueue("mark", seconds=3)
    effects.wait("start")
    waiting = enqueue("ok")
    before, lines = processes.cpu_seconds(worker.pid), worker.log.count("\n")

    pooler.admin("PAUSE")
    holds_for(2 * CUT_AFTER, lambda: worker.code is None)
    assert effects.count("end") == 1, "the handler needs no database and went on"
    used, lines = processes.cpu_seconds(worker.pid) - before, worker.log.count("\n") - lines
    pooler.admin("RESUME")
    back = monotonic()

    assert wait_for(running, within=CONNECT_AGAIN_WITHIN).attempts == 1
    assert wait_for(waiting, within=CONNECT_AGAIN_WITHIN).attempts == 1
    recovery("all done after RESUME", monotonic() - back, within=CONNECT_AGAIN_WITHIN)
    assert "no answer from the database, connection cut" in worker.log
    assert used < 1
    assert lines <= 30, worker.log
    assert not Attempt.objects.exists()


@contextmanager
def all_taken(pooler: PgBouncer) -> Iterator[None]:
    """Hold every server connection of the pool in a transaction."""
    with ExitStack() as stack:
        for _ in range(int(str(pooler.settings["default_pool_size"]))):
            client = psycopg.connect(pooler.conninfo(database()), prepare_threshold=None)
            stack.callback(client.close)
            client.execute("SELECT 1")
        yield


@pytest.mark.pooler(query_wait_timeout=1)
def test_a_pool_that_is_used_up_refuses_and_nobody_gives_up(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects, pooler: PgBouncer, recovery: Recovery
) -> None:
    """C68, C72: others hold all connections, and whoever waits for one is turned away after a second."""
    workers = [launch("--processes", "1", LEASE_SECONDS=30) for _ in range(2)]
    running = enqueue("mark", seconds=3)
    effects.wait("start")
    waiting = [enqueue("ok", _run_after=timedelta(seconds=2)) for _ in range(20)]
    lines = [worker.log.count("\n") for worker in workers]

    with all_taken(pooler):
        holds_for(6, lambda: all(worker.code is None for worker in workers))
        assert effects.count("end") == 1
    back = monotonic()

    assert {job.attempts for job in [wait_for(running), *finished(waiting)]} == {1}
    recovery("all done after the pool is free", monotonic() - back, within=CONNECT_AGAIN_WITHIN)
    for worker, before in zip(workers, lines, strict=True):
        assert worker.log.count("\n") - before <= 30, worker.log


def advisory_locks() -> list[tuple[object, ...]]:
    """Return the advisory locks in the test database."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT objid, pid, mode FROM pg_locks WHERE locktype = 'advisory'"
            " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        )
        return list(cursor.fetchall())


def test_housekeeping_by_two_workers_is_done_once_and_outlives_one(
    launch: Launch, effects: Effects, pooler: PgBouncer, recovery: Recovery
) -> None:
    """C69: promote, reap and prune through the pooler, one worker killed meanwhile; no advisory lock stays."""
    scheduled = JobFactory.create_batch(200, status=Status.SCHEDULED, run_after=ahead(6))
    expired = JobFactory.create_batch(200, status=Status.RUNNING, worker_id="gone", attempts=1, expired=True)
    old = JobFactory.create_batch(200, status=Status.DONE, finished_at=ago(3600))
    one, other = (launch("--processes", "1", RETENTION_DONE_SECONDS=1800) for _ in range(2))

    def some_reaped() -> bool:
        return Attempt.objects.filter(outcome=Outcome.LEASE_EXPIRED).exists()

    until(some_reaped, within=15, what="the first reap")
    one.kill_all()
    killed = monotonic()

    def all_done() -> bool:
        keys = [job.pk for job in (*scheduled, *expired)]
        return Job.objects.filter(pk__in=keys, status=Status.DONE).count() == len(keys)

    until(all_done, within=40, what=lambda: f"all done:\n{other.log}")
    recovery("all promoted, reaped and run by the other", monotonic() - killed, within=30)
    until(lambda: not Job.objects.filter(pk__in=[job.pk for job in old]).exists(), within=35, what="all pruned")
    reaps = Attempt.objects.filter(worker_id="gone").values_list("job_id", flat=True)
    assert sorted(reaps) == sorted(job.pk for job in expired), "each was reaped once"
    # Budgets take one for a transaction; one of a session would stay with its pooled connection.
    until(lambda: not advisory_locks(), within=10, what="a moment without any advisory lock")
    assert pooler.left_set(database()) == []


def test_enqueues_that_meet_a_pooler_away_fail_and_leave_nothing(
    enqueue: Enqueue, pooler: PgBouncer, effects: Effects
) -> None:
    """C68: an error reaches the caller, never a job that is half there; the next request connects anew."""
    enqueue("ok")
    stop = threading.Event()

    pooler.kill()
    with pytest.raises(Exception, match="connection"):
        enqueue("ok")
    connection.close()
    pooler.start()
    stop.set()

    enqueue("ok")
    assert Job.objects.count() == 2
