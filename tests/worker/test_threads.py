"""Several slots in one child: what hurts one costs the neighbours an interruption, never an attempt."""

import os
from pathlib import Path

import pytest

from jobqueue.models import Attempt
from jobqueue.outcomes import Outcome
from jobqueue.states import Status

from . import processes
from .effects import Effects
from .kinds import Enqueue, Launch, WaitFor
from .test_outcomes import finished
from .waiting import until


def test_four_slots_run_four_jobs_at_once(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    launch("--processes", "1", "--threads", "4")
    jobs = [enqueue("mark", seconds=1) for _ in range(8)]

    done = finished(jobs)

    assert {job.attempts for job in done} == {1}
    assert {job.status for job in done} == {Status.DONE}
    rows = effects.all()
    running, most = 0, 0
    for row in rows:
        running += 1 if row.event == "start" else -1
        most = max(most, running)
    assert most == 4
    assert len({row.pid for row in rows}) == 1


def test_a_job_killed_for_its_deadline_interrupts_its_neighbours(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    """C45, C42: the culprit is charged; the others run again, uncharged."""
    launch("--processes", "1", "--threads", "4")
    neighbours = [enqueue("mark", seconds=1.5, _max_attempts=1) for _ in range(3)]
    effects.wait("start", times=3)
    culprit = enqueue("stubborn", how="native", _max_attempts=1)

    assert wait_for(culprit, Status.DEAD).outcome == Outcome.DEADLINE

    for job in finished(neighbours, within=30):
        assert (job.status, job.attempts, job.interruptions) == (Status.DONE, 1, 1)
        assert job.attempt_rows.get().outcome == Outcome.INTERRUPTED


def test_a_crash_that_several_share_is_charged_to_the_one_that_crashes_alone(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    """C10: which of four crashed cannot be told; each is tried alone next, and the culprit shows itself."""
    launch("--processes", "1", "--threads", "4")
    neighbours = [enqueue("mark", seconds=1, _max_attempts=1) for _ in range(3)]
    effects.wait("start", times=3)
    culprit = enqueue("mark_segv", _max_attempts=1)

    dead = wait_for(culprit, Status.DEAD)

    assert (dead.outcome, dead.attempts, dead.interruptions) == (Outcome.CRASHED, 1, 1)
    for job in finished(neighbours, within=30):
        assert (job.status, job.attempts) == (Status.DONE, 1)
        assert job.interruptions >= 1
    crashes = Attempt.objects.filter(outcome=Outcome.CRASHED)
    assert crashes.filter(job=culprit).count() == 2
    assert crashes.count() == 5, "the one they shared, and the culprit's own"


def test_a_stopped_thread_takes_its_slot_to_no_grave(launch: Launch, enqueue: Enqueue, wait_for: WaitFor) -> None:
    """C45: asked to stop again and again, the child keeps its four slots."""
    worker = launch("--processes", "1", "--threads", "4", KILL_GRACE=1, LIMITS={"probe.naps": {"duration": 0.3}})
    (child,) = worker.children
    late = [enqueue("naps", seconds=30, _max_attempts=1) for _ in range(12)]

    assert {job.outcome for job in finished(late)} == {Outcome.DEADLINE}

    assert child in worker.children
    began = enqueue("sleep", seconds=0.8)
    others = [enqueue("sleep", seconds=0.8) for _ in range(3)]
    times = [(job.run_started_at, job.finished_at) for job in finished([began, *others])]
    assert max(start for start, _ in times) < min(end for _, end in times), "all four at once"


@pytest.mark.parametrize("name", ["wait_at", "async_wait_at"])
def test_a_child_with_threads_retires_when_its_time_has_come(
    name: str, launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects, tmp_path: Path
) -> None:
    """C161: what still runs there ends in peace, however long that takes, and once."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    worker = launch("--processes", "1", "--threads", "3", CHILD_MAX_JOBS=3)
    first = worker.children[0]
    longs = [enqueue(name, gate=str(gate), _max_attempts=1) for _ in range(2)]
    effects.wait("start", times=2)
    short = finished([enqueue("ok") for _ in range(10)])
    assert {job.status for job in short} == {Status.DONE}

    until(lambda: len(worker.children) > 1, what="its successor")
    gate.write_bytes(b"12")

    for long in longs:
        done = wait_for(long)
        assert (done.attempts, done.interruptions, done.lease_epoch) == (1, 0, 1)
    assert {row.pid for row in effects.all("start")} == {first}
    assert effects.count("start") == 2
    until(lambda: not processes.is_alive(first), what="the first child's end")
