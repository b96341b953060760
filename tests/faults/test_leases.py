"""Leases under load of the worst kind: stalled and killed workers, jobs longer than their lease."""

import signal
from collections.abc import Iterator

import pytest
from django.db import connection

from jobqueue.models import Attempt, Job
from jobqueue.outcomes import Outcome
from jobqueue.states import Status
from tests.worker.conftest import LEASE_SECONDS
from tests.worker.effects import Effects
from tests.worker.kinds import Enqueue, Launch, WaitFor
from tests.worker.test_outcomes import finished
from tests.worker.test_time_limits import freeze

from .measured import Recovery
from .test_kills import NOISE_SECONDS, TICK_SECONDS, database_time

RECLAIMED_WITHIN = 2 * LEASE_SECONDS + 3


def test_a_worker_that_stalled_past_its_lease_changes_nothing(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    """C01: the other worker's result stays; one line tells of the lost lease; the staller takes the next job."""
    first = launch("--processes", "1")
    job = enqueue("mark", seconds=2)
    effects.wait("start")

    first.signal_tree(signal.SIGSTOP)
    second = launch("--processes", "1")
    done = wait_for(job, within=RECLAIMED_WITHIN)
    first.signal_tree(signal.SIGCONT)

    first.says("lost lease")
    first.says(f"lost lease job_id={job.pk}")
    second.stop()
    second.ends()
    wait_for(enqueue("ok"))
    after = Job.objects.get(pk=job.pk)
    assert (after.status, after.worker_id, after.finished_at) == (Status.DONE, second.worker_id, done.finished_at)
    assert after.attempts == 2
    assert [row.lease_epoch for row in effects.all("start", job_id=job.pk)] == [1, 2]
    assert [attempt.outcome for attempt in Attempt.objects.filter(job=job)] == [Outcome.LEASE_EXPIRED]
    assert first.log.count("lost lease") == 1


def test_jobs_of_a_killed_worker_run_again(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects, recovery: Recovery
) -> None:
    """C05: each gets an attempt that names the lost worker, and all finish; the next worker has just started."""
    first = launch("--processes", "2", "--threads", "2")
    jobs = [enqueue("async_mark", seconds=1.5) for _ in range(4)]
    effects.wait("start", times=4)
    lost = first.worker_id

    first.kill_all()
    launch("--processes", "2", "--threads", "2")
    serves_at = database_time()

    for job in jobs:
        assert wait_for(job, within=RECLAIMED_WITHIN).attempts == 2
        attempt = Attempt.objects.get(job=job)
        assert (attempt.outcome, attempt.worker_id) == (Outcome.LEASE_EXPIRED, lost)
    seconds = [(each.finished_at - serves_at).total_seconds() for each in Attempt.objects.all()]
    # The reaper of a worker that started alone waits for one lease, unless the lost one was heard of just before.
    within = LEASE_SECONDS + 1.1 * TICK_SECONDS + NOISE_SECONDS
    recovery("jobs runnable again, from the start of the next worker", max(seconds), within=within)


def test_a_restart_under_the_same_name_is_another_worker(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    """C07: the orphan of 'fixed-1' is taken back although 'fixed-1' is alive and busy."""
    first = launch("--name", "fixed-1", "--processes", "1")
    orphan = enqueue("mark", seconds=1)
    effects.wait("start")
    first.kill_all()

    second = launch("--name", "fixed-1", "--processes", "2")
    busy = [enqueue("sleep", seconds=0.2) for _ in range(20)]

    assert wait_for(orphan, within=RECLAIMED_WITHIN).attempts == 2
    assert second.worker_id.startswith("fixed-1-")
    assert second.worker_id != first.worker_id
    for job in busy:
        wait_for(job)


def test_jobs_longer_than_their_lease_run_once(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    """C33, C35: leases are renewed from outside of the job's process, whatever it computes or holds."""
    launch("--processes", "2")
    launch("--processes", "2")
    jobs = [enqueue(kind, seconds=LEASE_SECONDS * 2) for kind in ("mark", "spin", "mark_hold_gil")]

    for job in jobs:
        done = wait_for(job, within=LEASE_SECONDS * 4)
        assert effects.count("start", job_id=job.pk) == 1
        assert (done.attempts, done.lease_epoch) == (1, 1)
        assert (done.finished_at - done.run_started_at).total_seconds() > LEASE_SECONDS * 1.5


def test_no_effect_of_a_killed_worker_stands_beside_the_next_run(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    """C12: only the supervisor is killed; by the time the lease is over its children have long been dead."""
    first = launch("--processes", "2")
    job = enqueue("step_loop", seconds=4)
    effects.wait("step")
    old = set(first.tree())

    first.send(signal.SIGKILL)
    first.ends()
    launch("--processes", "1")

    assert wait_for(job, within=RECLAIMED_WITHIN).attempts == 2
    one, other = ([row for row in effects.all("step") if row.lease_epoch == epoch] for epoch in (1, 2))
    assert max(row.at for row in one) < min(row.at for row in other)
    assert {row.pid for row in one} <= old
    assert not {row.pid for row in other} & old


def test_a_worker_lost_in_the_last_attempt_is_told_in_time(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects, recovery: Recovery
) -> None:
    """C09: another worker lives, so the dead letter is there within a lease and a tick."""
    first = launch("--processes", "1")
    job = enqueue("mark", seconds=30, _max_attempts=1)
    effects.wait("start")
    launch("--processes", "1")
    killed_at = database_time()
    first.kill_all()

    dead = wait_for(job, Status.DEAD, within=RECLAIMED_WITHIN)

    assert (dead.attempts, dead.outcome, effects.count("start")) == (1, Outcome.LEASE_EXPIRED, 1)
    assert "worker lost" in dead.attempt_rows.get().error_text
    within = LEASE_SECONDS + 1.1 * TICK_SECONDS + NOISE_SECONDS
    recovery("a last attempt whose worker is lost: dead", (dead.finished_at - killed_at).total_seconds(), within=within)


def test_a_worker_stopped_past_its_lease_finds_no_job_late(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    """C165: for 8 s, the limit being 5 s and the lease 6 s: the lease is lost, which is no time-out."""
    worker = launch("--processes", "1", LEASE_SECONDS=6, LIMITS={"probe.slices": {"duration": 5}})
    job = enqueue("slices", count=30)
    effects.wait("slice", times=3)

    freeze(worker, 8)

    done = wait_for(job, within=25)
    assert done.attempts == 2
    assert [attempt.outcome for attempt in Attempt.objects.filter(job=job)] == [Outcome.LEASE_EXPIRED]
    assert len([row for row in effects.all("slice") if row.lease_epoch == done.lease_epoch]) == 30


@pytest.fixture
def poor_planner(transactional_db: None) -> Iterator[None]:
    """Have the planner of every new connection to the test database do without its best methods."""
    name = connection.settings_dict["NAME"]
    nodes = ("hashjoin", "mergejoin", "material", "hashagg", "sort", "memoize")
    with connection.cursor() as cursor:
        for node in nodes:
            cursor.execute(f'ALTER DATABASE "{name}" SET enable_{node} = off')
    connection.close()
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            for node in nodes:
                cursor.execute(f'ALTER DATABASE "{name}" RESET enable_{node}')
        connection.close()


def test_no_claim_takes_more_than_its_limit_under_a_poor_planner(
    poor_planner: None, launch: Launch, effects: Effects
) -> None:
    """C30: claims of 1 and of 5, two hundred times each, from 1,500 jobs; then real workers do the rest."""
    with connection.cursor() as cursor:
        cursor.execute("SHOW enable_hashjoin")
        assert cursor.fetchone() == ("off",)
    jobs = [job for job in Job.objects.enqueue_many([("probe.mark", {})] * 1_500) if job]
    for number in range(200):
        for limit in (1, 5):
            claimed = Job.objects.claim(limit, worker_id=f"w{limit}-{number}")
            assert len(claimed) == limit
            assert Job.objects.filter(worker_id=f"w{limit}-{number}", status=Status.RUNNING).count() == limit
    Job.objects.filter(status=Status.RUNNING).update(status=Status.CANCELLED, outcome=Outcome.CANCELLED)

    for _ in range(2):
        launch("--processes", "2")
    rest = [job for job in finished(jobs, within=60) if job.status != Status.CANCELLED]

    assert {(job.status, job.attempts, job.lease_epoch) for job in rest} == {(Status.DONE, 1, 1)}
    assert len(rest) == effects.count("start") == 300
