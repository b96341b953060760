"""The database away, silent or locked for longer than a worker can hide."""

from django.db import connection

from jobqueue.models import Attempt, Job, Worker
from jobqueue.states import Status
from tests.connections import SecondConnection
from tests.worker import processes
from tests.worker.effects import Effects
from tests.worker.forwarder import Forwarder
from tests.worker.kinds import Enqueue, Launch, WaitFor
from tests.worker.waiting import holds_for, until


def test_a_job_is_stopped_before_its_lease_runs_out_unrenewed(
    launch: Launch,
    enqueue: Enqueue,
    wait_for: WaitFor,
    effects: Effects,
    proxy: Forwarder,
    through_proxy: dict[str, str],
) -> None:
    """C36: cut off from the database, the first worker stops its handler before the second may start it."""
    proxy.open()
    first = launch("--processes", "1", env=through_proxy)
    job = enqueue("step_loop", seconds=15, every=0.1)
    effects.wait("step")
    launch("--processes", "1")

    proxy.swallow()

    until(lambda: len({row.pid for row in effects.all("step")}) == 2, within=20, what="the second run")
    one, other = ([row.at for row in effects.all("step") if row.lease_epoch == epoch] for epoch in (1, 2))
    assert max(one) < min(other)
    first.says("lost lease")
    proxy.swallow(False)
    assert wait_for(job, within=30).attempts == 2


def test_a_database_that_is_away_costs_little(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, proxy: Forwarder, through_proxy: dict[str, str]
) -> None:
    """C72, for five seconds: hardly any CPU time, few lines in the log, then work as before."""
    proxy.open()
    worker = launch("--processes", "1", env=through_proxy)
    before, lines = processes.cpu_seconds(worker.pid), worker.log.count("\n")

    proxy.shut()
    holds_for(5, lambda: worker.code is None)

    assert processes.cpu_seconds(worker.pid) - before < 0.7
    assert worker.log.count("\n") - lines <= 15, worker.log
    proxy.open()
    wait_for(enqueue("ok"), within=8)


def test_a_locked_table_makes_the_claims_old_not_the_worker_dead(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, second_connection: SecondConnection
) -> None:
    """C74: the heartbeat goes on, the age of the last good claim grows; the loop heals itself."""
    worker = launch("--processes", "1", LEASE_SECONDS=20)
    wait_for(enqueue("ok"))
    until(lambda: Worker.objects.get().claimed_at is not None)
    second_connection.execute("LOCK TABLE jobqueue_job IN ACCESS EXCLUSIVE MODE")

    def ages() -> tuple[float, float]:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT extract(epoch FROM clock_timestamp() - heartbeat_at),"
                " extract(epoch FROM clock_timestamp() - claimed_at) FROM jobqueue_worker"
            )
            heartbeat, claim = cursor.fetchone()
            return float(heartbeat), float(claim)

    until(lambda: ages()[1] > 6, within=15, what=lambda: f"an old claim: {ages()}")
    assert ages()[0] < 5
    second_connection.rollback()

    until(lambda: ages()[1] < 3, within=15, what=lambda: f"a young claim: {ages()}")
    wait_for(enqueue("ok"))
    assert worker.code is None


def test_a_finish_into_silence_is_written_when_the_database_is_back(
    launch: Launch,
    enqueue: Enqueue,
    wait_for: WaitFor,
    effects: Effects,
    proxy: Forwarder,
    through_proxy: dict[str, str],
) -> None:
    """C19: for four seconds, less than the lease, nothing comes through just as the handler returns; it ran once."""
    proxy.open()
    launch("--processes", "1", LEASE_SECONDS=6, env=through_proxy)
    job = enqueue("mark", seconds=1)
    effects.wait("start")

    proxy.swallow()
    effects.wait("end")
    holds_for(4, lambda: Job.objects.get(pk=job.pk).status == Status.RUNNING)
    proxy.swallow(False)

    assert wait_for(job).attempts == 1
    assert effects.count("start") == 1
    assert not Attempt.objects.exists()


def test_jobs_enqueued_while_the_listener_hears_nothing_start_by_the_poll(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, proxy: Forwarder, through_proxy: dict[str, str]
) -> None:
    """C60: every connection is half open for a while; afterwards hints come again."""
    proxy.open()
    launch("--processes", "1", LEASE_SECONDS=20, POLL_SECONDS=1, env=through_proxy)
    wait_for(enqueue("ok"))

    proxy.swallow()
    job = enqueue("ok")
    holds_for(3, lambda: Job.objects.get(pk=job.pk).status == Status.PENDING)
    proxy.swallow(False)

    wait_for(job, within=8)
    assert (wait_for(enqueue("ok"), within=4)).attempts == 1
