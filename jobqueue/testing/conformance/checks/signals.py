"""Signals: the class of the backend is the sender, and each is sent once, at its time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from jobqueue.testing.conformance import api, tasks
from jobqueue.testing.conformance.registry import check

if TYPE_CHECKING:
    from jobqueue.testing.conformance.bench import Bench

_NEEDS: Final = ("get_result", "drain")


def _run(bench: Bench, task: Any) -> Any:
    result = task.enqueue("x")
    # The last signal may follow the verdict.
    bench.drain(result, until=lambda: bool(bench.traced("finished", result)))
    return result


def _expect(bench: Bench, kind: str, result: Any, **expected: Any) -> None:
    told = bench.traced(kind, result)
    assert told, f"task_{kind} was not sent"
    sender = type(bench.backend)
    expected["sender"] = f"{sender.__module__}.{sender.__qualname__}"
    assert {name: told[0][name] for name in expected} == expected


@check()
def task_enqueued_is_sent(bench: Bench) -> None:
    """task_enqueued is sent by the backend's class with the READY result."""
    result = tasks.marks.enqueue("x")
    _expect(bench, "enqueued", result, status=str(api.READY))


@check(*_NEEDS)
def task_started_is_sent(bench: Bench) -> None:
    """task_started is sent by the backend's class with the RUNNING result, the worker's id in it."""
    result = _run(bench, tasks.marks)
    _expect(bench, "started", result, status=str(api.RUNNING), worker_ids=1)


@check(*_NEEDS)
def task_finished_is_sent_after_success(bench: Bench) -> None:
    """task_finished is sent by the backend's class with the SUCCESSFUL result."""
    result = _run(bench, tasks.marks)
    _expect(bench, "finished", result, status=str(api.SUCCESSFUL))


@check(*_NEEDS)
def task_finished_is_sent_while_the_error_is_handled(bench: Bench) -> None:
    """After a failure task_finished is sent with the FAILED result while the error is handled: exc_info is there."""
    result = _run(bench, tasks.fails)
    _expect(bench, "finished", result, status=str(api.FAILED), handled="ValueError")


@check(*_NEEDS)
def each_signal_is_sent_once(bench: Bench) -> None:
    """For a task that succeeds at once each signal is sent once."""
    result = _run(bench, tasks.marks)
    counts = {kind: len(bench.traced(kind, result)) for kind in ("enqueued", "started", "finished")}
    assert counts == {"enqueued": 1, "started": 1, "finished": 1}
