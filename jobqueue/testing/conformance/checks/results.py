"""Results: found again, equal, refused for wrong ids, and right about how a task ended."""

from __future__ import annotations

import uuid
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from asgiref.sync import async_to_sync
from django.utils import timezone

from jobqueue.testing.conformance import api, tasks
from jobqueue.testing.conformance.registry import check

from .enqueueing import refusal

if TYPE_CHECKING:
    from jobqueue.testing.conformance.bench import Bench

_RESULT: Final = "get_result"
_MALFORMED: Final = ("", "no-id", "x" * 500, "a\0b", "-1", "1e3", "9" * 40, "١٢٣", "🂡")


@check(_RESULT)
def get_result_equals_what_enqueue_returned(bench: Bench) -> None:
    """get_result() returns a TaskResult that is equal to the one of enqueue()."""
    result = tasks.echoes.enqueue("ü", {"deep": [1.5, None, True]})
    assert bench.backend.get_result(result.id) == result
    assert tasks.echoes.get_result(result.id) == result


@check(_RESULT)
def aget_result_equals_what_enqueue_returned(bench: Bench) -> None:
    """aget_result() returns the same."""
    result = tasks.echoes.enqueue("ü")
    assert async_to_sync(bench.backend.aget_result)(result.id) == result


@check(_RESULT)
def using_is_kept(bench: Bench) -> None:
    """What using() was given is on the task of the result that is read again: queue, priority, run_after."""
    values: dict[str, Any] = {"queue_name": "second"}
    if bench.supports("priority"):
        values["priority"] = 7
    if bench.supports("defer"):
        values["run_after"] = timezone.now() + timedelta(hours=1)
    result = tasks.marks.using(**values).enqueue("x")
    read = bench.get(result).task
    assert {name: getattr(read, name) for name in values} == values


@check(_RESULT)
def an_unknown_id_does_not_exist(bench: Bench) -> None:
    """An id that nobody was given raises TaskResultDoesNotExist, also of aget_result()."""
    # Of the kind that the backend gives, so that it is not malformed.
    is_number = tasks.marks.enqueue("x").id.isdecimal()
    unknown = "9000000000000000001" if is_number else str(uuid.uuid4())
    refusal(partial(bench.backend.get_result, unknown), api.TaskResultDoesNotExist)
    refusal(partial(async_to_sync(bench.backend.aget_result), unknown), api.TaskResultDoesNotExist)


@check(_RESULT)
def a_malformed_id_does_not_exist(bench: Bench) -> None:
    """Whatever text is given as an id: TaskResultDoesNotExist, no error of a parser or a database."""
    for malformed in _MALFORMED:
        try:
            refusal(partial(bench.backend.get_result, malformed), api.TaskResultDoesNotExist)
        except AssertionError as error:
            raise AssertionError(f"id {malformed[:20]!r}: {error}") from error


@check(_RESULT)
def the_result_of_another_task_is_a_mismatch(bench: Bench) -> None:
    """Task.get_result() with the id of another task's result raises TaskResultMismatch."""
    result = tasks.marks.enqueue("x")
    refusal(lambda: tasks.echoes.get_result(result.id), api.TaskResultMismatch)


@check(_RESULT)
def the_alias_is_kept(bench: Bench) -> None:
    """A task of another alias says so in its result, also when it is read again."""
    result = tasks.marks.using(backend="second").enqueue("x")
    assert result.backend == "second"
    assert api.task_backends["second"].get_result(result.id).backend == "second"


@check(_RESULT, "drain")
def a_successful_result_tells_all(bench: Bench) -> None:
    """After success: SUCCESSFUL, the return value, no errors, and times in order."""
    mark = bench.mark()
    (result,) = bench.drain(tasks.marks.enqueue(mark))
    assert result.status == api.SUCCESSFUL
    assert (result.return_value, list(result.errors), bench.ran(mark)) == (mark, [], 1)
    times = [result.enqueued_at, result.started_at, result.last_attempted_at, result.finished_at]
    assert None not in times, f"a time is missing: {times}"
    # The clocks of two machines may differ a little.
    assert times[0] <= times[1] + timedelta(seconds=1), f"started before it was enqueued: {times}"
    assert times[1] <= times[2] <= times[3], f"not in order: {times}"


@check(_RESULT, "drain")
def refresh_reads_again(bench: Bench) -> None:
    """refresh() brings an old result up to date."""
    result = tasks.marks.enqueue("x")
    bench.drain(result)
    result.refresh()
    assert (result.status, result.return_value) == (api.SUCCESSFUL, "x")


@check(_RESULT, "drain")
def arefresh_reads_again(bench: Bench) -> None:
    """arefresh() does, too."""
    result = tasks.marks.enqueue("x")
    bench.drain(result)
    async_to_sync(result.arefresh)()
    assert (result.status, result.return_value) == (api.SUCCESSFUL, "x")


@check(_RESULT, "drain")
def a_failed_result_tells_all(bench: Bench) -> None:
    """After an error: FAILED, the class and the traceback of the error, and no return value."""
    mark = bench.mark()
    (result,) = bench.drain(tasks.fails.enqueue(mark))
    assert result.status == api.FAILED
    assert result.errors, "no error is told"
    assert result.errors[-1].exception_class_path == "builtins.ValueError"
    assert f"failed on purpose: {mark}" in result.errors[-1].traceback, "the message is not in the traceback"
    assert "conformance/tasks.py" in result.errors[-1].traceback, "the task is not in the traceback"
    refusal(lambda: result.return_value, ValueError)


@check(_RESULT, "drain")
def a_worker_id_for_each_attempt(bench: Bench) -> None:
    """worker_ids has a text for each attempt, so that `attempts` is right; errors has one for each that failed."""
    done, failed = bench.drain(tasks.marks.enqueue("x"), tasks.fails.enqueue("x"))
    assert [isinstance(worker_id, str) and worker_id != "" for worker_id in done.worker_ids] == [True]
    assert len(failed.worker_ids) == len(failed.errors) >= 1


@check(_RESULT, "drain")
def a_return_value_is_normalised(bench: Bench) -> None:
    """A return value is as JSON has it: tuples have become lists."""
    (result,) = bench.drain(tasks.returns_tuple.enqueue())
    assert repr(result.return_value) == repr([1, [2, "drei"], {"vier": None}])


@check(_RESULT, "drain")
def arguments_reach_the_task(bench: Bench) -> None:
    """A task gets the arguments as they were given: deep, of any script, and not small."""
    deep: Any = "tief"
    for _ in range(50):
        deep = [deep]
    args = ["ключ 鍵 🗝", -0.5, 2**53, None, False, [], {}, deep]
    kwargs = {"größe": "x" * 100_000, "self_": {"": ""}}
    (result,) = bench.drain(tasks.echoes.enqueue(*args, **kwargs))
    assert result.status == api.SUCCESSFUL, [error.traceback[-500:] for error in result.errors]
    assert result.return_value == {"args": args, "kwargs": kwargs}
