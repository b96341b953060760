"""A task in Celery's words, as a handler: how a worker calls it, and ``retry``."""

from __future__ import annotations

import inspect
import logging
import random
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial, update_wrapper, wraps
from typing import TYPE_CHECKING, Any, Final

from asgiref.sync import iscoroutinefunction
from django.utils import timezone

from jobqueue.exceptions import Dead, Discard, InvalidName, JobStopped, Snooze
from jobqueue.handlers import OnError
from jobqueue.limits import Limits

from .calling import CalledTask, arguments_in, turned, within
from .refusing import ATTRIBUTES, RETRIED, refuse
from .requests import MaxRetriesExceededError, Request, Retry, current_request

if TYPE_CHECKING:
    from jobqueue.children.context import Context

    from .declaring import TaskOptions

logger = logging.getLogger("jobqueue.run")

MOST_ATTEMPTS: Final = 32_767
_STEERING: Final = (Retry, Snooze, Discard, Dead, JobStopped)


class CeleryTask(CalledTask):
    """Runs one task; its payload holds the arguments, as ``{"args": [...], "kwargs": {...}}``."""

    MaxRetriesExceededError = MaxRetriesExceededError

    def __init__(self, func: Callable[..., Any], options: TaskOptions) -> None:
        self.options = options
        self.run = partial(func, self) if options.bind else func
        name = options.name or f"{getattr(func, '__module__', '')}.{getattr(func, '__qualname__', repr(func))}"
        seconds = options.soft_time_limit or options.time_limit
        retries = options.most_retries
        try:
            super().__init__(
                self._runner(func, name),
                name,
                queue=options.queue,
                priority=None if options.priority is None else turned(options.priority),
                max_attempts=MOST_ATTEMPTS if retries is None else min(retries + 1, MOST_ATTEMPTS),
                limits=Limits(duration=seconds),
                on_deadline="retry" if options.retries_at_deadline else "dead",
            )
        except InvalidName as error:
            raise InvalidName(f"{error}; give the task a shorter one: @shared_task(name='...')") from error
        vars(self).pop("__signature__", None)
        update_wrapper(self, func)
        self._signature = inspect.signature(self.run)

    def _runner(self, func: Callable[..., Any], name: str) -> Callable[..., Any]:
        """Return the function that a worker calls; it passes for the task's own wherever that is looked for."""
        if iscoroutinefunction(func) or inspect.isgeneratorfunction(func) or not inspect.isfunction(func):
            raise TypeError(f"task {name!r} must be a plain function; for a coroutine use @job or @task")

        @wraps(func)
        def run(context: Context, **payload: Any) -> Any:
            return self._run(context, **payload)

        run.__signature__ = inspect.signature(self._run)  # type: ignore[attr-defined]
        return run

    # -- runs -----------------------------------------------------------------------------------------------------

    @property
    def request(self) -> Request:
        """Return the run under way in this thread."""
        return current_request.get()  # a context variable, no HTTP  # nosec B113

    @property
    def max_retries(self) -> int | None:
        """Return how many retries the task declares; None for no end."""
        return self.options.max_retries

    def retry(
        self,
        *,
        exc: BaseException | None = None,
        eta: datetime | None = None,
        countdown: float | None = None,
        max_retries: int | None = None,
        **options: Any,
    ) -> Retry:
        """End this attempt and have another one after ``countdown`` seconds or at ``eta``: it always raises.

        Raises ``exc``, else MaxRetriesExceededError, when no retry is left, so that the job becomes a dead letter;
        outside of a run it raises ``exc`` at once. ``max_retries`` may be lower than the task declares, not higher.
        """
        refuse(
            f"{self.name}.retry()",
            [name for name, value in options.items() if (name, value) != ("throw", True)],
            RETRIED,
        )
        request = self.request
        if request.called_directly:
            raise exc or Retry(reason="the task was called as a function: nobody can retry it")
        wanted = self.max_retries if max_retries is None else max_retries
        if not self._has_room(request, wanted):
            raise exc or MaxRetriesExceededError(f"{self.name}: no retry is left after {request.retries}")
        delay = countdown
        if eta is not None:
            delay = max(0.0, (eta - timezone.now()).total_seconds())
        elif delay is None:
            delay = self.options.default_retry_delay
        raise Retry(delay, f"{type(exc).__name__}: {exc}" if exc is not None else "") from exc

    def _has_room(self, request: Request, wanted: int | None) -> bool:
        if wanted is not None and request.retries >= wanted:
            return False
        budget = request.job.max_attempts - 1 if request.job is not None else self.max_attempts - 1
        if request.retries < budget:
            return True
        if wanted is None or wanted > budget:
            logger.warning(
                "retries beyond the task's own job_id=%s retries=%s: say @shared_task(max_retries=%s)",
                *(request.id, budget, wanted),
            )
        return False

    def on_error(self, payload: Mapping[str, Any]) -> OnError:
        """Return "dead": as with Celery an error is final, unless the task retries."""
        return "dead"

    def bounded(self, payload: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the arguments by name, however they were given: what Limits.payload_fields names."""
        args, kwargs = arguments_in(payload)
        try:
            return dict(self._signature.bind(*args, **kwargs).arguments)
        except TypeError:
            return kwargs

    def _run(self, context: Context, **payload: Any) -> Any:
        args, kwargs = arguments_in(payload)
        expires = payload.get("expires")
        if expires and timezone.now() >= datetime.fromisoformat(expires):
            raise Discard(f"expired at {expires}")
        return self._attempt(
            Request(
                task=self.name,
                id=str(context.job_id),
                args=args,
                kwargs=kwargs,
                retries=context.attempt - 1,
                hostname=context.worker_id,
                called_directly=False,
                job=context,
            )
        )

    def _attempt(self, request: Request) -> Any:
        with within(request):
            try:
                value = self.run(*request.args, **request.kwargs)
            except _STEERING:
                raise
            except self.options.dont_autoretry_for:
                raise
            except self.options.autoretry_for as error:
                raise self.retry(exc=error, **self._automatic(request.retries)) from error
        return None if self.options.ignore_result else value

    def _automatic(self, retries: int) -> dict[str, Any]:
        told = dict(self.options.retry_kwargs)
        if self.options.retry_backoff:
            nominal = min(self.options.retry_backoff_max, max(1.0, self.options.retry_backoff) * 2 ** min(retries, 64))
            told["countdown"] = random.uniform(0, nominal) if self.options.retry_jitter else nominal
        return told

    # -- what it is not -------------------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        """Say what to use instead of an attribute that Celery's tasks have. Raises AttributeError."""
        hint = ATTRIBUTES.get(name)
        said = f"a task of jobqueue.contrib.celery has no {name}"
        raise AttributeError(f"{said}: {hint}" if hint else said, name=name, obj=self)
