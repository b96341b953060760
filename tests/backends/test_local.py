"""The backends without a worker: the same options, the same refusals, and Django's own behaviour otherwise."""

from __future__ import annotations

from typing import Any

import pytest

from jobqueue.backends import DummyBackend, JobTaskContext
from jobqueue.backends.compat import TaskContext, TaskResult, TaskResultStatus, task_backends, task_finished
from tests.backends import tasks

IMMEDIATE, DUMMY = "immediate", "dummy"


@pytest.fixture
def dummy() -> DummyBackend:
    """Return the backend that only keeps, empty."""
    backend = task_backends["dummy"]
    assert isinstance(backend, DummyBackend)
    backend.clear()
    return backend


@pytest.mark.smoke
def test_immediate_runs_at_once_with_context_and_policy() -> None:
    told = tasks.tells.using(backend=IMMEDIATE).enqueue("now")

    assert told.return_value == {"attempt": 1, "id": told.id, "status": "RUNNING", "word": "now"}
    assert tasks.reports.using(backend=IMMEDIATE).enqueue().return_value == 0
    assert tasks.waits.using(backend=IMMEDIATE).enqueue().return_value == "waited"
    failed = tasks.fails_twice.using(backend=IMMEDIATE).enqueue()
    assert (failed.status, failed.attempts, len(failed.errors)) == (TaskResultStatus.FAILED, 1, 1)
    assert failed.errors[0].exception_class is RuntimeError


@pytest.mark.parametrize(("kind", "error"), [("exit", SystemExit), ("object", TypeError)])
def test_immediate_keeps_what_a_task_raises(kind: str, error: type) -> None:
    result = tasks.raises_in_turn.using(backend=IMMEDIATE).enqueue(kind)

    assert result.errors[0].exception_class is error
    assert result.finished_at is not None


def test_immediate_lets_the_terminal_interrupt() -> None:
    with pytest.raises(KeyboardInterrupt):
        tasks.raises_in_turn.using(backend=IMMEDIATE).enqueue("interrupt")


def test_signals_have_the_class_as_sender() -> None:
    heard: list[tuple[type, Any]] = []

    def hear(sender: type, task_result: TaskResult[Any], **_: Any) -> None:
        heard.append((sender, task_result.status))

    task_finished.connect(hear)
    try:
        tasks.adds.using(backend=IMMEDIATE).enqueue(1)
    finally:
        task_finished.disconnect(hear)

    assert heard == [(type(task_backends["immediate"]), TaskResultStatus.SUCCESSFUL)]


def test_dummy_keeps_what_was_enqueued_and_keys(dummy: DummyBackend) -> None:
    first, again = (tasks.reads_once.using(backend=DUMMY).enqueue("a") for _ in range(2))

    assert again.id == first.id
    assert dummy.get_result(first.id) == first
    many = dummy.enqueue_many(
        [(tasks.adds.using(backend=DUMMY), (1,)), (tasks.reads_once.using(backend=DUMMY), ("a",))]
    )
    assert [result is None for result in many] == [False, True]
    assert len(dummy.results) == 2
    dummy.clear()
    assert tasks.reads_once.using(backend=DUMMY).enqueue("a").id != first.id


def test_the_context_is_one_of_the_tasks_api() -> None:
    assert issubclass(JobTaskContext, TaskContext)
