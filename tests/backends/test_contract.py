"""The contract of a django.tasks backend, on the real table: enqueue, results, errors, contexts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext, override_settings
from django.utils import timezone

from jobqueue.backends.compat import (
    InvalidTask,
    TaskResultDoesNotExist,
    TaskResultMismatch,
    TaskResultStatus,
    task_backends,
)
from jobqueue.exceptions import PayloadError
from jobqueue.models import Job
from jobqueue.states import Status
from jobqueue.testing import drain, run_once
from tests.backends import tasks

pytestmark = pytest.mark.django_db
MALFORMED: list[Any] = [
    *("", "0", "-1", "+1", "1.0", "1e3", " 1", "1\n", "01", "\u0661", "9" * 30, "9223372036854775808", "not-a-number"),
    *("a" * 9000, "6f0e5b9c-8f0f-4d55-9f0c-2f1d1a0f4c11", "1; DROP TABLE jobqueue_job", "\x00", None, 5, 1.5, b"1"),
]
HOSTILE = {
    "exit": "SystemExit",
    "interrupt": "KeyboardInterrupt",
    "object": "TypeError",
    "nan": "ResultError",
    "nul": "ResultError",
}
READY, FAILED, SUCCESSFUL = TaskResultStatus.READY, TaskResultStatus.FAILED, TaskResultStatus.SUCCESSFUL


@pytest.mark.smoke
def test_a_task_is_enqueued_run_and_told_of() -> None:
    result = tasks.adds.enqueue(1, 2, start=3)

    assert (result.status, result.args, result.kwargs, result.backend) == (READY, [1, 2], {"start": 3}, "default")
    assert (result.errors, result.worker_ids, result.attempts, result.is_finished) == ([], [], 0, False)
    with pytest.raises(ValueError, match="Task has not finished yet"):
        _ = result.return_value

    assert drain() == [(int(result.id), Status.DONE)]

    result.refresh()
    assert (result.status, result.return_value, result.errors) == (SUCCESSFUL, 6, [])
    assert result.worker_ids == ["run_once"]
    assert result.enqueued_at is not None
    assert result.started_at is not None
    assert result.enqueued_at <= result.started_at == result.last_attempted_at
    assert result.finished_at is not None
    assert result.started_at <= result.finished_at


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"priority": 7},
        {"priority": -100},
        {"queue_name": "slow", "backend": "other"},
        {"run_after": datetime(2099, 1, 1, 12, 30, 15, 123456, tzinfo=UTC)},
        {"run_after": timezone.make_aware(datetime(2001, 2, 3), timezone.get_fixed_timezone(150))},
    ],
    ids=str,
)
def test_get_result_equals_what_enqueue_returned(changes: dict[str, Any]) -> None:
    task = tasks.echoes.using(**changes)
    result = task.enqueue(1, 2.5, None, ["a", {"b": True}], key="ü", other={"c": [1]})

    assert task.get_result(result.id) == result
    assert task_backends[task.backend].get_result(result.id).task == task


def test_results_stay_equal_to_their_task_through_retries() -> None:
    task = tasks.fails_twice.using(priority=3, run_after=datetime(2020, 1, 1, tzinfo=UTC))
    result = task.enqueue()
    run_once()

    assert task.get_result(result.id).task == task


def test_enqueue_is_one_query_in_a_transaction_and_outside() -> None:
    tasks.adds.enqueue(1)
    with CaptureQueriesContext(connection) as inside:
        result = tasks.adds.enqueue(1)
    with CaptureQueriesContext(connection) as reading:
        tasks.adds.get_result(result.id)

    assert (len(inside), len(reading)) == (1, 1), inside.captured_queries


@pytest.mark.django_db(transaction=True)
def test_enqueue_is_one_query_with_its_own_commit() -> None:
    tasks.adds.enqueue(1)
    with CaptureQueriesContext(connection) as outside:
        result = tasks.adds.enqueue(2)

    assert len(outside) == 1
    assert "CALL" in outside.captured_queries[0]["sql"]
    assert tasks.adds.get_result(result.id) == result


@pytest.mark.django_db(transaction=True)
def test_a_task_is_there_in_its_transaction_and_gone_with_a_rollback() -> None:
    with transaction.atomic():
        result = tasks.adds.enqueue(1)
        assert tasks.adds.get_result(result.id).status == READY
        transaction.set_rollback(True)

    with pytest.raises(TaskResultDoesNotExist):
        tasks.adds.get_result(result.id)


@pytest.mark.parametrize(
    "result_id",
    MALFORMED,
    ids=repr,
)
def test_a_malformed_id_is_a_result_that_does_not_exist(result_id: Any) -> None:
    with CaptureQueriesContext(connection) as queries, pytest.raises(TaskResultDoesNotExist):
        task_backends["default"].get_result(result_id)

    assert len(queries) == 0


def test_a_job_that_is_no_task_and_one_of_another_alias_do_not_exist() -> None:
    job = Job.objects.enqueue("probe.ok")
    assert job is not None
    other = tasks.adds.using(backend="other").enqueue(1)

    for result_id in (str(job.pk), other.id, "9223372036854775807"):
        with pytest.raises(TaskResultDoesNotExist):
            task_backends["default"].get_result(result_id)
    assert task_backends["other"].get_result(other.id) == other


def test_the_result_of_another_task_does_not_match() -> None:
    with pytest.raises(TaskResultMismatch):
        tasks.fails.get_result(tasks.adds.enqueue(1).id)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"priority": 101}, "priority must be a whole number between -100 and 100."),
        ({"priority": 0.5}, "priority must be a whole number between -100 and 100."),
        ({"run_after": datetime(2099, 1, 1)}, "run_after must be an aware datetime."),
        ({"queue_name": "emial", "backend": "other"}, "Queue 'emial' is not valid for backend."),
        ({"queue_name": "no queue"}, 'queue "no queue"'),
        ({"queue_name": "q" * 64}, "64 bytes"),
    ],
    ids=str,
)
def test_what_cannot_be_enqueued_is_refused(change: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidTask, match=text):
        tasks.adds.using(**change)


def test_a_task_is_checked_again_at_enqueue() -> None:
    task = tasks.adds.using(queue_name="anything")
    backend = {"BACKEND": "jobqueue.backends.JobQueueBackend", "QUEUES": ["default"]}

    with override_settings(TASKS={"default": backend}):
        with pytest.raises(InvalidTask, match="Queue 'anything' is not valid"):
            task.enqueue(1)
        with pytest.raises(InvalidTask, match="Queue 'anything' is not valid"):
            async_to_sync(task.aenqueue)(1)

    assert not Job.objects.exists()


def nest(inner: Any, _: int) -> Any:
    return [inner]


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (object(), TypeError, r"Unsupported type: <class 'object'> in args\[0\]"),
        ({1, 2}, TypeError, r"Unsupported type: <class 'set'> in args\[0\]"),
        (timezone.now(), TypeError, "Unsupported type"),
        (b"\xff", ValueError, "Unsupported value"),
        (float("nan"), PayloadError, r"args.*NaN|nan"),
        ([{"deep": float("inf")}], PayloadError, "deep"),
        ("a\x00b", PayloadError, "NUL"),
        ("\ud800", PayloadError, "surrogate"),
        ({1: "number as key"}, PayloadError, "key"),
        (reduce(nest, range(5000), None), ValueError, r"nested too deeply in args\[0\]"),
    ],
    ids=["object", "set", "datetime", "bytes", "nan", "infinity", "nul", "surrogate", "key", "depth"],
)
@pytest.mark.parametrize("backend", ["default", "immediate", "dummy"])
def test_arguments_that_cannot_be_stored_are_refused_by_name(
    backend: str, value: Any, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        tasks.echoes.using(backend=backend).enqueue(value)

    assert not Job.objects.exists()


def test_bytes_and_tuples_arrive_as_json_has_them() -> None:
    result = tasks.echoes.enqueue(b"text", (1, 2), key=(b"x",))
    drain()
    result.refresh()

    assert result.args == ["text", [1, 2]]
    assert result.return_value == {"args": ["text", [1, 2]], "kwargs": {"key": ["x"]}}


@pytest.mark.smoke
def test_higher_priority_runs_first_and_is_turned_round() -> None:
    ids = {p: int(tasks.adds.using(priority=p).enqueue(p).id) for p in (-100, 0, 100, 50)}

    assert [job_id for job_id, _ in drain()] == [ids[100], ids[50], ids[0], ids[-100]]
    assert {Job.objects.get(pk=job_id).priority for job_id in ids.values()} == {0, 50, 100, 200}


def test_run_after_is_kept_and_a_past_one_runs_now() -> None:
    now = timezone.now()
    later = tasks.adds.using(run_after=now + timedelta(seconds=5)).enqueue(1)
    past = tasks.adds.using(run_after=now - timedelta(days=1)).enqueue(2)
    far = tasks.adds.using(run_after=datetime(9999, 12, 1, tzinfo=UTC)).enqueue(3)

    assert drain() == [(int(past.id), Status.DONE)]
    row = Job.objects.get(pk=int(later.id))
    assert abs(row.run_after - now - timedelta(seconds=5)) < timedelta(seconds=1)
    assert [tasks.adds.get_result(one.id).status for one in (later, far)] == [READY, READY]


def test_an_error_is_final_and_told() -> None:
    result = tasks.fails.enqueue("the reason")
    drain()
    result.refresh()

    assert (result.status, len(result.errors), result.attempts) == (FAILED, 1, 1)
    assert result.errors[0].exception_class is ValueError
    assert result.errors[0].traceback.startswith("Traceback (most recent call last):\n")
    assert result.errors[0].traceback.endswith("ValueError: the reason\n")
    assert "jobqueue/" not in result.errors[0].traceback
    with pytest.raises(ValueError, match="Task failed"):
        _ = result.return_value


@pytest.mark.parametrize(
    ("kind", "error"),
    HOSTILE.items(),
)
def test_whatever_a_task_does_it_has_failed(kind: str, error: str) -> None:
    result = tasks.raises_in_turn.enqueue(kind)
    after = tasks.adds.enqueue(1)

    assert [status for _, status in drain()] == [Status.DEAD, Status.DONE]
    result.refresh()
    after.refresh()
    assert result.status == FAILED
    assert result.errors[0].exception_class.__name__ == error
    assert after.return_value == 1


@pytest.mark.smoke
def test_contexts_and_coroutines() -> None:
    results: list[Any] = [tasks.tells.enqueue("hello"), tasks.waits.enqueue(0), tasks.waits_with_context.enqueue()]
    drain()
    for result in results:
        result.refresh()

    told = {"attempt": 1, "id": results[0].id, "status": "RUNNING", "word": "hello"}
    assert [result.return_value for result in results] == [told, "waited", 1]


@pytest.mark.smoke
def test_async_enqueue_and_results() -> None:
    async def through() -> Any:
        result = await tasks.adds.aenqueue(4, 5)
        assert await tasks.adds.aget_result(result.id) == result
        with pytest.raises(TaskResultDoesNotExist):
            await tasks.adds.aget_result("nonsense")
        return result

    result = async_to_sync(through)()
    drain()
    async_to_sync(result.arefresh)()

    assert result.return_value == 9


def test_settings_may_change_the_backend() -> None:
    with override_settings(TASKS={"default": {"BACKEND": "jobqueue.backends.DummyBackend"}}):
        tasks.adds.enqueue(1)
        assert len(task_backends["default"].results) == 1  # type: ignore[attr-defined]
    assert not Job.objects.exists()

    tasks.adds.enqueue(1)
    assert Job.objects.count() == 1
