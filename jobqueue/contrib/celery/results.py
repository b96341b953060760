"""What became of a task, in Celery's words.

| jobqueue | Celery |
|---|---|
| no such job; PENDING, SCHEDULED, WAITING before the first attempt | PENDING |
| PENDING, SCHEDULED after an attempt | RETRY |
| RUNNING | STARTED |
| DONE | SUCCESS |
| DEAD | FAILURE |
| CANCELLED | REVOKED |
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from django.apps import apps
from django.db import connections

from jobqueue.exceptions import JobQueueError
from jobqueue.states import Status

from .requests import TaskFailure, current_request

if TYPE_CHECKING:
    from jobqueue.managers import JobManager
    from jobqueue.models import Job

STATES: Final[Mapping[int, str]] = {
    Status.RUNNING: "STARTED",
    Status.DONE: "SUCCESS",
    Status.DEAD: "FAILURE",
    Status.CANCELLED: "REVOKED",
}
READY: Final = frozenset({"SUCCESS", "FAILURE", "REVOKED"})
_ID: Final = re.compile(r"[1-9][0-9]{0,17}", re.ASCII)


class _Row(NamedTuple):
    state: str
    result: Any
    error_class: str
    error_text: str


_NOTHING: Final = _Row("PENDING", None, "", "")


def jobs() -> JobManager:
    """Return Job.objects; by name, since apps are imported before models."""
    model: type[Job] = apps.get_model("jobqueue", "Job")
    return model.objects


class AsyncResult:
    """The result of a job by its id; each property is one query, so the answer is that of now."""

    def __init__(self, id: str | int) -> None:  # noqa: A002  (Celery's name)
        self.id = str(id)

    @property
    def task_id(self) -> str:
        """The id, by Celery's other name."""
        return self.id

    @property
    def status(self) -> str:
        """The state in Celery's words; PENDING also for an id that is unknown, as with Celery."""
        return self._row().state

    state = status

    @property
    def result(self) -> Any:
        """What the task returned, or its TaskFailure; None before the end."""
        row = self._row()
        return self._failure(row) if row.state in ("FAILURE", "REVOKED") else row.result

    def ready(self) -> bool:
        """Tell whether the task has ended, well or not."""
        return self.status in READY

    def successful(self) -> bool:
        """Tell whether the task has ended well."""
        return self.status == "SUCCESS"

    def failed(self) -> bool:
        """Tell whether the task is a dead letter."""
        return self.status == "FAILURE"

    def get(self, timeout: float | None = None, propagate: bool = True, interval: float = 0.5) -> Any:
        """Wait for the end, and return the value or raise TaskFailure (return it, without ``propagate``).

        Raises TimeoutError after ``timeout`` seconds, and RuntimeError where it would wait for ever: within a task,
        and in a transaction, which the worker cannot see into. Raises JobQueueError where there is no such job.
        """
        if not current_request.get().called_directly:  # a context variable, no HTTP  # nosec B113
            raise RuntimeError("AsyncResult.get() within a task waits for a slot that the task itself may hold")
        last = None if timeout is None else time.monotonic() + timeout
        while True:
            row = self._row()
            if row is _NOTHING:
                raise JobQueueError(f"there is no job {self.id}, or no more")
            if row.state in READY:
                return self._value(row, propagate=propagate)
            if connections[jobs().write_db].in_atomic_block:
                raise RuntimeError("AsyncResult.get() in a transaction: what it waits for starts after its commit")
            if last is not None and time.monotonic() >= last:
                raise TimeoutError(f"job {self.id} is {row.state} after {timeout} s")
            time.sleep(interval if last is None else max(0.0, min(interval, last - time.monotonic())))

    def revoke(self, **options: Any) -> None:
        """Cancel the task: at once if it waits; a running one is asked to stop, whatever Celery's options say."""
        if _ID.fullmatch(self.id):
            jobs().cancel([int(self.id)], reason="revoked")

    def _value(self, row: _Row, *, propagate: bool) -> Any:
        if row.state == "SUCCESS":
            return row.result
        failure = self._failure(row)
        if propagate:
            raise failure
        return failure

    def _failure(self, row: _Row) -> TaskFailure:
        revoked = ("jobqueue.exceptions.JobCancelled", "revoked")
        told = (row.error_class, row.error_text) if row.error_class else revoked
        return TaskFailure(self.id, *told)

    def _row(self) -> _Row:
        if not _ID.fullmatch(self.id):  # as that of a task that Celery ran
            return _NOTHING
        rows = jobs().using(jobs().write_db).filter(pk=int(self.id))
        found = rows.values_list("status", "attempts", "result", "error_class", "last_error").first()
        if found is None:
            return _NOTHING
        status, attempts, result, error_class, error_text = found
        waiting = "RETRY" if attempts else "PENDING"
        return _Row(STATES.get(status, waiting), result, error_class or "", error_text or "")

    def __eq__(self, other: object) -> bool:
        """Tell whether both are of one job."""
        return isinstance(other, AsyncResult) and other.id == self.id

    def __hash__(self) -> int:
        """Return what equal ones have in common."""
        return hash(self.id)

    def __str__(self) -> str:
        """Return the id."""
        return self.id

    def __repr__(self) -> str:
        """Return the id and what it is."""
        return f"<AsyncResult: {self.id}>"


class EagerResult(AsyncResult):
    """The result of a task that ran where it was called: there is no job."""

    def __init__(self, value: Any, error: Exception | None = None) -> None:
        super().__init__("eager")
        self._outcome, self._error = value, error

    @property
    def result(self) -> Any:
        """What the task returned, or the exception that it raised."""
        return self._error or self._outcome

    def get(self, timeout: float | None = None, propagate: bool = True, interval: float = 0.5) -> Any:
        """Return the value, or raise what the task raised (return it, without ``propagate``)."""
        if self._error is not None and propagate:
            raise self._error
        return self.result

    def revoke(self, **options: Any) -> None:
        """Do nothing: it has ended."""

    def _row(self) -> _Row:
        return _NOTHING._replace(state="SUCCESS" if self._error is None else "FAILURE")
