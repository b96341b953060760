"""``@shared_task``: its options, checked while the module is imported."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, overload

from jobqueue.exceptions import JobDeadlineExceeded
from jobqueue.registry import registry

from .refusing import DECLARED, refuse
from .running import CeleryTask

#: Options that say what is so here in any case.
ALWAYS_SO: Final = frozenset(
    {
        "acks_late",
        "acks_on_failure_or_timeout",
        "reject_on_worker_lost",
        "send_events",
        "shared",
        "store_errors_even_if_ignored",
        "store_eager_result",
        "track_started",
        "trail",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOptions:
    """What @shared_task takes, with Celery's defaults; delays are in seconds."""

    name: str | None = None
    bind: bool = False
    queue: str = "default"
    priority: int | None = None
    max_retries: int | None = 3
    default_retry_delay: float = 180
    autoretry_for: tuple[type[BaseException], ...] = ()
    dont_autoretry_for: tuple[type[BaseException], ...] = ()
    retry_kwargs: Mapping[str, Any] = field(default_factory=dict)
    retry_backoff: float = 0
    retry_backoff_max: float = 600
    retry_jitter: bool = True
    time_limit: float | None = None
    soft_time_limit: float | None = None
    ignore_result: bool = False
    typing: bool = True

    def __post_init__(self) -> None:
        """Refuse what no task could be run with. Raises TypeError or ValueError."""
        for name in ("autoretry_for", "dont_autoretry_for"):
            classes = getattr(self, name)
            if isinstance(classes, type) or not all(
                isinstance(one, type) and issubclass(one, BaseException) for one in classes
            ):
                raise TypeError(f"@shared_task: {name} must be a tuple of exception classes, not {classes!r}")
            object.__setattr__(self, name, tuple(classes))
        refuse("@shared_task: retry_kwargs", self.retry_kwargs.keys() - {"max_retries", "countdown"}, {})
        for name, told in (("max_retries", self.max_retries), ("retry_kwargs", self.retry_kwargs.get("max_retries"))):
            if told is not None and (type(told) is not int or told < 0):
                raise ValueError(f"@shared_task: {name} must be a whole number from 0, or None, not {told!r}")

    @property
    def most_retries(self) -> int | None:
        """Return how many retries a job has room for; None for no end."""
        wanted = [self.max_retries]
        if "max_retries" in self.retry_kwargs and self.autoretry_for:
            told = self.retry_kwargs["max_retries"]  # None there means the task's own number
            wanted += [] if told is None else [told]
        known = [number for number in wanted if number is not None]
        return max(known) if len(known) == len(wanted) else None

    @property
    def retries_at_deadline(self) -> bool:
        """Tell whether Celery would try again after its soft limit, whose exception is an Exception there."""
        caught = (Exception, BaseException, JobDeadlineExceeded)
        return self.soft_time_limit is not None and not set(caught).isdisjoint(self.autoretry_for)


_KNOWN: Final = frozenset(option.name for option in fields(TaskOptions))


@overload
def shared_task(func: Callable[..., Any], /) -> CeleryTask: ...
@overload
def shared_task(**options: Any) -> Callable[[Callable[..., Any]], CeleryTask]: ...
def shared_task(*args: Any, **options: Any) -> Any:
    """Declare a task in Celery's words: ``@shared_task`` or ``@shared_task(bind=True, max_retries=5, ...)``.

    The job type is ``name``, else the module and the name of the function; the task is a Handler like any other.
    Raises TypeError, ValueError or InvalidName at import for what cannot work or has no counterpart here.
    """
    if len(args) > 1 or (args and not callable(args[0])):
        raise TypeError("@shared_task takes keyword arguments only")
    given = {name: value for name, value in options.items() if value is not None or name == "max_retries"}
    if given.get("serializer") == "json":
        del given["serializer"]
    refuse("@shared_task", sorted(given.keys() - _KNOWN - ALWAYS_SO), DECLARED)
    told = TaskOptions(**{name: value for name, value in given.items() if name in _KNOWN})

    def declare(func: Callable[..., Any]) -> CeleryTask:
        task = CeleryTask(func, told)
        registry.add(task)
        return task

    return declare(args[0]) if args else declare
