"""Crashes: a worker that dies takes no task with it."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any, Final

from jobqueue.testing.conformance import api, tasks, trace
from jobqueue.testing.conformance.registry import check

if TYPE_CHECKING:
    from jobqueue.testing.conformance.bench import Bench

_NEEDS: Final = ("get_result", "drain", "worker")


def _expect_end_of_running(bench: Bench, worker: Any, result: Any) -> None:
    """Fail when the task is RUNNING all the time; READY (it is tried again) will do, and any end."""
    ended = bench.keep_working(worker, lambda: bench.get(result).status != api.RUNNING, bench.bounds.crash)
    assert ended, f"still RUNNING {bench.bounds.crash:g} seconds later, and a worker is there"


@check(*_NEEDS)
def a_killed_worker_leaves_nothing_running(bench: Bench) -> None:
    """After kill -9 of the worker's process group its task does not stay RUNNING when another worker is there."""
    mark = bench.mark()
    result = tasks.takes_its_time.enqueue(mark, 300)
    with bench.worker() as worker:
        bench.wait(lambda: bool(trace.read("began", mark)), "the task did not begin")
        worker.kill()
    with bench.worker() as worker:
        _expect_end_of_running(bench, worker, result)
        next_one = tasks.marks.enqueue("x")
        assert bench.keep_working(worker, lambda: bench.get(next_one).is_finished, bench.bounds.run), "stands still"


@check(*_NEEDS)
def a_stopped_worker_leaves_nothing_running(bench: Bench) -> None:
    """After SIGTERM the worker ends, and its task has finished or is READY, then or when another worker is there."""
    mark = bench.mark()
    result = tasks.takes_its_time.enqueue(mark, 3)
    with bench.worker() as worker:
        bench.wait(lambda: bool(trace.read("began", mark)), "the task did not begin")
        worker.send(signal.SIGTERM)
        bench.wait(lambda: worker.has_ended, "the worker did not end")
    if bench.get(result).status == api.RUNNING:
        with bench.worker() as worker:
            _expect_end_of_running(bench, worker, result)


def _survive(bench: Bench, deadly: Any) -> None:
    mark = bench.mark()
    result, innocent = deadly.enqueue(mark), tasks.marks.enqueue("x")
    with bench.worker() as worker:
        bench.wait(lambda: bool(trace.read("began", mark)), "the task did not begin")
        _expect_end_of_running(bench, worker, result)
        assert bench.keep_working(worker, lambda: bench.get(innocent).is_finished, bench.bounds.crash), "stands still"


@check(*_NEEDS)
def a_task_that_is_killed_does_not_stay_running(bench: Bench) -> None:
    """A task whose process is killed (as for its memory) does not stay RUNNING, and others run."""
    _survive(bench, tasks.kills_its_process)


@check(*_NEEDS)
def a_task_that_leaves_its_process_does_not_stay_running(bench: Bench) -> None:
    """A task that ends its process by os._exit() does not stay RUNNING, and others run."""
    _survive(bench, tasks.leaves_its_process)
