"""Handlers that are coroutines, one at a time or side by side in one child."""

import pytest

from jobqueue.outcomes import Outcome
from jobqueue.states import Status

from .effects import Effects
from .kinds import Enqueue, Launch, WaitFor
from .test_outcomes import finished

ARRANGEMENTS = pytest.mark.parametrize("arguments", [(), ("--threads", "4")], ids=["alone", "shared loop"])


@ARRANGEMENTS
def test_a_coroutine_is_awaited_and_may_use_the_orm(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, arguments: tuple[str, ...]
) -> None:
    launch("--processes", "1", *arguments)

    assert wait_for(enqueue("async_ok", seconds=0.05)).result == "awaited"
    assert [job.result for job in finished([enqueue("async_orm") for _ in range(5)])] == [0] * 5


@ARRANGEMENTS
def test_whatever_a_coroutine_raises_ends_its_attempt_only(
    launch: Launch, enqueue: Enqueue, arguments: tuple[str, ...]
) -> None:
    """C47: SystemExit and KeyboardInterrupt end neither the event loop nor the neighbours."""
    worker = launch("--processes", "1", *arguments)
    kinds = {"exit": "SystemExit", "keyboard": "KeyboardInterrupt", "cancelled": "asyncio.exceptions.CancelledError"}
    neighbours = [enqueue("async_ok", seconds=0.3) for _ in range(2)]
    failing = {kind: enqueue("async_raises", kind=kind) for kind in [*kinds, "boom"]}

    ended = dict(zip(failing, finished(list(failing.values())), strict=True))

    assert {kind: job.error_class for kind, job in ended.items()} == {**kinds, "boom": "RuntimeError"}
    assert {job.outcome for job in ended.values()} == {Outcome.FAILED}
    assert {job.status for job in finished(neighbours)} == {Status.DONE}
    assert finished([enqueue("async_ok")])[0].attempts == 1
    assert worker.code is None


@pytest.mark.parametrize("threads", ["1", "2"], ids=["alone", "shared loop"])
def test_a_late_coroutine_is_stopped(launch: Launch, enqueue: Enqueue, threads: str) -> None:
    """C45: asked by its cancellation; killed where it computes or swallows that; then the slots are free again."""
    launch("--processes", "3", "--threads", threads)
    late = [enqueue("async_late", how=how) for how in ("waits", "computes", "swallows")]

    for dead in finished(late):
        assert (dead.status, dead.outcome) == (Status.DEAD, Outcome.DEADLINE)
        assert (dead.finished_at - dead.claimed_at).total_seconds() < 2.6
    assert {job.status for job in finished([enqueue("async_ok") for _ in range(6)])} == {Status.DONE}


def test_only_the_late_one_of_several_coroutines_is_stopped(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    """C45: a neighbour on the same loop goes on to its end, uninterrupted."""
    launch("--processes", "1", "--threads", "4")
    neighbour = enqueue("async_mark", seconds=1.5)
    late = enqueue("async_late", how="waits")

    assert wait_for(late, Status.DEAD).outcome == Outcome.DEADLINE

    done = wait_for(neighbour)
    assert (done.attempts, done.interruptions) == (1, 0)
    assert [row.event for row in effects.all(job_id=neighbour.pk)] == ["start", "end"]
