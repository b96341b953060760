"""Policies at work, on the real table: attempts, limits, keys, costs, names that are no types."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import django
import pytest
from django.test.utils import override_settings

from jobqueue import Limits
from jobqueue.backends import TaskCall, task
from jobqueue.backends.compat import InvalidTask, TaskResultStatus, task_backends
from jobqueue.backends.handling import handler_of
from jobqueue.backends.naming import type_of
from jobqueue.backends.results import TaskGone
from jobqueue.checks import check_handlers
from jobqueue.handlers import Handler
from jobqueue.models import Cost, Job
from jobqueue.outcomes import Outcome
from jobqueue.registry import registry
from jobqueue.states import Status
from jobqueue.testing import drain, run_once
from tests.backends import tasks

FORWARDS = not (6, 0) <= django.VERSION < (6, 1)
LONG = tasks.says_its_name_at_length_although_nobody_asked_for_a_name_of_more_than_sixty_three_bytes
READY, FAILED = TaskResultStatus.READY, TaskResultStatus.FAILED


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("enqueue", "value"),
    [
        (lambda: LONG.enqueue(), "long"),
        (lambda: tasks.größe.enqueue(3), 3),
    ],
    ids=["long", "not ASCII"],
)
def test_such_a_task_is_stored_found_and_run(enqueue: Callable[[], Any], value: Any) -> None:
    result = enqueue()
    registry._tasks.pop(Job.objects.get(pk=int(result.id)).job_type)

    assert drain() == [(int(result.id), Status.DONE)]
    result.refresh()

    assert result.return_value == value


@pytest.mark.django_db
def test_an_edited_payload_chooses_no_other_code() -> None:
    job = int(tasks.adds.enqueue(1).id)
    name = Job.objects.get(pk=job).job_type
    Job.objects.filter(pk=job).update(payload={"args": [], "kwargs": {}, "backend": "default", "path": "os.system"})
    registry._tasks.pop(name)

    drain()

    assert Job.objects.get(pk=job).outcome == Outcome.UNKNOWN_TYPE


@pytest.mark.django_db
def test_an_edited_payload_has_no_other_code_imported_where_its_result_is_read() -> None:
    result = tasks.adds.enqueue(1)
    path = "tests.backends.never_imported.task"
    edited = {"args": [], "kwargs": {}, "backend": "default", "path": path}
    Job.objects.filter(pk=int(result.id)).update(payload=edited)

    with pytest.raises(TaskGone, match="names another task"):
        task_backends["default"].get_result(result.id)


@pytest.mark.django_db
def test_a_task_with_the_name_of_a_job_type_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    name = type_of("tests.backends.tasks.adds")
    monkeypatch.setitem(registry._handlers, name, Handler(_handler, name))

    with pytest.raises(InvalidTask, match="is the name of a job type"):
        tasks.adds.enqueue(1)
    assert any(problem.subject == name for problem in registry.problems())


def _handler(context: Any) -> None: ...


@pytest.mark.django_db
def test_attempts_are_counted_by_the_policy_and_ready_in_between() -> None:
    result = tasks.fails_twice.enqueue()
    for done in (1, 2):
        drain()
        Job.objects.promote()
        result.refresh()
        if result.is_finished:
            break
        assert (result.status, len(result.errors), result.attempts, result.finished_at) == (READY, done, done, None)
    drain()
    result.refresh()

    assert (result.status, len(result.errors), result.attempts) == (FAILED, 3, 3)


@pytest.mark.django_db
def test_a_redriven_task_is_ready_again() -> None:
    result = tasks.fails.enqueue()
    drain()
    Job.objects.redrive(int(result.id))
    result.refresh()

    assert (result.status, len(result.errors), result.finished_at) == (READY, 1, None)
    drain()
    result.refresh()
    assert (result.status, len(result.errors), len(result.worker_ids)) == (FAILED, 2, 2)


@pytest.mark.django_db
def test_retry_asks_for_another_attempt_where_errors_are_final() -> None:
    result = tasks.asks_for_more.enqueue()
    run_once()
    result.refresh()

    assert (result.status, result.attempts) == (READY, 1)


@pytest.mark.django_db
def test_a_cancelled_task_has_failed_without_an_attempt() -> None:
    result = tasks.adds.enqueue(1)
    Job.objects.cancel(int(result.id))
    result.refresh()

    assert (result.status, result.errors, result.attempts) == (FAILED, [], 0)


@pytest.mark.django_db
def test_limits_name_arguments_however_they_are_given() -> None:
    results = [tasks.reads.enqueue("a", 11), tasks.reads.enqueue(path="a", pages=11), tasks.reads.enqueue("a", 10)]
    drain()
    for result in results:
        result.refresh()

    assert [result.status for result in results] == [FAILED, FAILED, TaskResultStatus.SUCCESSFUL]
    assert results[0].errors[0].exception_class_path == "jobqueue.exceptions.InputLimitExceeded"


@pytest.mark.django_db
def test_options_of_the_alias_that_enqueues_decide_on_attempts() -> None:
    plain, other, single = tasks.adds.enqueue(1), tasks.adds.using(backend="other"), tasks.fails.using(backend="other")

    attempts = [
        Job.objects.get(pk=int(result.id)).max_attempts for result in (plain, other.enqueue(1), single.enqueue())
    ]

    assert attempts == [3, 2, 1]


@pytest.mark.django_db
def test_errors_are_tried_again_where_the_enqueue_asked_for_attempts() -> None:
    """By the alias that enqueues, or by the call: not by the task's own alias, which says nothing here."""
    asked = tasks.raises_in_turn.using(backend="other").enqueue("object")
    queue: Any = task_backends["default"]
    called, _ = queue.get_or_enqueue(TaskCall(task=tasks.fails, max_attempts=2))
    plain = tasks.raises_in_turn.enqueue("object")
    drain()
    for result in (asked, called, plain):
        result.refresh()

    told = [(result.status, result.attempts) for result in (asked, called, plain)]
    assert told == [(READY, 1), (READY, 1), (FAILED, 1)]


@pytest.mark.django_db
@pytest.mark.skipif(not FORWARDS, reason="Django 6.0 forwards no keywords of @task")
def test_task_takes_the_policy_as_keywords() -> None:
    declared = task(max_attempts=7, limits=Limits(duration=9))(tasks.plain_function)

    assert declared.max_attempts == 7  # type: ignore[attr-defined]
    assert Job.objects.get(pk=int(declared.enqueue(1).id)).max_attempts == 7
    assert declared.using(priority=5).max_attempts == 7  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="max_attempts"):
        task(max_attempts=0)(tasks.plain_function)
    with pytest.raises(TypeError, match="unexpected keyword"):
        task(max_attemps=7)(tasks.plain_function)


@pytest.mark.django_db
def test_one_of_a_key_is_waiting_and_the_next_gets_its_result() -> None:
    first, again, other = (tasks.reads_once.enqueue(path) for path in ("a", "a", "b"))

    assert again.id == first.id
    assert other.id != first.id
    drain()
    assert tasks.reads_once.enqueue("a").id != first.id
    assert tasks.costs.enqueue(1).id == tasks.costs.enqueue(1).id != tasks.costs.enqueue(2).id


@pytest.mark.django_db
def test_keys_of_a_call_and_many_at_once() -> None:
    queue: Any = task_backends["default"]
    call = TaskCall(task=tasks.adds, args=[1], dedupe_key="one", owner="acme", max_attempts=8)
    first, created = queue.get_or_enqueue(call)
    again, twice = queue.get_or_enqueue(call)

    assert (created, twice, again.id) == (True, False, first.id)
    row = Job.objects.get(pk=int(first.id))
    assert (row.owner, row.max_attempts, row.dedupe_key) == ("acme", 8, "default/tests.backends.tasks.adds/one")
    results = queue.enqueue_many([(tasks.adds,), (tasks.adds, (1, 2)), call, (tasks.echoes, [], {"a": 1})])
    assert [result is None for result in results] == [False, False, True, False]
    assert tasks.adds.get_result(results[1].id) == results[1]
    with pytest.raises(TypeError, match="item 1"):
        queue.enqueue_many([(tasks.adds,), (tasks.echoes, [object()])])
    with pytest.raises(ValueError, match="item 0: max_attempts must be between 1"):
        queue.enqueue_many([TaskCall(task=tasks.adds, max_attempts=0)])
    with pytest.raises(TypeError, match="item 0: must be a TaskCall"):
        queue.enqueue_many(["no"])
    assert Job.objects.count() == 4


@pytest.mark.django_db
def test_costs_and_the_context_of_the_job() -> None:
    results = [tasks.costs.enqueue(2), tasks.reports.enqueue()]
    drain()

    assert [Job.objects.get(pk=int(one.id)).cost_total for one in results] == [Decimal("0.25"), Decimal("0.5")]
    assert set(Cost.objects.values_list("component", flat=True)) == {"task", "tokens"}


@pytest.mark.django_db
@override_settings(JOBQUEUE={"BUDGETS": {"adds": {"job_type": "tests.backends.tasks.adds", "amount": 1, "per": "day"}}})
def test_a_budget_and_a_limit_name_a_task_by_its_path() -> None:
    handler_of(tasks.adds)

    assert "tests.backends.tasks.adds" in registry.names()
    assert check_handlers() == []
