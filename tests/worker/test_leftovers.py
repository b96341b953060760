"""What a handler started and left behind does not outlive its attempt, whatever its end."""

import pytest

from jobqueue.outcomes import Outcome
from jobqueue.states import Status

from . import processes
from .effects import Effects
from .kinds import Enqueue, Launch, WaitFor
from .launching import RunningWorker
from .waiting import until

KINDS = ["plain", "pipeline", "session", "fork", "orphans", "thread", "joined thread"]


def programs(worker: RunningWorker, effects: Effects) -> list[int]:
    """Return what still runs of the handler's making: by the pids it told, and by what carries the worker's mark."""
    told = [int(row.detail) for row in effects.all("program")]
    asleep = [pid for pid in worker.tree() if processes.command_line(pid).startswith("sleep")]
    return [pid for pid in {*told, *asleep} if processes.is_alive(pid)]


@pytest.mark.parametrize("arguments", [(), ("--threads", "2")], ids=["one slot", "threads"])
def test_programs_left_by_a_good_job_are_killed(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects, arguments: tuple[str, ...]
) -> None:
    """C94: three programs, a pipeline, a session of its own, a fork, orphans, programs of threads."""
    worker = launch("--processes", "1", *arguments)

    for kind in KINDS:
        assert wait_for(enqueue("leftovers", kind=kind, _max_attempts=1)).outcome == Outcome.DONE
        until(lambda: programs(worker, effects) == [], within=2, what=f"no program left of {kind}")


def test_programs_of_a_job_past_its_deadline_are_killed(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    """C94: all of them within two seconds of the end of the attempt."""
    worker = launch("--processes", "1", LIMITS={"probe.leftovers": {"duration": 0.4}})

    for kind in KINDS:
        job = enqueue("leftovers", kind=kind, wait=30, _max_attempts=1)
        assert wait_for(job, Status.DEAD).outcome == Outcome.DEADLINE
        until(lambda: programs(worker, effects) == [], within=2, what=f"no program left of {kind}")


def test_programs_of_a_killed_child_are_killed(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    """C94: also when nobody but the zygote is left to do it."""
    worker = launch("--processes", "1", LIMITS={"probe.leftovers": {"duration": 30}})
    job = enqueue("leftovers", kind="orphans", wait=30, _max_attempts=1)
    until(lambda: len(programs(worker, effects)) >= 3, what="the orphans")

    processes.kill(worker.children[0])

    wait_for(job, Status.DEAD)
    until(lambda: programs(worker, effects) == [], within=2, what="no program left")


def test_a_fork_that_goes_on_does_not_serve_the_inbox(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    """C28: a handler that returns in both of its processes ends its job once, and the next job runs once."""
    launch("--processes", "1")
    job = enqueue("returns_twice")
    after = [enqueue("mark") for _ in range(5)]

    wait_for(job)
    for each in after:
        wait_for(each)

    assert effects.count("start") == 5
    assert len({row.pid for row in effects.all("start")}) == 1
