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
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    """C05: each gets an attempt that names the lost worker, and all finish."""
    first = launch("--processes", "2", "--threads", "2")
    jobs = [enqueue("async_mark", seconds=1.5) for _ in range(4)]
    effects.wait("start", times=4)
    lost = first.worker_id

    first.kill_all()
    launch("--processes", "2", "--threads", "2")

    for job in jobs:
        assert wait_for(job, within=RECLAIMED_WITHIN).attempts == 2
        attempt = Attempt.objects.get(job=job)
        assert (attempt.outcome, attempt.worker_id) == (Outcome.LEASE_EXPIRED, lost)


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


@pytest.mark.parametrize("kind", ["mark", "spin", "mark_hold_gil"])
def test_a_job_longer_than_its_lease_runs_once(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects, kind: str
) -> None:
    """C33, C35: leases are renewed from outside of the job's process, whatever it computes or holds."""
    launch("--processes", "1")
    launch("--processes", "1")
    job = enqueue(kind, seconds=LEASE_SECONDS * 1.4)

    done = wait_for(job, within=LEASE_SECONDS * 3)

    assert effects.count("start") == 1
    assert (done.attempts, done.lease_epoch) == (1, 1)
    assert (done.finished_at - done.run_started_at).total_seconds() > LEASE_SECONDS


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


def test_a_killed_supervisor_takes_everything_with_it(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    """C12: no effect of the old process after two seconds; the programs that it started are dead, too."""
    first = launch("--processes", "2", LIMITS={"probe.leftovers": {"duration": 60}})
    job = enqueue("step_loop", seconds=4)
    enqueue("leftovers", kind="session", wait=50)
    effects.wait("step")
    program = int(effects.wait("program")[0].detail)
    old = set(first.tree())

    first.send(signal.SIGKILL)
    until(lambda: not first.tree() and not processes.is_alive(program), within=2, what="the end of all its processes")

    last = effects.all("step")[-1].id
    launch("--processes", "1")
    assert wait_for(job, within=RECLAIMED_WITHIN).attempts == 2
    assert not {row.pid for row in effects.all("step") if row.id > last} & old
    first.ends()
    Job.objects.cancel(list(Job.objects.filter(job_type="probe.leftovers").values_list("pk", flat=True)))


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
