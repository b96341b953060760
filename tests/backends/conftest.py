"""Fixtures of the tests with real workers, and the rows that tell what became of tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from jobqueue.backends.compat import TaskResult, task_backends
from tests.worker.conftest import effects, launch
from tests.worker.waiting import until

__all__ = ["effects", "finished", "launch"]


@pytest.fixture
def finished(transactional_db: None) -> Callable[..., TaskResult[Any]]:
    """Return the function that waits for the end of a task and returns its result."""

    def wait(result: TaskResult[Any], within: float = 20) -> TaskResult[Any]:
        def look() -> TaskResult[Any] | None:
            told: TaskResult[Any] = task_backends[result.backend].get_result(result.id)
            return told if told.is_finished else None

        return until(
            look, within=within, what=lambda: f"the end of {task_backends[result.backend].get_result(result.id)}"
        )

    return wait
