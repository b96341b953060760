"""ImmediateBackend and DummyBackend for development and tests: no worker, no database, the options of the real one.

They take the policy of a task and the OPTIONS of a backend and refuse the arguments that the queue would refuse, so
that changing TASKS changes no code. What a policy asks for is not done: there is one attempt, and no limit.
"""

from __future__ import annotations

from copy import deepcopy
from decimal import Decimal
from typing import Any

from django.utils import timezone

from .base import PolicyBackend
from .calls import TaskCall, check_storable, key_of, normal_arguments, payload_of
from .compat import (
    PlainDummyBackend,
    PlainImmediateBackend,
    Task,
    TaskResult,
    TaskResultStatus,
    normalize_json,
    task_finished,
    task_started,
)
from .compat import task_enqueued as enqueued
from .running import JobTaskContext, finish


class LocalContext:
    """Stands for the job's context where there is no job: it remembers what a task reports."""

    job_id, attempt, max_attempts, cancelled = 0, 1, 1, False

    def __init__(self) -> None:
        self.reported: list[tuple[float, str]] = []
        self.costs: list[tuple[str, Decimal | int, str]] = []

    def progress(self, percent: float, message: str = "") -> None:
        """Remember how far the task is."""
        self.reported.append((percent, message))

    def add_cost(self, component: str, amount: Decimal | int, unit: str = "USD") -> None:
        """Remember what something cost."""
        self.costs.append((component, amount, unit))


class _Strict(PolicyBackend):
    """Refuses at enqueue what the queue would refuse."""

    def _checked(self, task: Task[Any, Any], args: Any, kwargs: Any) -> tuple[list[Any], dict[str, Any]]:
        self.validate_task(task)
        normal = normal_arguments(args, kwargs)
        check_storable(task, payload_of(task, *normal))
        self.policy_of(task)
        return normal


class ImmediateBackend(_Strict, PlainImmediateBackend):
    """Runs a task where it is enqueued, once; a failure is in its result."""

    def enqueue(self, task: Task[Any, Any], args: Any, kwargs: Any) -> TaskResult[Any]:
        """Run a task now. Raises what the queue does."""
        args, kwargs = self._checked(task, args, kwargs)
        return PlainImmediateBackend.enqueue(self, task, args, kwargs)

    def _execute_task(self, task_result: TaskResult[Any]) -> None:
        now = timezone.now()
        object.__setattr__(task_result, "enqueued_at", now)
        enqueued.send(type(self), task_result=task_result)
        object.__setattr__(task_result, "status", TaskResultStatus.RUNNING)
        object.__setattr__(task_result, "started_at", now)
        object.__setattr__(task_result, "last_attempted_at", now)
        task_result.worker_ids.append(self.worker_id)
        task_started.send(type(self), task_result=task_result)
        task = task_result.task
        first = [JobTaskContext(task_result=task_result, job=LocalContext())] if task.takes_context else []
        try:
            value = normalize_json(task.call(*first, *task_result.args, **task_result.kwargs))
        except KeyboardInterrupt:  # whoever sits at the terminal wants to stop, as with Django's own
            raise
        except BaseException:  # noqa: BLE001  (a task may raise anything: it is its result)
            finish(task_result, TaskResultStatus.FAILED)
            task_finished.send(type(self), task_result=task_result)
        else:
            object.__setattr__(task_result, "_return_value", value)
            finish(task_result, TaskResultStatus.SUCCESSFUL)
            task_finished.send(type(self), task_result=task_result)


class DummyBackend(_Strict, PlainDummyBackend):
    """Keeps what was enqueued in ``results`` and runs nothing; a key is held until clear()."""

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        self._keys: dict[str, TaskResult[Any]] = {}

    def enqueue(self, task: Task[Any, Any], args: Any, kwargs: Any) -> TaskResult[Any]:
        """Keep a task. Raises what the queue does."""
        return self.get_or_enqueue(TaskCall(task=task, args=args, kwargs=kwargs))[0]

    def get_or_enqueue(self, call: TaskCall) -> tuple[TaskResult[Any], bool]:
        """Return (the result that holds the key, False), or keep the task and return (its result, True)."""
        args, kwargs = self._checked(call.task, call.args, call.kwargs)
        key = key_of(call, self.policy_of(call.task), args, kwargs)
        if key is not None and key in self._keys:
            return deepcopy(self._keys[key]), False
        result = PlainDummyBackend.enqueue(self, call.task, args, kwargs)
        if key is not None:
            self._keys[key] = result
        return result, True

    def clear(self) -> None:
        """Forget everything."""
        PlainDummyBackend.clear(self)
        self._keys.clear()
