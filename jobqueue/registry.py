"""Which handler does which job type: the ``@job`` decorator, discovery of ``jobs`` modules, and the policy table.

The ``jobs`` modules of installed apps are imported when the first job type is looked up, never while Django starts: a
module that cannot be imported must not keep the site, the admin or a worker from starting. It fails only its own
jobs. What it had declared before it failed is withdrawn (half a module must not run), its text of the error is kept,
and the names that its source declares are read from the file, so that their jobs fail with that text.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from django.apps import apps
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string, module_has_submodule

from .errors import describe
from .exceptions import HandlerImportError, UnknownJobType
from .handlers import Handler, Policy

_DECLARATION: Final = re.compile(r"@(?:\w+\.)*job\(\s*(?:name\s*=\s*)?[\"']([A-Za-z0-9_][A-Za-z0-9_.-]*)[\"']")
_MAX_ERROR_BYTES: Final = 8192


class RegistryProblem(NamedTuple):
    """Something that a system check reports; ``kind`` is "duplicate" or "import"."""

    kind: str
    subject: str
    text: str


class TaskSource(Protocol):
    """What knows the tasks of django.tasks: jobqueue.backends registers itself when it is imported."""

    def find(self, job_type: str, payload: Mapping[str, Any]) -> Handler | None:
        """Import the task that a payload names, None where it names none. Raises HandlerImportError."""

    def fallback(self) -> Policy:
        """Return the policy of tasks that no module has declared yet."""

    def ended(self, job_id: int, error_class: str, error_text: str) -> None:
        """Send the signal of a task whose own process was killed."""


class Registry:
    """The handlers of the project by job type, found at first use."""

    def __init__(self) -> None:
        self._handlers: dict[str, Handler] = {}
        self._tasks: dict[str, Handler] = {}
        self._aliases: dict[str, str] = {}
        self._problems: list[RegistryProblem] = []
        self._withdrawn: dict[str, str] = {}
        self._lock = threading.RLock()
        self._loading = self._loaded = False
        #: The text of the error by the module that could not be imported.
        self.failed: dict[str, str] = {}
        #: Where a task is found that is in no module imported so far.
        self.task_source: TaskSource | None = None
        #: In a process that runs no code of the project, the worker's supervisor: what another one knows of the types.
        self.told: PolicyTable | None = None

    def add(self, handler: Handler) -> None:
        """Register a handler; a second one of the same name is left out and reported by problems()."""
        known = self._handlers.get(handler.name)
        if known is not None and known.path != handler.path:
            self._report_duplicate(handler.name, f"is declared by {known.path} and by {handler.path}")
            return
        self._handlers[handler.name] = handler
        for alias in handler.aliases:
            if self._aliases.setdefault(alias, handler.name) != handler.name:
                self._report_duplicate(alias, f"is an alias of {self._aliases[alias]} and of {handler.name}")

    def add_task(self, handler: Handler) -> None:
        """Register what runs a django.tasks task; the same path again replaces it."""
        self._tasks[handler.name] = handler

    def find_known(self, job_type: str) -> Handler | None:
        """Return the handler of a job type or alias if it is known by now; imports nothing."""
        return self._find(job_type)

    def resolve(self, job_type: str, payload: Mapping[str, Any]) -> Handler:
        """Return the handler of one job: as get(), and a task is imported by the path that its payload names."""
        try:
            return self.get(job_type)
        except UnknownJobType:
            handler = self.task_source.find(job_type, payload) if self.task_source is not None else None
            if handler is None:
                raise
            return handler

    def _report_duplicate(self, name: str, text: str) -> None:
        problem = RegistryProblem("duplicate", name, f"job type {name!r} {text}")
        if problem not in self._problems:
            self._problems.append(problem)

    def get(self, job_type: str) -> Handler:
        """Return the handler of a job type or of an alias.

        Raises HandlerImportError when its module cannot be imported, else UnknownJobType.
        """
        handler = self._find(job_type)
        if handler is None:
            self.load()
            handler = self._find(job_type)
        if handler is None:
            raise self._unknown(job_type)
        return handler

    def _find(self, job_type: str) -> Handler | None:
        handlers = self._handlers
        return handlers.get(job_type) or handlers.get(self._aliases.get(job_type, "")) or self._tasks.get(job_type)

    def _unknown(self, job_type: str) -> Exception:
        return unknown_type(job_type, self._withdrawn, self.failed)

    def __contains__(self, job_type: object) -> bool:
        """Tell whether there is a handler, by name or alias."""
        self.load()
        return isinstance(job_type, str) and self._find(job_type) is not None

    def __iter__(self) -> Iterator[Handler]:
        """Iterate over all handlers by name."""
        self.load()
        known = self._tasks | self._handlers
        return iter([known[name] for name in sorted(known)])

    def names(self) -> list[str]:
        """Return all job types, sorted, without aliases."""
        return [handler.name for handler in self]

    def durations(self) -> dict[str, float]:
        """Return the longest run in seconds by job type, without aliases; imports nothing where it was `told`."""
        policies = self if self.told is None else self.told.policies.values()
        return {policy.name: policy.limits.duration or 0 for policy in policies}

    def problems(self) -> list[RegistryProblem]:
        """Return duplicates and modules that cannot be imported."""
        self.load()
        clashes = [
            RegistryProblem("duplicate", alias, f"job type {alias!r} is declared, and is an alias of {name}")
            for alias, name in sorted(self._aliases.items())
            if alias in self._handlers
        ]
        clashes += [
            RegistryProblem("duplicate", name, f"job type {name!r} is declared, and is the path of a task")
            for name in sorted(self._tasks.keys() & {*self._handlers, *self._aliases})
        ]
        broken = [RegistryProblem("import", module, text) for module, text in sorted(self.failed.items())]
        return self._problems + clashes + broken

    def policies(self) -> dict[str, Any]:
        """Return the policy table, as JSON holds it; from_policies() reads it."""
        return {
            "policies": [handler.policy().to_json() for handler in self],
            "withdrawn": dict(self._withdrawn),
            "failed": dict(self.failed),
            "fallback": None if self.task_source is None else self.task_source.fallback().to_json(),
        }

    def load(self) -> None:
        """Import the ``jobs`` modules of all installed apps, once.

        Raises AppRegistryNotReady before Django is set up.
        """
        if not self._loaded:
            apps.check_models_ready()
            with self._lock:
                self._load_once()

    def _load_once(self) -> None:
        # The lock lets its own thread in again: a module that looks up a job type while it is imported must neither
        # wait nor start over. Other threads wait for the end, else they would miss what is still to come.
        if self._loading or self._loaded:
            return
        self._loading = True
        try:
            for config in apps.get_app_configs():
                if config.module is not None and module_has_submodule(config.module, "jobs"):
                    self._import(f"{config.name}.jobs")
            for module in _task_modules():
                self._import(module)
            self._loaded = True
        finally:
            self._loading = False

    def _import(self, module: str) -> None:
        try:
            importlib.import_module(module)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the project's code runs here, a worker must outlive it
            self.failed[module] = describe(error, max_bytes=_MAX_ERROR_BYTES).traceback
            self._withdraw(module)

    def _withdraw(self, module: str) -> None:
        for name in [name for name, handler in self._tasks.items() if handler.path.rpartition(".")[0] == module]:
            del self._tasks[name]
            self._withdrawn[name] = module
        names = [name for name, handler in self._handlers.items() if handler.func.__module__ == module]
        for name in names:
            for alias in self._handlers.pop(name).aliases:
                self._aliases.pop(alias, None)
                names = [*names, alias]
        self._withdrawn.update(dict.fromkeys([*names, *_declared_in(module)], module))


def _task_modules() -> list[str]:
    """Return the modules with tasks, where TASKS names our backend: ``tasks`` of every app, and those in OPTIONS.

    The configuration of an app may name more, by job_modules(), as jobqueue.contrib.celery does.
    """
    modules: list[str] = [name for config in apps.get_app_configs() for name in getattr(config, "job_modules", list)()]
    for params in getattr(settings, "TASKS", {}).values():
        try:
            backend = import_string(params.get("BACKEND", ""))
        except (ImportError, ImproperlyConfigured):  # the tasks API says so itself
            continue
        if getattr(backend, "runs_as_jobs", False):
            found = [config for config in apps.get_app_configs() if config.module is not None]
            modules += [f"{config.name}.tasks" for config in found if module_has_submodule(config.module, "tasks")]
            modules += params.get("OPTIONS", {}).get("modules", ())
    return list(dict.fromkeys(modules))


def _declared_in(module: str) -> list[str]:
    """Return the job types that a module's source declares by a literal name; it may not even be valid Python."""
    try:
        spec = importlib.util.find_spec(module)
        source = Path(spec.origin).read_text(errors="replace") if spec and spec.origin else ""
    except (ImportError, OSError, ValueError):
        return []
    return _DECLARATION.findall(source)


def unknown_type(job_type: str, withdrawn: Mapping[str, str], failed: Mapping[str, str]) -> Exception:
    """Return the error for a job type without a handler: that of its module, where its module failed."""
    module = withdrawn.get(job_type)
    if module is None:
        # Where the name was made by code, the usual form "app.action" still tells whose it is.
        app = job_type.partition(".")[0]
        module = next((path for path in failed if f".{path}".endswith(f".{app}.jobs")), None)
        # A task is named by its path.
        module = next((path for path in failed if job_type.startswith(f"{path}.")), module)
    if module is not None:
        return HandlerImportError(job_type, module, failed.get(module, ""))
    hint = f"these modules cannot be imported: {', '.join(sorted(failed))}" if failed else ""
    return UnknownJobType(job_type, hint)


@dataclass(slots=True)
class PolicyTable:
    """The policies of all job types, for a process that has not imported the handlers."""

    policies: Mapping[str, Policy]
    withdrawn: Mapping[str, str] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
    #: Of tasks that no module has declared: a child finds them by their path.
    fallback: Policy | None = None

    def get(self, job_type: str) -> Policy:
        """Return the policy of a job type or alias; raises HandlerImportError or UnknownJobType as Registry.get()."""
        policy = self.policies.get(job_type)
        if policy is None:
            raise unknown_type(job_type, self.withdrawn, self.failed)
        return policy

    def learn(self, policy: Policy) -> None:
        """Add a task that was found late."""
        self.policies = {**self.policies, policy.name: policy}

    def home_queue(self, job_type: str) -> str | None:
        """Return the queue that a job type is declared for, None for one that is not known."""
        policy = self.policies.get(job_type)
        return None if policy is None else policy.queue

    def names(self) -> list[str]:
        """Return all job types, sorted, without aliases."""
        return sorted({policy.name for policy in self.policies.values()})


def from_policies(table: Mapping[str, Any]) -> PolicyTable:
    """Build the table from what Registry.policies() returned; aliases are keys of their own."""
    known: dict[str, Policy] = {}
    for values in table["policies"]:
        policy = Policy.from_json(values)
        for name in policy.aliases:
            known.setdefault(name, policy)
        known[policy.name] = policy
    fallback = table.get("fallback")
    return PolicyTable(known, table["withdrawn"], table["failed"], fallback and Policy.from_json(fallback))


#: The project's handlers.
registry: Final = Registry()


def job(name: object, **options: Any) -> Callable[[Callable[..., Any]], Handler]:
    """Declare the function below as the handler of a job type.

    The function is called as ``func(context, **payload)``; it may be ``async def``. Options: ``queue``, ``priority``,
    ``max_attempts``, ``backoff``, ``limits``, ``on_deadline`` ("retry" or "dead"), ``aliases`` (earlier names whose
    jobs it runs too). Raises TypeError, ValueError or InvalidName at import where something cannot work.
    """
    if not isinstance(name, str):  # @job without parentheses gives the function
        raise TypeError('@job needs the name of the job type: @job("app.action")')

    def declare(func: Callable[..., Any]) -> Handler:
        handler = Handler(func, name, **options)
        registry.add(handler)
        return handler

    return declare
