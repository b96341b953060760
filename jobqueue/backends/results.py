"""What a job's row tells of a django.tasks task: its TaskResult.

| jobqueue | django.tasks |
|---|---|
| PENDING, SCHEDULED (also between attempts), WAITING | READY |
| RUNNING | RUNNING |
| DONE | SUCCESSFUL |
| DEAD, CANCELLED | FAILED |
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from django.apps import apps
from django.utils.module_loading import import_string

from jobqueue import sql
from jobqueue.exceptions import JobQueueError
from jobqueue.outcomes import Outcome
from jobqueue.states import Status

from .compat import Task, TaskError, TaskResult, TaskResultStatus
from .naming import path_in

if TYPE_CHECKING:
    from jobqueue.managers import JobManager
    from jobqueue.models import Job

STATES: Final[Mapping[int, TaskResultStatus]] = {
    Status.PENDING: TaskResultStatus.READY,
    Status.SCHEDULED: TaskResultStatus.READY,
    Status.WAITING: TaskResultStatus.READY,
    Status.RUNNING: TaskResultStatus.RUNNING,
    Status.DONE: TaskResultStatus.SUCCESSFUL,
    Status.DEAD: TaskResultStatus.FAILED,
    Status.CANCELLED: TaskResultStatus.FAILED,
}
#: The key of a payload whose enqueue asked for attempts, so that errors are tried again.
RETRIED: Final = "retry"
#: The priority of a task is turned round: there higher runs first, here lower.
PRIORITY_TURN: Final = 100
_ID: Final = re.compile(r"[1-9][0-9]{0,18}", re.ASCII)
_LARGEST_ID: Final = 2**63 - 1


class TaskGone(JobQueueError, ImportError):
    """The path of a stored task leads to no task any more: its module or its name has changed."""


class Run(NamedTuple):
    """One attempt that did not end well."""

    number: int
    worker_id: str
    outcome: int
    error_class: str
    error_text: str
    traceback: str
    started_at: datetime


class TaskRow(NamedTuple):
    """What get_task.sql returns."""

    id: int
    task_backend: str
    job_type: str
    queue: str
    priority: int
    status: int
    payload: str
    result: str | None
    worker_id: str | None
    attempts: int
    claimed_at: datetime | None
    run_started_at: datetime | None
    first_started_at: datetime | None
    finished_at: datetime | None
    created_at: datetime
    runs: str | None

    @property
    def charged(self) -> list[Run]:
        """The attempts that count: not those cut off by no fault of their own, which were given back."""
        rows = [Run._make([*row[:6], datetime.fromisoformat(row[6])]) for row in json.loads(self.runs or "[]")]
        under_way = self.status in (Status.RUNNING, Status.DONE)
        following = [*(run.number for run in rows[1:]), self.attempts + (0 if under_way else 1)]
        return [
            run
            for run, number in zip(rows, following, strict=False)  # without rows there is one more that follows
            if run.outcome != Outcome.INTERRUPTED or number != run.number
        ]


def parse_id(result_id: object) -> int | None:
    """Return the number of a job, None for what no result was ever called."""
    if not isinstance(result_id, str) or not _ID.fullmatch(result_id):
        return None
    number = int(result_id)
    return number if number <= _LARGEST_ID else None


def jobs() -> JobManager:
    """Return Job.objects; by name, so that a check can say that the app is not installed."""
    model: type[Job] = apps.get_model("jobqueue", "Job")
    return model.objects


def read_row(job_id: int, task_backend: str | None) -> TaskRow | None:
    """Read one task, in one query, from the primary; of one backend, or of whichever."""
    rows = jobs().run_sql(sql.GET_TASK, {"id": job_id, "task_backend": task_backend})
    return TaskRow(*rows[0]) if rows else None


def path_of_row(job_type: str, payload: Mapping[str, Any]) -> str:
    """Return the path of a stored task. Raises TaskGone where its payload names another one."""
    path = path_in(job_type, payload)
    if path is None:
        raise TaskGone(f"the payload of a {job_type} names another task")
    return path


def find_task(path: str) -> Task[Any, Any]:
    """Import a task by its path. Raises TaskGone where there is none; what its module raises passes."""
    try:
        found = import_string(path)
    except ImportError as error:
        if _module_is_there(path, error):
            raise
        raise TaskGone(f"task {path} cannot be found: {error}") from error
    if not isinstance(found, Task):
        raise TaskGone(f"{path} is no task but {type(found).__name__}")
    return found


def _module_is_there(path: str, error: ImportError) -> bool:
    """Tell an import that failed within the task's module from a module or name that does not exist."""
    if isinstance(error, ModuleNotFoundError):
        return not f"{path}.".startswith(f"{error.name}.")
    try:
        import_module(path.rpartition(".")[0])
    except ImportError:
        return True
    return False


def changed_task(task: Task[Any, Any], **changes: Any) -> Task[Any, Any]:
    """Return a copy with other values, unchecked: what was once enqueued is told as it was, whatever TASKS says now."""
    copy = object.__new__(type(task))
    for field in fields(task):
        object.__setattr__(copy, field.name, changes.get(field.name, getattr(task, field.name)))
    return copy


def result_of(row: TaskRow, task: Task[Any, Any] | None = None) -> TaskResult[Any]:
    """Build the TaskResult of a row. Raises TaskGone or what the task's module raises when it is imported."""
    payload = json.loads(row.payload)
    found = task or find_task(path_of_row(row.job_type, payload))
    runs, status = row.charged, STATES[row.status]
    started = [run.started_at for run in runs]
    workers = [run.worker_id for run in runs]
    if row.status in (Status.RUNNING, Status.DONE):
        workers.append(row.worker_id or "")
        started += [instant] if (instant := row.run_started_at or row.claimed_at) else []
    result: TaskResult[Any] = TaskResult(
        task=changed_task(
            found,
            priority=PRIORITY_TURN - row.priority,
            queue_name=row.queue,
            backend=row.task_backend,
            run_after=run_after_in(payload),
        ),
        id=str(row.id),
        status=status,
        enqueued_at=row.created_at,
        started_at=(row.first_started_at or started[0]) if started else None,
        last_attempted_at=started[-1] if started else None,
        finished_at=row.finished_at if status in (TaskResultStatus.FAILED, TaskResultStatus.SUCCESSFUL) else None,
        args=payload.get("args", []),
        kwargs=payload.get("kwargs", {}),
        backend=row.task_backend,
        errors=[error_of(run.error_class, run.error_text, run.traceback) for run in runs],
        worker_ids=workers,
    )
    if status == TaskResultStatus.SUCCESSFUL:
        object.__setattr__(result, "_return_value", json.loads(row.result or "null"))
    return result


def run_after_in(payload: Mapping[str, Any]) -> datetime | None:
    """Return when a task was to run at the earliest, as its enqueue said; the row has the time of a retry.

    None where somebody has edited the payload and left no time there: this is only told.
    """
    try:
        return datetime.fromisoformat(payload["run_after"])
    except (KeyError, TypeError, ValueError):
        return None


def error_of(error_class: str, error_text: str, traceback: str) -> TaskError:
    """Return an attempt's error; a killed one has no traceback, its text says what happened."""
    path = error_class if "." in error_class else f"builtins.{error_class or 'Exception'}"
    return TaskError(exception_class_path=path, traceback=traceback or f"{path}: {error_text}\n")
