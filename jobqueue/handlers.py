"""A handler as declared by ``@job``, and its policy: what the worker must know of a job type without importing it."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from asgiref.sync import iscoroutinefunction
from django.apps import apps

from .backoff import Backoff
from .conf import get_settings, limits_for
from .limits import Limits
from .payloads import check_name
from .rules import RULES, optional

if TYPE_CHECKING:  # upward, for types only
    from .children.context import Context
    from .managers import JobManager
    from .models import Job

OnDeadline = Literal["retry", "dead"]
OnError = Literal["retry", "dead"]

_ON_DEADLINE: Final = ("retry", "dead")


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How jobs of one type are to be run, with the settings applied."""

    name: str
    queue: str
    priority: int
    max_attempts: int
    backoff: Backoff
    limits: Limits
    on_deadline: OnDeadline
    is_async: bool
    aliases: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the policy as JSON holds it."""
        plain = {name: getattr(self, name) for name in ("name", "queue", "priority", "max_attempts", "on_deadline")}
        return plain | {
            "is_async": self.is_async,
            "aliases": list(self.aliases),
            "backoff": self.backoff.to_json(),
            "limits": self.limits.to_json(),
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Policy:
        """Build a policy from what to_json() returned."""
        made = {
            "aliases": tuple(values["aliases"]),
            "backoff": Backoff.from_json(values["backoff"]),
            "limits": Limits.from_json(values["limits"]),
        }
        return cls(**{**values, **made})


class RunObserver(Protocol):
    """Told of every run of a handler, in its child: so a django.tasks task sends Django's own signals."""

    def started(self, context: Context, payload: Mapping[str, Any]) -> None:
        """Take note that the handler is about to be called."""

    def awaits_success(self) -> bool:
        """Tell whether the verdict on a good end is waited for; that on any other one is."""

    def ended(self, context: Context, payload: Mapping[str, Any], status: int) -> None:
        """Take note of the verdict, while the handler's exception is still being handled."""


class Handler:
    """A job type with the function that does its work; calling it calls the function.

    ``priority``, ``max_attempts``, ``backoff`` and ``limits`` answer with the settings applied.
    """

    #: Whoever is told of its runs besides the receivers of the signals.
    observer: RunObserver | None = None

    def __init__(
        self,
        func: Callable[..., Any],
        name: str,
        *,
        queue: str = "default",
        priority: int | None = None,
        max_attempts: int | None = None,
        backoff: Backoff | None = None,
        limits: Limits | None = None,
        on_deadline: OnDeadline = "retry",
        aliases: Iterable[str] = (),
    ) -> None:
        self.name = check_name("job type", name)
        self.func = check_callable(func, name)
        self.queue = check_name("queue", queue)
        self.aliases = _check_aliases(name, aliases)
        self.on_deadline = on_deadline
        self.is_async = iscoroutinefunction(func)
        self._priority, self._max_attempts, self._backoff = priority, max_attempts, backoff
        self.declared_limits = Limits() if limits is None else limits
        self._limits: tuple[object, Limits] | None = None
        self._check()
        update_wrapper(self, func)

    def _check(self) -> None:
        for key, value in (("PRIORITY", self._priority), ("MAX_ATTEMPTS", self._max_attempts)):
            try:
                optional(RULES[key])(value)
            except ValueError as error:
                raise ValueError(f"job type {self.name!r}: {key.lower()} {error}") from error
        if not isinstance(self._backoff, Backoff | None):
            raise TypeError(f"job type {self.name!r}: backoff must be a Backoff, not {self._backoff!r}")
        if not isinstance(self.declared_limits, Limits):
            raise TypeError(f"job type {self.name!r}: limits must be a Limits, not {self.declared_limits!r}")
        if self.on_deadline not in _ON_DEADLINE:
            raise ValueError(f"job type {self.name!r}: on_deadline is 'retry' or 'dead', not {self.on_deadline!r}")

    @property
    def priority(self) -> int:
        """Return the declared priority or the setting; lower runs first."""
        return get_settings().PRIORITY if self._priority is None else self._priority

    @property
    def max_attempts(self) -> int:
        """Return the declared number of attempts or the setting."""
        return get_settings().MAX_ATTEMPTS if self._max_attempts is None else self._max_attempts

    @property
    def backoff(self) -> Backoff:
        """Return the declared backoff or that of the settings."""
        if self._backoff is not None:
            return self._backoff
        settings = get_settings()
        return Backoff(settings.BACKOFF_BASE_SECONDS, settings.BACKOFF_FACTOR, settings.BACKOFF_CAP_SECONDS)

    @property
    def limits(self) -> Limits:
        """Return the limits in force: the operator's, else declared, else the defaults."""
        settings = get_settings()
        known = self._limits
        if known is None or known[0] is not settings:  # once for each JOBQUEUE: every run asks for them
            known = self._limits = settings, limits_for(self.name, self.declared_limits)
        return known[1]

    def on_error(self, payload: Mapping[str, Any]) -> OnError:
        """Return what follows an error of the function, while attempts are left."""
        return "retry"

    def bounded(self, payload: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what the names in ``Limits.payload_fields`` stand for."""
        return payload

    @property
    def path(self) -> str:
        """Return where the function is defined, as "module.function"."""
        return f"{self.func.__module__}.{self.func.__qualname__}"

    def policy(self) -> Policy:
        """Return all that the worker has to know of this type."""
        return Policy(
            name=self.name,
            queue=self.queue,
            priority=self.priority,
            max_attempts=self.max_attempts,
            backoff=self.backoff,
            limits=self.limits,
            on_deadline=self.on_deadline,
            is_async=self.is_async,
            aliases=self.aliases,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function, as any other code may do in its own process."""
        return self.func(*args, **kwargs)

    def __repr__(self) -> str:
        """Return the name and the place of the function."""
        return f"<Handler {self.name} {self.path}>"

    def enqueue(self, **payload: Any) -> Job | None:
        """Enqueue a job of this type with the keyword arguments as its payload."""
        return _manager().enqueue(self.name, payload)

    def enqueue_with(self, options: Mapping[str, Any], payload: Mapping[str, Any] | None = None) -> Job | None:
        """Enqueue with options of Job.objects.enqueue (priority, run_after, dedupe_key …); None: its key is held."""
        return _manager().enqueue(self.name, payload, **options)

    def aenqueue(self, **payload: Any) -> Awaitable[Job | None]:
        """Do what enqueue() does, for async code."""
        return _manager().aenqueue(self.name, payload)


def _manager() -> JobManager:
    # By name: this is the lowest floor, and the models are above it.
    job_model: type[Job] = apps.get_model("jobqueue", "Job")
    return job_model.objects


def _check_aliases(name: str, aliases: Iterable[str]) -> tuple[str, ...]:
    if isinstance(aliases, str):
        raise TypeError(f"job type {name!r}: aliases must be a list of names, not one string")
    return tuple(check_name("alias", alias) for alias in aliases)


def check_callable(func: object, name: str) -> Callable[..., Any]:
    """Return the function if a worker can find it again and call it with a context, else raise TypeError.

    The worker imports the function by its module: a lambda, a nested function, a method or a partial would be found
    in the web process only, and its jobs would wait for ever.
    """
    problem = _callable_problem(func)
    if problem:
        raise TypeError(f"job type {name!r}: the handler must be a function at module level, not {problem}")
    return func  # type: ignore[return-value]


def _callable_problem(func: object) -> str | None:
    if not inspect.isfunction(func):
        kind = "a class" if inspect.isclass(func) else f"a {type(func).__name__}"
        return f"{kind} ({func!r:.80})"
    if func.__name__ == "<lambda>":
        return "a lambda"
    if "<locals>" in func.__qualname__:
        return f"one inside another ({func.__qualname__}); a decorator must use functools.wraps"
    if "." in func.__qualname__:
        return f"a method ({func.__qualname__})"
    if inspect.isgeneratorfunction(func) or inspect.isasyncgenfunction(func):
        return f"a generator ({func.__qualname__}): its body would never run"
    first = next(iter(inspect.signature(func).parameters.values()), None)
    if first is None or first.kind in (first.KEYWORD_ONLY, first.VAR_KEYWORD):
        return f"one without a first parameter for the context ({func.__qualname__})"
    return None
