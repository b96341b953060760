"""How a task is to be run, beyond what django.tasks knows: attempts, backoff, limits, one at a time, cost.

Four places say it, the first that does wins: the operator's ``OPTIONS["tasks"][path]``, ``@task(max_attempts=…)``
where the Django in use forwards keywords, ``@policy(…)`` on any version, and the backend's ``OPTIONS`` for all tasks.
Limits are joined field by field. Where nobody says anything the settings of JOBQUEUE count.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from decimal import Decimal
from typing import Any, Final, TypeVar

from jobqueue.backoff import Backoff
from jobqueue.exceptions import ConfigurationError
from jobqueue.handlers import OnDeadline
from jobqueue.limits import Limits
from jobqueue.rules import RULES, optional

Func = TypeVar("Func", bound=Callable[..., Any])
Dedupe = bool | str | Callable[..., "str | None"]

_ATTRIBUTE: Final = "_jobqueue_policy"
#: OPTIONS that are no policy.
MODULES, TASKS = "modules", "tasks"

_RIGHT_ORDER: Final = """@policy goes directly above the function, under @task:

    @task
    @policy(max_attempts=5)
    def {name}(...): ..."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPolicy:
    """What one place says of a task; None means that nothing is said here.

    ``max_attempts`` also has errors tried again: without it an error is final, as the tasks API has it, and only a
    run that was cut off (a killed worker) is repeated. ``dedupe`` keeps a second one from being enqueued while one is
    waiting or running: True (same arguments), a text such as "index:{path}", or a function of the arguments that
    returns a text or None. ``cost`` is booked for every attempt, in the first of JOBQUEUE["COST_UNITS"].
    """

    max_attempts: int | None = None
    backoff: Backoff | None = None
    limits: Limits | None = None
    on_deadline: OnDeadline | None = None
    dedupe: Dedupe | None = None
    cost: Decimal | int | None = None

    def __post_init__(self) -> None:
        """Refuse what no task could be run with. Raises TypeError or ValueError."""
        try:
            optional(RULES["MAX_ATTEMPTS"])(self.max_attempts)
        except ValueError as error:
            raise ValueError(f"max_attempts {error}") from error
        if not isinstance(self.backoff, Backoff | None):
            raise TypeError(f"backoff must be a Backoff, not {self.backoff!r}")
        if not isinstance(self.limits, Limits | None):
            raise TypeError(f"limits must be a Limits, not {self.limits!r}")
        if self.on_deadline not in (None, "retry", "dead"):
            raise ValueError(f"on_deadline is 'retry' or 'dead', not {self.on_deadline!r}")
        if not (self.dedupe is None or isinstance(self.dedupe, bool | str) or callable(self.dedupe)):
            raise TypeError(f"dedupe must be True, a text or a function, not {self.dedupe!r}")
        if self.cost is not None and (isinstance(self.cost, bool) or not isinstance(self.cost, Decimal | int)):
            raise TypeError(f"cost must be a Decimal or a whole number, not {self.cost!r}")

    def over(self, other: TaskPolicy) -> TaskPolicy:
        """Return this policy where it says something, and the other one where it does not."""
        values = {name: getattr(self if getattr(self, name) is not None else other, name) for name in POLICY_FIELDS}
        if self.limits is not None and other.limits is not None:
            values["limits"] = other.limits.merged(self.limits)
        return TaskPolicy(**values)


POLICY_FIELDS: Final = tuple(field.name for field in fields(TaskPolicy))
NOTHING_SAID: Final = TaskPolicy()


def policy(**options: Any) -> Callable[[Func], Func]:
    """Say how a task is to be run: ``max_attempts``, ``backoff``, ``limits``, ``on_deadline``, ``dedupe``, ``cost``.

    Goes directly above the function and under @task. Raises TypeError or ValueError at import for anything else.
    """
    said = TaskPolicy(**options)

    def note(func: Func) -> Func:
        if not inspect.isfunction(func):
            raise TypeError(_RIGHT_ORDER.format(name=getattr(func, "name", None) or getattr(func, "__name__", "task")))
        if _ATTRIBUTE in vars(func):
            raise TypeError(f"{func.__qualname__} has two @policy: one says it all")
        setattr(func, _ATTRIBUTE, said)
        return func

    return note


def policy_on(func: object) -> TaskPolicy:
    """Return what @policy says of a function."""
    said = getattr(func, _ATTRIBUTE, None)
    return said if isinstance(said, TaskPolicy) else NOTHING_SAID


class Options:
    """A backend's OPTIONS, checked: the policy of all its tasks, those of single ones, and modules to import."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        """Raise ConfigurationError, naming the option, for what is unknown or cannot work."""
        plain = {name: value for name, value in options.items() if name not in (TASKS, MODULES)}
        self.all = _policy(plain, "OPTIONS")
        told = options.get(TASKS, {})
        if not isinstance(told, Mapping):
            raise ConfigurationError(f"OPTIONS['tasks'] must be a dict by the path of a task, not {told!r:.80}")
        self.tasks = {path: _policy(values, f"OPTIONS['tasks'][{path!r}]") for path, values in told.items()}
        self.modules = options.get(MODULES, ())
        if isinstance(self.modules, str) or not all(isinstance(name, str) for name in self.modules):
            raise ConfigurationError(f"OPTIONS['modules'] must be a list of module names, not {self.modules!r:.80}")

    def policy(self, path: str, declared: TaskPolicy, func: object) -> TaskPolicy:
        """Return what counts for a task; `declared` is what @task says of it."""
        return self.tasks.get(path, NOTHING_SAID).over(declared).over(policy_on(func)).over(self.all)


def _policy(values: object, where: str) -> TaskPolicy:
    if isinstance(values, TaskPolicy):
        return values
    if not isinstance(values, Mapping):
        raise ConfigurationError(f"{where} must be a dict, not {values!r:.80}")
    unknown = sorted(str(name) for name in values if name not in POLICY_FIELDS)
    if unknown:
        known = ", ".join([*POLICY_FIELDS, *([TASKS, MODULES] if where == "OPTIONS" else [])])
        raise ConfigurationError(f"{where}: unknown {', '.join(unknown)}; known are {known}")
    made = dict(values)
    try:
        for name, kind in (("backoff", Backoff), ("limits", Limits)):
            if isinstance(made.get(name), Mapping):
                made[name] = kind(**made[name])
        return TaskPolicy(**made)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"{where}: {error}") from error


def dedupe_key(dedupe: Dedupe | None, func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Return the key that a call holds, empty for none. Raises TypeError where a text does not fit the arguments."""
    if dedupe is None or dedupe is False:
        return ""
    if dedupe is True:
        text = json.dumps([args, kwargs], sort_keys=True)
        return hashlib.blake2b(text.encode(errors="backslashreplace"), digest_size=16).hexdigest()
    if not isinstance(dedupe, str):
        return dedupe(*args, **kwargs) or ""
    try:
        return dedupe.format(**named_arguments(func, args, kwargs))
    except (KeyError, IndexError, AttributeError, ValueError) as error:
        raise TypeError(f"dedupe={dedupe!r} does not fit the arguments of {func.__qualname__}: {error!r}") from error


def named_arguments(
    func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], *, takes_context: bool = False
) -> dict[str, Any]:
    """Return the arguments of a call by name, with defaults; what does not fit the signature is left as it is."""
    try:
        signature = inspect.signature(func)
        bound = signature.bind(*([None] if takes_context else []), *args, **kwargs)
    except (TypeError, ValueError):
        return dict(kwargs)
    bound.apply_defaults()
    named = dict(bound.arguments)
    if takes_context:
        named.pop(next(iter(signature.parameters)), None)
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            named |= named.pop(parameter.name, {})
    return named
