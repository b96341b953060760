"""What people ask of a worker: where a handler is, to kill it, to drain or stop; answered in the table, never twice."""

import os
import signal
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from jobqueue import operations
from jobqueue.models import Job, Order, Worker
from jobqueue.outcomes import Outcome
from jobqueue.states import Status

from .effects import Effects
from .kinds import Enqueue, Launch, WaitFor
from .waiting import until

Answered = Callable[..., Order]


@pytest.fixture
def answered(transactional_db: None) -> Answered:
    """Return the function that waits for the answer to an order."""

    def wait(order: Order, *, within: float = 8) -> Any:
        def look() -> Order | None:
            found = Order.objects.get(pk=order.pk)
            return found if found.answered_at else None

        return until(look, within=within, what=lambda: f"an answer to {order.kind} {order.pk}")

    return wait


@pytest.mark.smoke
def test_a_handler_shows_where_it_is_and_works_on(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects, answered: Answered
) -> None:
    launch("--processes", "1", LEASE_SECONDS=60)
    job = enqueue("mark", seconds=4, secret="dragon")
    effects.wait("start")

    order = answered(operations.ask_stack(job.pk, actor="ann"))

    assert order.obeyed
    assert "tests/probe/stopping.py" in order.answer
    assert order.answer.splitlines()[1].endswith("in mark")
    assert "dragon" not in order.answer
    assert (order.answered_at - order.asked_at) < timedelta(seconds=3)
    done = wait_for(job)
    assert (done.attempts, effects.count("start"), effects.count("end")) == (1, 1, 1)


def test_code_in_c_that_holds_the_interpreter_is_seen_and_killed(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects, answered: Answered
) -> None:
    launch("--processes", "1", LEASE_SECONDS=60, LIMITS={"probe.stubborn": {"duration": 60}})
    job = enqueue("stubborn", how="native", _max_attempts=1)
    effects.wait("start")

    seen = answered(operations.ask_stack(job.pk, actor="ann"))
    killed = answered(operations.kill_job(job.pk, actor="ann", reason="it will never end"))

    assert seen.obeyed
    assert "in stubborn" in seen.answer
    assert killed.obeyed
    dead = wait_for(job, Status.DEAD)
    attempt = dead.attempt_rows.get()
    assert (attempt.outcome, attempt.exit_code, attempt.number) == (Outcome.CRASHED, -9, 1)
    assert attempt.error_text.startswith("killed by ann after ")
    assert attempt.error_class == "jobqueue.exceptions.JobKilled"
    wait_for(enqueue("ok"))


def test_a_killed_job_is_tried_again_while_attempts_are_left(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects, answered: Answered
) -> None:
    launch("--processes", "1", LEASE_SECONDS=60)
    job = enqueue("mark", seconds=3)
    effects.wait("start")

    assert answered(operations.kill_job(job.pk, actor="ann")).obeyed

    assert wait_for(job).attempts == 2


def test_a_system_call_is_not_disturbed(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects, answered: Answered
) -> None:
    """Both signals come while it waits in C: a read that was interrupted would return -1."""
    launch("--processes", "1", LEASE_SECONDS=60)
    job = enqueue("reads_in_c", seconds=3)
    effects.wait("start")

    order = answered(operations.ask_stack(job.pk, actor="ann"))

    assert order.obeyed
    assert "in reads_in_c" in order.answer
    assert wait_for(job).result == 1


def test_a_handler_that_waits_for_a_thread_of_its_own_is_seen_and_killed(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects, answered: Answered
) -> None:
    """Waiting for a lock is begun again by the kernel, too: it is faulthandler that tells."""
    launch("--processes", "1", LEASE_SECONDS=60, LIMITS={"probe.stubborn": {"duration": 60}})
    job = enqueue("stubborn", how="thread", _max_attempts=1)
    effects.wait("start")

    order = answered(operations.ask_stack(job.pk, actor="ann"))

    assert order.obeyed
    assert "in join" in order.answer
    assert "in stubborn" in order.answer
    assert answered(operations.kill_job(job.pk, actor="ann")).obeyed
    wait_for(job, Status.DEAD)


@pytest.mark.parametrize("threads", ["1", "3"])
def test_a_coroutine_that_waits_is_seen(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects, answered: Answered, threads: str
) -> None:
    """It stands on no thread's stack."""
    launch("--processes", "1", "--threads", threads, LEASE_SECONDS=60)
    job = enqueue("async_mark", seconds=4)
    effects.wait("start")

    order = answered(operations.ask_stack(job.pk, actor="ann"))

    assert order.obeyed
    assert order.answer.startswith("Coroutine async_mark (most recent call first):")
    assert "in async_mark" in order.answer
    assert wait_for(job).result == "awaited"


def test_among_threads_the_one_that_is_meant_is_seen_and_killed_with_its_neighbours_spared(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects, answered: Answered
) -> None:
    launch("--processes", "1", "--threads", "2", LEASE_SECONDS=60)
    neighbour = enqueue("step_loop", seconds=4)
    effects.wait("step")
    job = enqueue("mark", seconds=20, _max_attempts=1)
    effects.wait("start")

    seen = answered(operations.ask_stack(job.pk, actor="ann"))
    killed = answered(operations.kill_job(job.pk, actor="ann"))

    assert seen.obeyed
    assert "in mark" in seen.answer
    assert "step_loop" not in seen.answer
    assert killed.obeyed
    assert wait_for(job, Status.DEAD).attempt_rows.get().outcome == Outcome.CRASHED
    assert wait_for(neighbour).attempts == 1
    assert neighbour.attempt_rows.get().outcome == Outcome.INTERRUPTED


def test_a_child_that_has_gone_on_to_another_job_is_left_alone(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects, answered: Answered
) -> None:
    """The fence: an order names the attempt, and that one has ended."""
    worker = launch("--processes", "1", LEASE_SECONDS=60)
    ended = wait_for(enqueue("mark"))
    job = enqueue("mark", seconds=3)
    effects.wait("start", times=2)
    running = Job.objects.get(pk=job.pk)
    about = [(ended.pk, ended.lease_epoch), (job.pk, running.lease_epoch - 1), (job.pk, running.lease_epoch + 1)]

    orders = [
        Order.objects.create(worker_id=worker.worker_id, kind=kind, job_id=pk, lease_epoch=epoch, asked_by="ann")
        for pk, epoch in about
        for kind in ("kill", "stack")
    ]
    operations.ask_stack(job.pk, actor="ann")  # tells the worker

    answers = [answered(order) for order in orders]
    assert {(order.obeyed, order.answer) for order in answers} == {(False, "ended")}
    assert wait_for(job).attempts == 1
    assert effects.count("end") == 2


def test_an_order_that_the_worker_does_not_know_is_refused(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects, answered: Answered
) -> None:
    worker = launch("--processes", "1", LEASE_SECONDS=60)
    first = enqueue("stubborn", how="thread")
    effects.wait("start")
    order = Order.objects.create(worker_id=worker.worker_id, kind="fly", job_id=first.pk, lease_epoch=1, asked_by="ann")
    operations.ask_stack(first.pk, actor="ann")

    unknown = answered(order)

    assert (unknown.obeyed, unknown.answer) == (False, "unknown")
    operations.cancel([first.pk], actor="ann")


def test_a_drained_worker_finishes_what_runs_and_ends(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects, answered: Answered
) -> None:
    worker = launch("--processes", "1", LEASE_SECONDS=60, SHUTDOWN_TIMEOUT=20)
    job = enqueue("mark", seconds=2)
    effects.wait("start")
    waiting = enqueue("mark")

    order = answered(operations.drain_worker(worker.worker_id, actor="ann"))

    assert order.obeyed
    assert worker.ends() == 0
    assert wait_for(job).attempts == 1
    assert Job.objects.get(pk=waiting.pk).status == Status.PENDING


def test_an_idle_worker_answers_before_it_ends(launch: Launch, answered: Answered) -> None:
    worker = launch("--processes", "1", LEASE_SECONDS=60)

    order = operations.drain_worker(worker.worker_id, actor="ann")

    assert worker.ends() == 0
    assert Order.objects.get(pk=order.pk).obeyed
    assert not Worker.objects.exists()


def test_a_stopped_worker_cuts_off_what_runs(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects, answered: Answered
) -> None:
    """After a drain too: it is as a second signal."""
    worker = launch("--processes", "1", LEASE_SECONDS=60, SHUTDOWN_TIMEOUT=60)
    job = enqueue("mark", seconds=60)
    effects.wait("start")
    answered(operations.drain_worker(worker.worker_id, actor="ann"))

    answered(operations.stop_worker(worker.worker_id, actor="ann"))

    assert worker.ends(within=10) == 3
    given_back = Job.objects.get(pk=job.pk)
    assert (given_back.status, given_back.attempts) == (Status.PENDING, 0)


def test_orders_are_found_without_a_hint(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects, answered: Answered
) -> None:
    launch("--processes", "1", LEASE_SECONDS=60, NOTIFY="off")
    job = enqueue("mark", seconds=5)
    effects.wait("start")

    order = answered(operations.ask_stack(job.pk, actor="ann"))

    assert order.obeyed
    wait_for(job)


def test_a_child_that_stands_still_is_said_to_be_silent(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects, answered: Answered
) -> None:
    worker = launch("--processes", "1", LEASE_SECONDS=60)
    job = enqueue("slices", count=20)
    effects.wait("slice")
    (child,) = worker.children
    os.kill(child, signal.SIGSTOP)
    try:
        order = answered(operations.ask_stack(job.pk, actor="ann"))
    finally:
        os.kill(child, signal.SIGCONT)

    assert (order.obeyed, order.answer) == (False, "silent")
    assert wait_for(job).attempts == 1
