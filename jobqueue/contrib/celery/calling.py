"""How a task is called: ``delay``, ``apply_async``, here and now, or as a plain function."""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from django.conf import settings
from django.utils import timezone

from jobqueue.conf import get_settings
from jobqueue.handlers import Handler
from jobqueue.payloads import encode_payload

from .refusing import CALLED, refuse
from .requests import DIRECT, Request, Retry, current_request
from .results import AsyncResult, EagerResult, jobs

if TYPE_CHECKING:
    from .declaring import TaskOptions

#: The priority of a task is turned round, as that of django.tasks: with RabbitMQ higher runs first, here lower.
PRIORITY_TURN: Final = 100
#: Arguments of apply_async() that speak to a broker, or say what is so in any case.
ALWAYS_SO: Final = frozenset({"retry", "retry_policy", "ignore_result", "add_to_parent"})


class CalledTask(Handler):
    """The calling half of a task; its payload holds the arguments, as ``{"args": [...], "kwargs": {...}}``."""

    options: TaskOptions
    run: Callable[..., Any]
    _signature: inspect.Signature

    def _attempt(self, request: Request) -> Any:
        raise NotImplementedError

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function here and now."""
        with within(DIRECT):
            return self.run(*args, **kwargs)

    def delay(self, *args: Any, **kwargs: Any) -> AsyncResult | EagerResult:
        """Enqueue the task with these arguments, in the caller's transaction."""
        return self.apply_async(args, kwargs)

    def apply_async(
        self,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        *,
        countdown: float | None = None,
        eta: datetime | None = None,
        expires: float | datetime | None = None,
        queue: str | None = None,
        priority: int | None = None,
        **options: Any,
    ) -> AsyncResult | EagerResult:
        """Enqueue the task in the caller's transaction; it starts after the commit, and is gone with a rollback.

        A task that begins after ``expires`` (seconds from now, or an aware datetime) is cancelled. Raises TypeError
        for arguments that the function does not take and options without a counterpart, PayloadError for what JSON
        cannot hold, before any SQL.
        """
        given = {
            name for name, value in options.items() if value is not None and (name, value) != ("serializer", "json")
        }
        refuse(f"{self.name}.apply_async()", sorted(given - ALWAYS_SO), CALLED)
        payload = self._payload(args, kwargs, expires)
        if getattr(settings, "CELERY_TASK_ALWAYS_EAGER", False):
            return self._eagerly(payload, throws=getattr(settings, "CELERY_TASK_EAGER_PROPAGATES", False))
        job = jobs().enqueue(
            self.name,
            payload,
            queue=queue,
            priority=None if priority is None else turned(priority),
            run_after=timedelta(seconds=countdown) if countdown is not None else eta,
        )
        assert job is not None  # there is no key that another one could hold
        return AsyncResult(str(job.pk))

    def delay_on_commit(self, *args: Any, **kwargs: Any) -> None:
        """Do what delay() does: a job starts after the commit in any case."""
        self.apply_async(args, kwargs)

    def apply_async_on_commit(self, *args: Any, **kwargs: Any) -> None:
        """Do what apply_async() does: a job starts after the commit in any case."""
        self.apply_async(*args, **kwargs)

    def apply(
        self, args: Sequence[Any] | None = None, kwargs: Mapping[str, Any] | None = None, *, throw: bool = False
    ) -> EagerResult:
        """Run the task here and now, with its retries but without their delays; ``throw`` raises what it raises."""
        return self._eagerly(self._payload(args, kwargs, None), throws=throw)

    def AsyncResult(self, task_id: str) -> AsyncResult:  # noqa: N802  (Celery's name)
        """Return the result of the job with this id."""
        return AsyncResult(task_id)

    def _payload(
        self, args: Sequence[Any] | None, kwargs: Mapping[str, Any] | None, expires: float | datetime | None
    ) -> dict[str, Any]:
        if not isinstance(args, list | tuple | None) or not isinstance(kwargs, Mapping | None):
            raise TypeError(
                f"{self.name}: args must be a list or a tuple and kwargs a dict, not {args!r:.80}, {kwargs!r:.80}"
            )
        payload: dict[str, Any] = {"args": list(args or ()), "kwargs": dict(kwargs or {})}
        if self.options.typing:
            self._signature.bind(*payload["args"], **payload["kwargs"])
        if expires is not None:
            until = expires if isinstance(expires, datetime) else timezone.now() + timedelta(seconds=expires)
            if timezone.is_naive(until):
                raise ValueError(f"{self.name}: expires must be aware: {until!r} has no time zone")
            payload["expires"] = until.isoformat()
        return payload

    def _eagerly(self, payload: Mapping[str, Any], *, throws: bool) -> EagerResult:
        text = encode_payload(payload, max_bytes=get_settings().PAYLOAD_MAX_BYTES, job_type=self.name).text
        args, kwargs = arguments_in(json.loads(text))
        request = Request(task=self.name, id="eager", args=args, kwargs=kwargs, called_directly=False, is_eager=True)
        for retries in range(self.max_attempts):
            try:
                return EagerResult(self._attempt(replace(request, retries=retries)))
            except Retry:
                continue
            except Exception as error:
                if throws:
                    raise
                return EagerResult(None, error)
        raise AssertionError("retry() raises another error at the last attempt")

    def enqueue(self, **payload: Any) -> Any:
        """Refuse, with TypeError: a task is enqueued by delay() or apply_async()."""
        raise TypeError(f"enqueue {self.name} by delay() or apply_async()")

    def enqueue_with(self, options: Mapping[str, Any], payload: Mapping[str, Any] | None = None) -> Any:
        """Refuse, as enqueue() does."""
        self.enqueue()

    def aenqueue(self, **payload: Any) -> Awaitable[Any]:
        """Refuse, as enqueue() does."""
        self.enqueue()
        raise NotImplementedError


def turned(priority: object) -> int:
    """Return a priority of Celery's, 0 to 255, highest first, as one of ours; raises TypeError or ValueError."""
    if type(priority) is not int:
        raise TypeError(f"priority must be a whole number, not {priority!r}")
    if not 0 <= priority <= 255:
        raise ValueError(f"priority must be from 0 to 255, not {priority}")
    return PRIORITY_TURN - priority


def arguments_in(payload: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments that a payload holds."""
    return list(payload.get("args", ())), dict(payload.get("kwargs", {}))


@contextmanager
def within(request: Request) -> Iterator[None]:
    """Have a request be the current one of this thread within the block."""
    token = current_request.set(request)
    try:
        yield
    finally:
        current_request.reset(token)
