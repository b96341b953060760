"""Every error the package raises, what a handler raises to steer its job, and what stops a handler.

Three families. ``JobQueueError``: something was refused or went wrong. ``Retry``, ``Snooze``, ``Discard`` and ``Dead``:
a handler raises them to say what becomes of its job. ``JobStopped``: the worker raises them inside a handler that has
to end now; they are BaseExceptions, so that a handler's ``except Exception`` does not swallow the order to stop.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ImproperlyConfigured

if TYPE_CHECKING:
    from .states import Status

# Beyond ten years a delay is a mistake in units, and adding it may pass the last year that Python can hold.
MAX_DELAY = timedelta(days=3650)


def _rebuild(cls: type[JobQueueError], message: tuple[Any, ...], fields: dict[str, Any]) -> JobQueueError:
    error = cls.__new__(cls)
    error.args = message
    error.__dict__.update(fields)
    return error


class JobQueueError(Exception):
    """Base of every error of the package."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by message and fields: parallel test runners send errors between processes."""
        return _rebuild, (type(self), self.args, self.__dict__.copy())


class _NotStorable(JobQueueError, ValueError):
    """A value that PostgreSQL's jsonb cannot hold as given; ``path`` says where, ``rule`` says why."""

    def __init__(self, path: str, rule: str, *, subject: str) -> None:
        super().__init__(f"{subject}: {path}: {rule}")
        self.path, self.rule = path, rule


class PayloadError(_NotStorable):
    """A payload was refused before PostgreSQL saw it: the caller's transaction is still usable."""

    def __init__(self, path: str, rule: str, index: int | None = None, job_type: str = "") -> None:
        subject = f"payload of {job_type}" if job_type else "payload"
        super().__init__(path, rule, subject=subject if index is None else f"{subject}, item {index}")
        self.index, self.job_type = index, job_type


class ResultError(_NotStorable):
    """A handler's return value cannot be stored: its effects have happened, so the attempt has failed."""

    def __init__(self, path: str, rule: str) -> None:
        super().__init__(path, rule, subject="result not storable")


class UnknownJobType(JobQueueError, LookupError):
    """No handler has this job type: nothing was enqueued or run."""

    def __init__(self, job_type: str, hint: str = "") -> None:
        super().__init__(f"no handler is registered for job type {job_type!r}{': ' if hint else ''}{hint}")
        self.job_type = job_type


class HandlerImportError(JobQueueError):
    """The module that should define this job type cannot be imported: only its own jobs fail."""

    def __init__(self, job_type: str, module: str, text: str) -> None:
        super().__init__(f"job type {job_type!r}: its module {module} cannot be imported:\n{text}")
        self.job_type, self.module, self.text = job_type, module, text


class InvalidName(JobQueueError, ValueError):
    """A queue name, job type, key or owner breaks its rule: nothing was enqueued."""


class BudgetSpent(JobQueueError):
    """A budget that refuses enqueues is spent: nothing was enqueued, and nothing of it will be before ``resumes_at``.

    ``spent`` is the sum as maintenance last saw it, up to a tick old; both amounts are in ``unit``.
    """

    def __init__(self, budget: str, spent: Decimal, amount: Decimal, unit: str, resumes_at: datetime) -> None:
        super().__init__(
            f"budget {budget} is spent, {spent.normalize():f} of {amount.normalize():f} {unit}: "
            f"nothing was enqueued, its jobs are refused until {resumes_at.isoformat(timespec='minutes')}"
        )
        self.budget, self.spent, self.amount, self.unit, self.resumes_at = budget, spent, amount, unit, resumes_at


class LeaseLost(JobQueueError):
    """Another worker owns the job now: drop the result, do not retry."""

    def __init__(self, job_id: int, lease_epoch: int) -> None:
        super().__init__(f"job {job_id}: lease {lease_epoch} is no longer held")
        self.job_id, self.lease_epoch = job_id, lease_epoch


class InvalidTransition(JobQueueError):
    """The job is not in a state that allows this change: nothing was changed. ``status`` None means no such job.

    ``reason`` says more where the status alone does not explain it: "blocked by #7" for a key that another job holds.
    """

    def __init__(self, job_id: int, status: Status | None, wanted: str, reason: str = "") -> None:
        state = "there is no such job" if status is None else f"its status is {status.name}"
        super().__init__(f"job {job_id}: cannot {wanted}, {reason or state}")
        self.job_id, self.status, self.wanted = job_id, status, wanted


class UnknownWorker(JobQueueError, LookupError):
    """There is no such worker, or no more: nothing was asked of it."""

    def __init__(self, worker_id: str) -> None:
        super().__init__(f"there is no worker {worker_id!r}")
        self.worker_id = worker_id


class InputLimitExceeded(JobQueueError):
    """Stored for a job whose payload is over one of its limits: it became a dead letter without being run."""


class JobMemoryExceeded(JobQueueError):
    """Stored for a job that used more memory than its limit: its process was killed, it is a dead letter."""


class JobKilled(JobQueueError):
    """Stored for a job whose process a person had killed, from the console: charged, and tried again or dead."""


class JobCrashed(JobQueueError):
    """Stored for a job whose process died while it ran, by a signal or an exit that nobody asked for."""


class ConfigurationError(JobQueueError, ImproperlyConfigured):
    """A setting has a value that cannot work."""


class InvalidWebhook(JobQueueError, ValueError):
    """A webhook's URL, event, data, headers or secret cannot work: nothing was enqueued or sent."""


class WebhookError(JobQueueError):
    """A webhook was not accepted. ``permanent``: no later attempt can succeed, else it may.

    ``status`` is the answer's, None where there was none; ``retry_after`` is how long the other side asked to be left
    alone.
    """

    def __init__(
        self, text: str, *, permanent: bool, status: int | None = None, retry_after: timedelta | None = None
    ) -> None:
        super().__init__(text)
        self.permanent, self.status, self.retry_after = permanent, status, retry_after


def _as_delay(value: timedelta | float) -> timedelta:
    """Return the delay as a timedelta, or raise ValueError: a wrong delay would lose the job far in the future."""
    try:
        delay = value if isinstance(value, timedelta) else timedelta(seconds=value)
    except (OverflowError, ValueError) as error:
        raise ValueError(f"delay {value!r} is not a number of seconds that can be added to a time") from error
    if not timedelta(0) <= delay <= MAX_DELAY:
        raise ValueError(f"delay must be from 0 to {MAX_DELAY.days} days, not {delay}")
    return delay


class Retry(Exception):
    """Raised by a handler: fail this attempt and try again, not earlier than ``delay`` from now.

    The attempt is charged. Without a delay the job type's backoff decides; with one it is a lower bound.
    """

    def __init__(self, delay: timedelta | float | None = None, reason: str = "") -> None:
        super().__init__(reason or "retry asked for by the handler")
        self.delay, self.reason = None if delay is None else _as_delay(delay), reason


class Snooze(Exception):
    """Raised by a handler: run the job again after ``delay``, and give this attempt back."""

    def __init__(self, delay: timedelta | float) -> None:
        self.delay = _as_delay(delay)
        super().__init__(f"snoozed for {self.delay}")


class Discard(Exception):
    """Raised by a handler: the job has no purpose any more, it becomes CANCELLED and is never tried again."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason or "discarded by the handler")
        self.reason = reason


class Dead(Exception):
    """Raised by a handler: no further attempt can succeed, the job becomes a dead letter at once, for people to see."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason or "given up by the handler")
        self.reason = reason


class JobStopped(BaseException):
    """Raised inside a handler that has to end now; clean up and let it pass, the process is killed soon after."""


class JobDeadlineExceeded(JobStopped):
    """The handler has run longer than its limit on duration allows."""


class JobCancelled(JobStopped):
    """A person or a program asked for the job to be cancelled."""


class JobInterrupted(JobStopped):
    """The worker is shutting down, or a neighbour in the same process has to be stopped; the job will run again."""


class JobLeaseLost(JobStopped):
    """The job belongs to another worker now: whatever this handler would return is refused."""
