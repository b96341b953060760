"""The database is away, or its table locked, for a long time: workers wait cheaply and are there afterwards."""

import time

from jobqueue.models import Attempt
from tests.connections import SecondConnection
from tests.faults.measured import Recovery
from tests.faults.servers import PrivateServer
from tests.worker import processes
from tests.worker.effects import Effects
from tests.worker.kinds import Enqueue, Launch, WaitFor
from tests.worker.launching import RunningWorker
from tests.worker.waiting import holds_for, until

AWAY_SECONDS, LATE_SECONDS = 120, 20
LOCKED_SECONDS = 20
BACK_WITHIN = 10
CPU_SECONDS, LINES = 1, 30
USUAL = {"JOBQUEUE_MAINTENANCE_SECONDS": "2", "JOBQUEUE_POLL_SECONDS": "2"}  # a scenario of minutes, not of seconds


class Price:
    """What a worker's waiting costs: processor time of all its processes, and lines in its log."""

    def __init__(self, worker: RunningWorker) -> None:
        self._worker = worker
        self._before = self._cpu(), self._lines()

    def check(self, recovery: Recovery, what: str) -> None:
        """Assert that it was low, since this was made."""
        cpu, lines = self._before
        recovery(f"processor time of a worker, {what}", self._cpu() - cpu, within=CPU_SECONDS)
        recovery(f"log lines of a worker, {what}", self._lines() - lines, within=LINES, unit="lines")

    def _cpu(self) -> float:
        return sum(processes.cpu_seconds(pid) for pid in self._worker.tree())

    def _lines(self) -> int:
        return self._worker.log.count("\n")


def test_two_minutes_without_the_database_cost_little(
    server: PrivateServer, launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects, recovery: Recovery
) -> None:
    """C72, C162: three workers wait, a fourth starts meanwhile; a job that ended in the outage is stored after it."""
    workers = [launch("--processes", "2", LEASE_SECONDS=300, env=USUAL) for _ in range(3)]
    long = enqueue("mark", seconds=60)
    effects.wait("start")
    prices = [Price(worker) for worker in workers]

    server.stop()
    holds_for(AWAY_SECONDS - LATE_SECONDS, lambda: [worker.code for worker in workers] == [None] * 3)
    late = launch("--processes", "1", wait=False, env=USUAL)
    late.says("waiting for the database")
    holds_for(LATE_SECONDS, lambda: late.code is None)
    for price in prices:
        price.check(recovery, "two minutes without the database")
    server.start()
    back_at = time.monotonic()

    done = wait_for(enqueue("mark"), within=BACK_WITHIN)
    recovery("a new job is done", time.monotonic() - back_at, within=BACK_WITHIN)
    assert wait_for(long, within=BACK_WITHIN).attempts == 1
    recovery("the job that ended in the outage is stored", time.monotonic() - back_at, within=BACK_WITHIN)
    for worker in (*workers, late):
        connected(server, worker)
    recovery("all workers are connected", time.monotonic() - back_at, within=BACK_WITHIN)
    assert (effects.count("start", job_id=long.pk), effects.count("start", job_id=done.pk)) == (1, 1)
    assert not Attempt.objects.exists()


def connected(server: PrivateServer, worker: RunningWorker) -> None:
    """Wait until each thread of a worker that has something to ask has its connection; settle has not, when idle."""
    worker.says("worker started worker=")
    query = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'jobqueue %%' || %s"
    until(lambda: server.execute(query, [worker.worker_id])[0][0] >= 4, what=f"connections of {worker.worker_id}")


def test_a_table_that_is_locked_for_long_costs_little(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, second_connection: SecondConnection, recovery: Recovery
) -> None:
    """C72, C74: claims end by their time limit and are tried again with pauses; the locked table costs no lease."""
    workers = [launch("--processes", "2", LEASE_SECONDS=60) for _ in range(3)]
    long = enqueue("sleep", seconds=2)
    wait_for(enqueue("ok"))
    prices = [Price(worker) for worker in workers]

    second_connection.execute("LOCK TABLE jobqueue_job IN ACCESS EXCLUSIVE MODE")
    holds_for(LOCKED_SECONDS, lambda: [worker.code for worker in workers] == [None] * 3)
    for price in prices:
        price.check(recovery, "the table locked for 20 s")
    second_connection.rollback()
    free_at = time.monotonic()

    wait_for(enqueue("ok"), within=BACK_WITHIN)
    assert wait_for(long, within=BACK_WITHIN).attempts == 1
    recovery("the table free: the jobs are done", time.monotonic() - free_at, within=BACK_WITHIN)
    assert not Attempt.objects.exists()
