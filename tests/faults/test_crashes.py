"""The processes of a worker killed or stopped in every combination: what dies with them, and what takes over."""

import signal

import pytest

from jobqueue.models import Attempt, Job
from jobqueue.outcomes import Outcome
from jobqueue.states import Status
from tests.worker import processes
from tests.worker.conftest import LEASE_SECONDS
from tests.worker.effects import Effects
from tests.worker.kinds import Enqueue, Launch, WaitFor
from tests.worker.launching import RunningWorker
from tests.worker.test_outcomes import finished
from tests.worker.waiting import holds_for, until

from .measured import Recovery
from .test_kills import NOISE_SECONDS, TICK_SECONDS, database_time

RUNNABLE_WITHIN = LEASE_SECONDS + 1.1 * TICK_SECONDS + NOISE_SECONDS
KINDS = ("plain", "pipeline", "session", "fork", "orphans")
PATIENT = {"probe.leftovers": {"duration": 60}}


def busy_worker(launch: Launch, enqueue: Enqueue, effects: Effects) -> tuple[RunningWorker, set[int], set[int]]:
    """Start a worker whose handlers compute, wait and have started programs; returns it, its processes, the programs.

    The programs are in sessions of their own, without environment, in pipelines, forked, and orphans.
    """
    worker = launch("--processes", str(len(KINDS) + 2), LIMITS=PATIENT)
    enqueue("step_loop", seconds=60, every=0.02)
    enqueue("mark_hold_gil", seconds=60)
    for kind in KINDS:
        enqueue("leftovers", kind=kind, wait=50)
    effects.wait("step")
    effects.wait("start")
    told = effects.wait("program", times=3 + 1 + 1 + 1 + 3)
    programs = {int(row.detail) for row in told}
    return worker, set(worker.tree()), programs


def seconds_until_dead(pids: set[int]) -> float:
    """Return how long it took until none of them lived."""
    began = database_time()
    until(lambda: not any(map(processes.is_alive, pids)), within=10, what=lambda: f"the end of {living(pids)}")
    return (database_time() - began).total_seconds()


def living(pids: set[int]) -> list[tuple[int, str]]:
    return [(pid, processes.command_line(pid)) for pid in pids if processes.is_alive(pid)]


@pytest.mark.short
def test_a_killed_supervisor_takes_children_and_their_programs_with_it(
    launch: Launch, enqueue: Enqueue, effects: Effects, recovery: Recovery
) -> None:
    """C12: all dead within two seconds, and no effect comes after that."""
    worker, tree, programs = busy_worker(launch, enqueue, effects)

    worker.expected_to_end = True
    worker.send(signal.SIGKILL)

    recovery("everything below a killed supervisor dead", seconds_until_dead(tree | programs), within=2)
    worker.ends()
    steps = effects.count("step")
    holds_for(0.5, lambda: effects.count("step") == steps, what="no further step")
    Job.objects.filter(status=Status.RUNNING).update(status=Status.CANCELLED, outcome=Outcome.CANCELLED)


@pytest.mark.short
def test_a_killed_zygote_takes_them_with_it_and_is_replaced(
    launch: Launch, enqueue: Enqueue, effects: Effects, wait_for: WaitFor, recovery: Recovery
) -> None:
    """C12, C13: the supervisor lives, gives the interrupted jobs to new children, and serves again in moments."""
    worker, tree, programs = busy_worker(launch, enqueue, effects)
    interrupted = Job.objects.filter(status=Status.RUNNING)
    zygote, running = worker.zygote, set(interrupted.values_list("pk", flat=True))

    killed_at = database_time()
    processes.kill(zygote)

    recovery("everything below a killed zygote dead", seconds_until_dead((tree - {worker.pid}) | programs), within=2)
    step = until(
        lambda: next((row for row in effects.all("step") if row.pid not in tree), None), within=30, what="a new child"
    )
    recovery("handlers run again after the zygote was killed", (step.at - killed_at).total_seconds(), within=15)
    again = interrupted.filter(pk__in=running, attempts=1, interruptions=1)
    until(lambda: again.count() == len(running), what=lambda: f"{running} to run again, uncharged")
    assert worker.zygote != zygote
    assert set(Attempt.objects.values_list("outcome", flat=True)) == {Outcome.INTERRUPTED}


def test_children_die_with_supervisor_and_zygote(
    launch: Launch, enqueue: Enqueue, effects: Effects, wait_for: WaitFor, recovery: Recovery
) -> None:
    """C12: both killed at once: nobody of the worker is left to kill the children, so the kernel does."""
    seconds = []
    for _ in range(3):
        worker = launch("--processes", "2")
        job, stuck = enqueue("step_loop", seconds=2), enqueue("mark_hold_gil", seconds=60, _max_attempts=1)
        effects.wait("step", job_id=job.pk)
        effects.wait("start", job_id=stuck.pk)
        tree = set(worker.tree())

        worker.expected_to_end = True
        for pid in (worker.zygote, worker.pid):
            processes.kill(pid)
        seconds.append(seconds_until_dead(tree))

    recovery("children dead after supervisor and zygote were killed at once", max(seconds), within=2)
    launch("--processes", "2")
    assert wait_for(job, within=2 * LEASE_SECONDS + 5).attempts == 2
    wait_for(stuck, Status.DEAD)


def test_a_stopped_zygote_is_replaced_when_it_is_needed(
    launch: Launch, enqueue: Enqueue, effects: Effects, wait_for: WaitFor, recovery: Recovery
) -> None:
    """C45, C13: it cannot stop a job past its deadline; the supervisor kills it, children and all, for another."""
    worker = launch("--processes", "2", LIMITS={"probe.mark_hold_gil": {"duration": 3}})
    late, neighbour = enqueue("mark_hold_gil", seconds=60, _max_attempts=1), enqueue("mark", seconds=0.5)
    (start,) = effects.wait("start", job_id=late.pk)
    wait_for(neighbour)
    zygote = worker.zygote

    processes.send(zygote, signal.SIGSTOP)

    dead = wait_for(late, Status.DEAD)
    assert dead.outcome == Outcome.DEADLINE
    seconds = (dead.finished_at - start.at).total_seconds() - 3
    recovery(
        "job past its deadline ended by a worker whose zygote stands still",
        seconds,
        within=2 * (0.5 + 2) + NOISE_SECONDS,
    )
    assert not processes.is_alive(start.pid)
    wait_for(enqueue("ok"))
    assert worker.zygote != zygote


def test_the_children_of_a_stopped_supervisor_end_before_its_leases(
    launch: Launch, enqueue: Enqueue, effects: Effects, wait_for: WaitFor, recovery: Recovery
) -> None:
    """C01, C12: nobody renews and nobody stops jobs, so the zygote kills them; another worker's run stands alone."""
    first = launch("--processes", "2")
    jobs = [enqueue("step_loop", seconds=6) for _ in range(2)]
    effects.wait("step", times=4)
    tree, stopped_at = set(first.tree()), database_time()
    first.send(signal.SIGSTOP)
    second = launch("--processes", "2")

    until(lambda: {row.pid for row in effects.all("step")} - tree, within=2 * LEASE_SECONDS + 5, what="a second run")
    old = [row.at for row in effects.all("step") if row.pid in tree]
    new = [row.at for row in effects.all("step") if row.pid not in tree]
    assert max(old) < min(new)
    patience = LEASE_SECONDS * 2 / 3 - 1
    seconds = (max(old) - stopped_at).total_seconds()
    recovery("last effect of a worker whose supervisor stands still", seconds, within=patience + 1 + NOISE_SECONDS)
    first.send(signal.SIGCONT)
    assert [wait_for(job, within=20).worker_id for job in jobs] == [second.worker_id] * 2
    second.stop()
    second.ends()
    assert wait_for(enqueue("ok")).worker_id == first.worker_id


@pytest.mark.short
def test_poison_is_dead_after_three_starts_and_hurts_nobody(
    launch: Launch, enqueue: Enqueue, effects: Effects, wait_for: WaitFor, recovery: Recovery
) -> None:
    """C10: two workers, three kinds of poison at once, twenty good jobs beside them."""
    workers = [launch("--processes", "2") for _ in range(2)]
    began = database_time()
    poison = [enqueue(name, _max_attempts=3) for name in ("mark_segv", "killed_by_itself")]
    quits = enqueue("quits", code=0, _max_attempts=3)
    others = [enqueue("mark") for _ in range(20)]

    dead = [wait_for(job, Status.DEAD) for job in (*poison, quits)]

    assert [job.attempts for job in dead] == [3] * 3
    assert [effects.count("start", job_id=job.pk) for job in poison] == [3] * 2
    assert ["signal 11" in dead[0].last_error, "signal 9" in dead[1].last_error] == [True] * 2
    assert "exited with code 0" in dead[2].last_error
    assert {job.status for job in finished(others)} == {Status.DONE}
    starts = [row.job_id for row in effects.all("start") if row.job_id in {job.pk for job in others}]
    assert sorted(starts) == sorted(job.pk for job in others)
    assert [worker.code for worker in workers] == [None] * 2
    good_end = max(job.finished_at for job in finished(others))
    recovery("twenty jobs done beside three that kill their processes", (good_end - began).total_seconds(), within=8)
