"""Who holds a job, and what becomes of it when its holder stalls, dies, or only looks dead."""

import signal

import pytest

from jobqueue.models import Attempt, Job
from jobqueue.outcomes import Outcome
from jobqueue.states import Status

from . import processes
from .conftest import LEASE_SECONDS
from .effects import Effects
from .kinds import Enqueue, Launch, StatusOf, WaitFor
from .waiting import until

RECLAIMED_WITHIN = 2 * LEASE_SECONDS + 3


def test_a_worker_lost_in_the_last_attempt_leaves_a_dead_letter(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    """C09: never RUNNING for ever, never run again in silence."""
    first = launch("--processes", "1")
    job = enqueue("mark", seconds=30, _max_attempts=1)
    effects.wait("start")
    first.kill_all()

    launch("--processes", "1")

    dead = wait_for(job, Status.DEAD, within=RECLAIMED_WITHIN)
    assert (dead.attempts, dead.outcome) == (1, Outcome.LEASE_EXPIRED)
    assert "worker lost" in dead.attempt_rows.get().error_text
    assert effects.count("start") == 1


def test_a_job_that_another_worker_owns_now_is_stopped_and_writes_nothing(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    """C01: the handler is told by JobLeaseLost; the worker lives on."""
    worker = launch("--processes", "1")
    job = enqueue("tidy_stop", seconds=30)
    effects.wait("start")

    Job.objects.filter(pk=job.pk).update(worker_id="another", lease_epoch=7)

    assert [row.detail for row in effects.wait("stopped")] == ["JobLeaseLost"]
    worker.says("lost lease")
    wait_for(enqueue("ok"))
    after = Job.objects.get(pk=job.pk)
    assert (after.status, after.worker_id, after.lease_epoch) == (Status.RUNNING, "another", 7)
    assert not Attempt.objects.filter(job=job).exists()
    Job.objects.filter(pk=job.pk).update(status=Status.DONE)


@pytest.mark.smoke
def test_a_killed_child_costs_its_job_one_attempt(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    """C13: the attempt is closed at once, the retry follows the policy, no zombie stays."""
    worker = launch("--processes", "1")
    job = enqueue("mark", seconds=60, _max_attempts=1)
    (start,) = effects.wait("start")

    killed_at = start.at
    worker_children = worker.children
    assert worker_children == [start.pid]
    processes.kill(start.pid)

    dead = wait_for(job, Status.DEAD, within=3)
    assert "killed, signal 9 (possible OOM)" in dead.last_error
    assert (dead.outcome, dead.attempt_rows.get().exit_code) == (Outcome.CRASHED, -9)
    assert (dead.finished_at - killed_at).total_seconds() < 3
    until(lambda: processes.stat_fields(start.pid) == [], what="the dead child is reaped")
    wait_for(enqueue("ok"))


def test_a_killed_supervisor_takes_everything_with_it(launch: Launch, enqueue: Enqueue, effects: Effects) -> None:
    """C12: within two seconds nothing of it runs on, nor do the programs that its handlers started."""
    worker = launch("--processes", "2", LIMITS={"probe.leftovers": {"duration": 60}})
    enqueue("step_loop", seconds=60)
    enqueue("leftovers", kind="session", wait=50)
    effects.wait("step")
    program = int(effects.wait("program")[0].detail)

    worker.send(signal.SIGKILL)
    until(lambda: not worker.tree() and not processes.is_alive(program), within=2, what="the end of all its processes")

    worker.ends()


def test_a_killed_zygote_is_replaced(launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects) -> None:
    """C12, C13: the children die with it, so do the programs that handlers started; their jobs run again, uncharged."""
    worker = launch("--processes", "2", LIMITS={"probe.leftovers": {"duration": 60}})
    job = enqueue("step_loop", seconds=1.5, every=0.05)
    starter = enqueue("leftovers", kind="session", wait=50)
    program = int(effects.wait("program")[0].detail)
    old = effects.wait("step")[0].pid
    zygote = worker.zygote

    processes.kill(zygote)

    until(lambda: not processes.is_alive(old), within=2, what="the child's end")
    until(lambda: not processes.is_alive(program), within=2, what="the end of the handler's program")
    done = wait_for(job)
    assert (done.attempts, done.interruptions) == (1, 1)
    assert worker.zygote != zygote
    assert effects.all("step")[-1].pid != old
    Job.objects.cancel([starter.pk])
    wait_for(starter, Status.CANCELLED)


def test_frozen_children_do_not_keep_the_worker_from_stopping(
    launch: Launch, enqueue: Enqueue, status: StatusOf, effects: Effects
) -> None:
    """C13: a child that cannot answer is killed, not waited for."""
    worker = launch("--processes", "1", "--shutdown-timeout", "0.5")
    job = enqueue("mark", seconds=60)
    (start,) = effects.wait("start")

    processes.send(start.pid, signal.SIGSTOP)
    worker.stop()

    assert worker.ends(within=5) == 3
    assert status(job) == Status.PENDING
