"""Tasks as handlers: what the worker, the registry and the console see of a django.tasks task."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from functools import update_wrapper
from typing import TYPE_CHECKING, Any

from asgiref.sync import iscoroutinefunction

from jobqueue.backoff import Backoff
from jobqueue.conf import get_settings, limits_for
from jobqueue.exceptions import HandlerImportError
from jobqueue.handlers import Handler, OnDeadline, OnError, Policy
from jobqueue.limits import Limits
from jobqueue.registry import registry

from .compat import InvalidTaskBackend, Task, path_of, task_backends
from .naming import path_in, type_of
from .policies import POLICY_FIELDS, Options, TaskPolicy, named_arguments
from .results import RETRIED, TaskGone, find_task
from .running import TaskObserver, call_values, send_for_killed

if TYPE_CHECKING:
    from jobqueue.children.context import Context


def declared_by(task: Task[Any, Any]) -> TaskPolicy:
    """Return what @task says of a task, where the Django in use forwards its keywords."""
    return TaskPolicy(**{name: getattr(task, name, None) for name in POLICY_FIELDS})


class TaskHandler(Handler):
    """Runs one task, by whichever alias its jobs were enqueued; its own alias says under which policy."""

    def __init__(self, task: Task[Any, Any]) -> None:
        self.task = task
        self.name = type_of(self.path)
        self.is_async = iscoroutinefunction(task.func)
        self.func = self._run_async if self.is_async else self._run
        self.queue = task.queue_name
        self.aliases = ()
        self.observer = TaskObserver(self)
        self._policy: tuple[object, TaskPolicy] | None = None
        self._merged: tuple[object, object, Limits] | None = None
        update_wrapper(self, task.func)

    @property
    def path(self) -> str:
        """Return the task's module path."""
        return path_of(self.task.func)

    @property
    def declared(self) -> TaskPolicy:
        """Return the policy under the OPTIONS of the task's own backend. Raises ConfigurationError."""
        try:
            backend: Any = task_backends[self.task.backend]
        except InvalidTaskBackend:  # its alias has gone from TASKS: its jobs can still be run
            backend = None
        known = self._policy
        if known is None or known[0] is not backend:
            options = getattr(backend, "policies", None)
            options = options if isinstance(options, Options) else Options({})
            known = self._policy = backend, options.policy(self.path, declared_by(self.task), self.task.func)
        return known[1]

    @property
    def priority(self) -> int:
        """Return the task's priority turned round: lower runs first here."""
        return 100 - int(self.task.priority)

    @property
    def max_attempts(self) -> int:
        """Return how many attempts a task has: of errors only where somebody said a number."""
        return self.declared.max_attempts or get_settings().MAX_ATTEMPTS

    def on_error(self, payload: Mapping[str, Any]) -> OnError:
        """Return "dead" unless the enqueue asked for attempts: in the tasks API an error is final."""
        return "retry" if payload.get(RETRIED) else "dead"

    @property
    def backoff(self) -> Backoff:
        """Return the declared backoff or that of the settings."""
        settings = get_settings()
        plain = Backoff(settings.BACKOFF_BASE_SECONDS, settings.BACKOFF_FACTOR, settings.BACKOFF_CAP_SECONDS)
        return self.declared.backoff or plain

    @property
    def on_deadline(self) -> OnDeadline:  # type: ignore[override]  # of @job it is a constant
        """Return what follows a run that was stopped at its deadline: as an error, unless it is said."""
        return self.declared.on_deadline or ("dead" if self.declared.max_attempts is None else "retry")

    @property
    def limits(self) -> Limits:
        """Return the limits in force: the operator's, else declared, else the defaults."""
        settings, declared = get_settings(), self.declared
        known = self._merged
        if known is None or known[0] is not settings or known[1] is not declared:
            merged = limits_for(self.name, declared.limits or Limits())
            known = self._merged = settings, declared, merged
        return known[2]

    def bounded(self, payload: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the arguments by name, however they were given: what Limits.payload_fields names."""
        args, kwargs = call_values(payload)
        return named_arguments(self.task.func, args, kwargs, takes_context=self.task.takes_context)

    def _run(self, context: Context, **payload: Any) -> Any:
        return self._observed.call(self, context, payload)

    async def _run_async(self, context: Context, **payload: Any) -> Any:
        return await self._observed.acall(self, context, payload)

    @property
    def _observed(self) -> TaskObserver:
        observer = self.observer
        assert isinstance(observer, TaskObserver)
        return observer

    def enqueue(self, **payload: Any) -> Any:
        """Refuse, with TypeError: a task is enqueued by the method of the task itself."""
        raise TypeError(f"enqueue {self.path} by the task itself: {self.task.func.__name__}.enqueue(...)")

    def enqueue_with(self, options: Mapping[str, Any], payload: Mapping[str, Any] | None = None) -> Any:
        """Refuse, as enqueue() does."""
        self.enqueue()

    def aenqueue(self, **payload: Any) -> Awaitable[Any]:
        """Refuse, as enqueue() does."""
        self.enqueue()
        raise NotImplementedError


def handler_of(task: Task[Any, Any]) -> TaskHandler:
    """Return the handler of a task, registered now if it is new. Raises ValueError where a @job has that name."""
    name = type_of(path_of(task.func))
    known = registry.find_known(name)
    if isinstance(known, TaskHandler) and known.task.func is task.func:
        return known
    handler = TaskHandler(task)
    registry.add_task(handler)
    if registry.find_known(name) is not handler:
        raise ValueError(
            f"the path of task {path_of(task.func)} is the name of a job type that @job declares: rename one"
        )
    return handler


class Source:
    """The registry's way to tasks that are in no module imported so far."""

    def find(self, job_type: str, payload: Mapping[str, Any]) -> TaskHandler | None:
        """Import the task that a payload names, None where it names none. Raises HandlerImportError."""
        if not isinstance(payload, Mapping) or not {"args", "kwargs", "backend"} <= payload.keys():
            return None
        path = path_in(job_type, payload)
        if path is None:
            return None
        try:
            return handler_of(find_task(path))
        except TaskGone:
            return None
        except Exception as error:  # whatever the module of the project raises is the end of its own jobs only
            raise HandlerImportError(job_type, path.rpartition(".")[0], f"{type(error).__name__}: {error}") from error

    def fallback(self) -> Policy:
        """Return the policy of tasks that no module has declared yet: the settings'."""
        settings = get_settings()
        return Policy(
            name="task",
            queue="default",
            priority=100,
            max_attempts=settings.MAX_ATTEMPTS,
            backoff=Backoff(settings.BACKOFF_BASE_SECONDS, settings.BACKOFF_FACTOR, settings.BACKOFF_CAP_SECONDS),
            limits=limits_for("", Limits()),
            on_deadline="dead",
            is_async=False,
        )

    def ended(self, job_id: int, error_class: str, error_text: str) -> None:
        """Send task_finished for a task whose own process was killed."""
        send_for_killed(job_id, error_class, error_text)
