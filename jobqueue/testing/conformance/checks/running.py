"""Running: coroutines, context, priority, time and queues."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from django.utils import timezone

from jobqueue.testing.conformance import api, tasks, trace
from jobqueue.testing.conformance.registry import check

if TYPE_CHECKING:
    from jobqueue.testing.conformance.bench import Bench

_NEEDS: Final = ("get_result", "drain")


def _coroutines() -> Any:
    """Return the module of the coroutines; a backend that takes none refuses to have it imported."""
    from jobqueue.testing.conformance import async_tasks  # noqa: PLC0415

    return async_tasks


@check("async_task", *_NEEDS)
def a_coroutine_runs(bench: Bench) -> None:
    """A coroutine function as a task is awaited, and what it returns is the return value."""
    (result,) = bench.drain(_coroutines().adds.enqueue(1, 2))
    assert (result.status, result.return_value) == (api.SUCCESSFUL, 3)


@check("async_task", *_NEEDS)
def a_coroutine_fails(bench: Bench) -> None:
    """A coroutine that raises has FAILED with that error."""
    (result,) = bench.drain(_coroutines().fails.enqueue())
    assert (result.status, result.errors[-1].exception_class_path) == (api.FAILED, "builtins.LookupError")


@check(*_NEEDS)
def the_context_tells_of_the_task(bench: Bench) -> None:
    """A task with takes_context gets its own result and the number of its attempt."""
    (result,) = bench.drain(tasks.tells_context.enqueue())
    assert (result.status, result.return_value) == (api.SUCCESSFUL, [str(result.id), 1])


@check("priority", *_NEEDS)
def a_higher_priority_runs_first(bench: Bench) -> None:
    """Of tasks that wait, one of a higher priority begins first (with one worker that runs one at a time)."""
    marks = {priority: bench.mark() for priority in (-50, 100, 0, 50, -100)}
    results = [tasks.marks.using(priority=priority).enqueue(mark) for priority, mark in marks.items()]
    bench.drain(*results)
    ran = [line["key"] for line in trace.read("ran") if line["key"] in marks.values()]
    assert ran == [marks[priority] for priority in sorted(marks, reverse=True)]


@check("defer", *_NEEDS)
def a_deferred_task_waits(bench: Bench) -> None:
    """A task does not run before its run_after."""
    mark = bench.mark()
    later = tasks.marks.using(run_after=timezone.now() + timedelta(hours=1)).enqueue(mark)
    bench.drain(tasks.marks.enqueue("x"))
    assert (bench.ran(mark), bench.get(later).status) == (0, api.READY)


@check("defer", *_NEEDS)
def a_deferred_task_runs_when_it_is_due(bench: Bench) -> None:
    """A task whose run_after has come runs."""
    (result,) = bench.drain(tasks.marks.using(run_after=timezone.now() - timedelta(hours=1)).enqueue("x"))
    assert result.status == api.SUCCESSFUL


@check(*_NEEDS)
def a_task_of_another_queue_runs(bench: Bench) -> None:
    """A task of a queue that is not the default one runs, where the worker serves all."""
    (result,) = bench.drain(tasks.marks.using(queue_name="second").enqueue("x"))
    assert result.status == api.SUCCESSFUL
