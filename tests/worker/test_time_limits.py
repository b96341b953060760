"""A job past its deadline is asked to stop, then killed with all it started; time that does not count does not."""

import signal
from datetime import timedelta

import pytest

from jobqueue.models import Job
from jobqueue.outcomes import Outcome
from jobqueue.states import Status

from . import processes
from .effects import Effects
from .kinds import Enqueue, Launch, WaitFor
from .launching import RunningWorker
from .test_outcomes import finished
from .waiting import holds_for, until


def freeze(worker: RunningWorker, seconds: float, *, alone: bool = False) -> None:
    """Stop the worker's processes, or its supervisor alone, and let them go on after a while."""
    send = worker.send if alone else worker.signal_tree
    send(signal.SIGSTOP)
    until(lambda: processes.stat_fields(worker.pid)[0] == "T", what="it stands still")
    holds_for(seconds, lambda: processes.stat_fields(worker.pid)[0] == "T", what="it still does")
    send(signal.SIGCONT)


@pytest.mark.smoke
def test_a_job_past_its_deadline_is_asked_first_and_tried_again(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    worker = launch("--processes", "1", LIMITS={"probe.tidy_stop": {"duration": 0.5}})
    (child,) = worker.children
    job = enqueue("tidy_stop", seconds=30, _max_attempts=2)

    dead = wait_for(job, Status.DEAD)

    assert [row.detail for row in effects.all("stopped")] == ["JobDeadlineExceeded"] * 2
    assert (dead.outcome, dead.error_class) == (Outcome.DEADLINE, "jobqueue.exceptions.JobDeadlineExceeded")
    assert child in worker.children, "a handler that stops when asked costs no process"
    run_time = dead.finished_at - dead.run_started_at
    assert timedelta(seconds=0.45) < run_time < timedelta(seconds=1)


def test_a_handler_that_cannot_be_asked_is_killed(launch: Launch, enqueue: Enqueue) -> None:
    """C45: native code, a broad except, ignored signals: stopped within limit + 2 s, and the slots are free again."""
    launch("--processes", "3")
    jobs = finished([enqueue("stubborn", how=how, _max_attempts=1) for how in ("native", "except_all", "ignored")])

    for dead in jobs:
        assert (dead.status, dead.outcome) == (Status.DEAD, Outcome.DEADLINE)
        assert dead.attempt_rows.get().exit_code == -9
        assert "deadline of 0.6 s" in dead.last_error
        assert (dead.finished_at - dead.claimed_at).total_seconds() < 2.6
    assert {job.status for job in finished([enqueue("ok") for _ in range(6)])} == {Status.DONE}


def test_a_handler_that_holds_the_interpreter_is_stopped(launch: Launch, enqueue: Enqueue) -> None:
    """C45: no other thread of its process can run; the signal ends the call, or the kill does."""
    launch("--processes", "1")
    (dead,) = finished([enqueue("stubborn", how="hold_gil", _max_attempts=1)])

    assert (dead.status, dead.outcome) == (Status.DEAD, Outcome.DEADLINE)
    assert (dead.finished_at - dead.claimed_at).total_seconds() < 2.6


def test_a_thread_that_a_stopped_handler_leaves_ends_with_its_process(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    """C45: what the stop did not reach runs on in no process."""
    launch("--processes", "1")
    job = enqueue("stubborn", how="thread", _max_attempts=1)

    dead = wait_for(job, Status.DEAD)

    assert dead.outcome == Outcome.DEADLINE
    pid = effects.all("start", job_id=job.pk)[0].pid
    until(lambda: not processes.is_alive(pid), within=2, what="the child's end")
    wait_for(enqueue("ok"))


def test_a_handler_that_swallows_its_deadline_has_not_succeeded(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor
) -> None:
    """C45: not reported as success."""
    launch()
    dead = wait_for(enqueue("swallow_stop", _max_attempts=1), Status.DEAD)

    assert (dead.outcome, dead.result) == (Outcome.DEADLINE, None)


def test_a_stop_that_a_destructor_swallows_is_given_again(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    """C45: Python drops what is raised in a destructor, or in a hook of os.fork(); the log is quiet."""
    worker = launch("--processes", "1", LIMITS={"probe.drops_slowly": {"duration": 1}}, KILL_GRACE=2)
    (child,) = worker.children

    dead = wait_for(enqueue("drops_slowly", _max_attempts=1), Status.DEAD)

    assert dead.outcome == Outcome.DEADLINE
    assert [row.detail for row in effects.all("stopped")] == ["JobDeadlineExceeded"]
    assert child in worker.children
    assert "Exception ignored" not in worker.log


def test_a_deadline_can_be_for_good(launch: Launch, enqueue: Enqueue, wait_for: WaitFor) -> None:
    launch()
    dead = wait_for(enqueue("dead_late", _max_attempts=5), Status.DEAD)

    assert (dead.attempts, dead.outcome) == (1, Outcome.DEADLINE)


def test_the_time_in_the_queue_does_not_count(launch: Launch, enqueue: Enqueue, wait_for: WaitFor) -> None:
    """C165: a job waits longer than its limit of a second, behind others, and still has its second."""
    launch("--processes", "1")
    for _ in range(3):
        enqueue("sleep", seconds=0.5)
    job = enqueue("limited", seconds=0.7, _max_attempts=1)

    done = wait_for(job)

    assert (done.claimed_at - done.created_at).total_seconds() > 1


def test_a_job_frozen_past_its_limit_goes_on_where_it_was(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    """C165: the limit counts the time that the worker was there to give."""
    worker = launch("--processes", "1", LEASE_SECONDS=30, LIMITS={"probe.slices": {"duration": 2.5}})
    job = enqueue("slices", count=15, _max_attempts=1)
    effects.wait("slice", times=3)

    freeze(worker, 3)

    assert wait_for(job).attempts == 1
    assert effects.count("slice") == 15


def test_a_supervisor_frozen_alone_takes_the_result_that_came_meanwhile(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    """C165: the child went on, and ended in time; the frozen supervisor finds the result, not a deadline."""
    worker = launch("--processes", "1", LEASE_SECONDS=30)
    job = enqueue("limited", seconds=0.8, _max_attempts=1)
    effects.wait("start")

    freeze(worker, 2.5, alone=True)

    wait_for(job)


def test_every_deadline_is_told(launch: Launch, enqueue: Enqueue, wait_for: WaitFor) -> None:
    worker = launch(LIMITS={"probe.sleep": {"duration": 0.4}})
    job = enqueue("sleep", seconds=30, _max_attempts=1)

    wait_for(job, Status.DEAD)

    worker.says("job needs attention")
    assert f"job_id={job.pk} job_type=probe.sleep queue=default reason=limit outcome=deadline" in worker.log
    until(lambda: Job.objects.filter(job_type="jobqueue.notify", status=Status.DONE).count() == 1)


def test_an_alarm_that_a_handler_forgot_does_not_go_off_in_the_next_job(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor
) -> None:
    """C45: in-process alarms belong to the attempt that set them."""
    launch("--processes", "1")
    wait_for(enqueue("forgets_alarm"))

    assert wait_for(enqueue("sleep", seconds=1.3, _max_attempts=1)).attempts == 1
