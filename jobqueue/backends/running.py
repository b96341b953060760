"""One run of a task, in the process that runs it: its context, its signals, its result as they see it.

task_started is sent when the task is about to be called; task_finished follows the verdict (what the database says) and
only the last one: a task that is to be tried again has not finished. On failure it is sent while the task's exception
is being handled, so that receivers have sys.exc_info(). A receiver that raises is logged and changes nothing.

The rows are read for whoever can look at them: a task that takes its context, or a receiver that is not the tasks
API's own, which only logs. All others run without a query.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from django.db import Error as DatabaseError
from django.dispatch import Signal
from django.utils import timezone
from django.utils.module_loading import import_string

from jobqueue import exceptions
from jobqueue.conf import get_settings
from jobqueue.errors import describe
from jobqueue.states import Status

from .compat import (
    SIGNALS_MODULE,
    TaskContext,
    TaskResult,
    TaskResultStatus,
    normalize_json,
    task_backends,
    task_finished,
    task_started,
)
from .results import STATES, changed_task, error_of, read_row, result_of, run_after_in

if TYPE_CHECKING:
    from jobqueue.children.context import Context

    from .handling import TaskHandler

logger = logging.getLogger("jobqueue.run")

_result: ContextVar[TaskResult[Any] | None] = ContextVar("jobqueue_task_result", default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTaskContext(TaskContext):
    """What a task that takes its context gets: that of the tasks API, and the job's own.

    ``job`` is what a @job handler gets: progress(), add_cost(), cancelled, complete(), job_id.
    """

    job: Any = None


class TaskObserver:
    """Calls a task's function, and sends the signals of its runs."""

    def __init__(self, handler: TaskHandler) -> None:
        self._handler = handler

    # -- the executor's side --------------------------------------------------------------------------------------

    def started(self, context: Context, payload: Mapping[str, Any]) -> None:
        """Make the result as it stands at the start, and send task_started."""
        needed = self._handler.task.takes_context or is_heard(task_started) or is_heard(task_finished)
        result = self._read(context, payload) if needed else self._light(context, payload)
        _result.set(result)
        send(task_started, result)

    def awaits_success(self) -> bool:
        """Tell whether anybody listens but the log: its line is written when a good end has been handed over.

        To wait for the verdict would leave a slot idle for several milliseconds after every task.
        """
        return is_heard(task_finished)

    def ended(self, context: Context, payload: Mapping[str, Any], status: int) -> None:
        """Send task_finished if that was the end."""
        result = _result.get()
        _result.set(None)
        if STATES.get(status) not in (TaskResultStatus.SUCCESSFUL, TaskResultStatus.FAILED):
            return
        if result is None or result.id != str(context.job_id) or is_heard(task_finished):
            result = self._read(context, payload, STATES[status])
        else:
            finish(result, STATES[status])
        send(task_finished, result)

    def _read(
        self, context: Context, payload: Mapping[str, Any], status: TaskResultStatus = TaskResultStatus.RUNNING
    ) -> TaskResult[Any]:
        try:
            row = read_row(context.job_id, None)
            if row is not None:
                return result_of(row, self._handler.task)
        except DatabaseError as error:  # what is only to be told must not fail the task
            logger.warning(
                "task result not read job_id=%s error=%s", context.job_id, describe(error, max_bytes=500).text
            )
        result = self._light(context, payload)
        if status != TaskResultStatus.RUNNING:
            finish(result, status)
        return result

    def _light(self, context: Context, payload: Mapping[str, Any]) -> TaskResult[Any]:
        """Return the result as far as it is known here: workers of earlier attempts by their number only."""
        now, alias = timezone.now(), str(payload.get("backend", self._handler.task.backend))
        args, kwargs = call_values(payload)
        return TaskResult(
            task=changed_task(
                self._handler.task, queue_name=context.queue, backend=alias, run_after=run_after_in(payload)
            ),
            id=str(context.job_id),
            status=TaskResultStatus.RUNNING,
            enqueued_at=None,
            started_at=now,
            last_attempted_at=now,
            finished_at=None,
            args=args,
            kwargs=kwargs,
            backend=alias,
            errors=[],
            worker_ids=[context.worker_id] * context.attempt,
        )

    # -- the task's side ------------------------------------------------------------------------------------------

    def call(self, handler: TaskHandler, context: Context, payload: Mapping[str, Any]) -> Any:
        """Call a task that is a plain function; its value comes back as JSON can hold it, else TypeError is raised."""
        return normalize_json(self._prepared(handler, context, payload)())

    async def acall(self, handler: TaskHandler, context: Context, payload: Mapping[str, Any]) -> Any:
        """Do what call() does for a coroutine function."""
        return normalize_json(await self._prepared(handler, context, payload)())

    def _prepared(self, handler: TaskHandler, context: Context, payload: Mapping[str, Any]) -> partial[Any]:
        args, kwargs = call_values(payload)
        if handler.declared.cost is not None:
            context.add_cost("task", handler.declared.cost, get_settings().COST_UNITS[0])
        if handler.task.takes_context:
            result = _result.get() or self._read(context, payload)
            args = [JobTaskContext(task_result=result, job=context), *args]
        return partial(handler.task.func, *args, **kwargs)


def call_values(payload: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments that a payload holds."""
    return list(payload.get("args", [])), dict(payload.get("kwargs", {}))


def finish(result: TaskResult[Any], status: TaskResultStatus) -> None:
    """Bring a result to its end by what is known in this process."""
    object.__setattr__(result, "status", status)
    object.__setattr__(result, "finished_at", timezone.now())
    error = sys.exception()
    if status == TaskResultStatus.FAILED and error is not None:
        told = describe(error, max_bytes=get_settings().ERROR_MAX_BYTES)
        result.errors.append(error_of(told.error_class, told.text, told.traceback))


def is_heard(signal: Signal) -> bool:
    """Tell whether anybody listens but the tasks API itself, whose receivers write the log."""
    live = signal._live_receivers(None)
    receivers = [*live[0], *live[1]] if isinstance(live, tuple) else live
    return any(getattr(receiver, "__module__", "") != SIGNALS_MODULE for receiver in receivers)


def send(signal: Signal, result: TaskResult[Any]) -> None:
    """Send a task's signal with the class of its backend as the sender; whatever receivers raise is logged."""
    for receiver, answer in signal.send_robust(sender=sender_of(result.backend), task_result=result):
        if isinstance(answer, BaseException):
            logger.error(
                "signal receiver failed receiver=%s job_id=%s error=%s",
                getattr(receiver, "__qualname__", receiver),
                result.id,
                describe(answer, max_bytes=500).text,
                exc_info=answer,
            )


def sender_of(alias: str) -> type:
    """Return the class of the backend that a task was enqueued by, or of ours where its alias has gone."""
    with contextlib.suppress(Exception):
        return type(task_backends[alias])
    from .queue import JobQueueBackend  # noqa: PLC0415  (it imports what is here)

    return JobQueueBackend


def send_for_killed(job_id: int, error_class: str, error_text: str) -> None:
    """Send task_finished for a task whose own process was killed, as if its error had been raised here."""
    row = read_row(job_id, None)
    if row is None or row.status not in (Status.DEAD, Status.CANCELLED):
        return
    result = result_of(row)
    try:
        raise _error(error_class)(error_text)
    except BaseException:  # noqa: BLE001  (raised a line above, for receivers that ask for sys.exc_info())
        send(task_finished, result)


def _error(error_class: str) -> type[BaseException]:
    with contextlib.suppress(ImportError, TypeError):
        found = import_string(error_class)
        if issubclass(found, BaseException) and found.__module__ == exceptions.__name__:
            error: type[BaseException] = found
            return error
    return exceptions.JobCrashed
