"""The run under way, as ``self.request`` tells it, and what a task raises."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from jobqueue.exceptions import JobQueueError
from jobqueue.exceptions import Retry as RetryJob

if TYPE_CHECKING:
    from jobqueue.children.context import Context


class Retry(RetryJob):
    """Raised by self.retry(): this attempt is over, the next one comes after the delay. Let it pass."""


class MaxRetriesExceededError(JobQueueError):
    """Raised by self.retry() without exc when no retry is left: the job becomes a dead letter."""


class TaskFailure(JobQueueError):
    """What AsyncResult.get() raises for a task that failed or was revoked; Celery raises the task's own exception.

    ``error_class`` is the path of that exception's class, ``error_text`` its text.
    """

    def __init__(self, job_id: str, error_class: str, error_text: str) -> None:
        super().__init__(f"job {job_id}: {error_class}: {error_text}")
        self.job_id, self.error_class, self.error_text = job_id, error_class, error_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is known of a run: those of Celery's fields that have a counterpart, and the job's own context.

    ``retries`` counts the attempts before this one, those of killed processes too. ``job`` is what a @job handler
    gets: progress(), add_cost(), cancelled, complete(), job_id; None where no worker runs the task.
    """

    task: str = ""
    id: str | None = None
    args: list[Any] = field(default_factory=list)
    kwargs: dict[str, Any] = field(default_factory=dict)
    retries: int = 0
    hostname: str = ""
    called_directly: bool = True
    is_eager: bool = False
    job: Context | None = None


#: The request of a task that was called as a plain function.
DIRECT: Final = Request()

#: One for each thread: a task that calls another one as a function has its own again afterwards.
current_request: Final[ContextVar[Request]] = ContextVar("jobqueue_celery_request", default=DIRECT)
