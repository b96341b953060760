"""What the three backends have in common: the task class, the checks, and the calls beyond the tasks API."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async
from django.core import checks

from jobqueue.backoff import Backoff
from jobqueue.exceptions import ConfigurationError, InvalidName
from jobqueue.handlers import OnDeadline
from jobqueue.limits import Limits
from jobqueue.payloads import check_name

from .calls import TaskCall
from .compat import BaseTaskBackend, InvalidTask, Task, TaskResult
from .handling import declared_by, handler_of
from .policies import Dedupe, Options, TaskPolicy
from .results import find_task

if TYPE_CHECKING:
    Calls = Iterable[TaskCall | tuple[Any, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobQueueTask(Task):  # type: ignore[type-arg]
    """A task with a policy: ``@task(max_attempts=5)`` where the Django in use forwards keywords (6.1, the backport)."""

    max_attempts: int | None = None
    backoff: Backoff | None = None
    limits: Limits | None = None
    on_deadline: OnDeadline | None = None
    dedupe: Dedupe | None = None
    cost: Decimal | int | None = None

    def __post_init__(self) -> None:
        """Refuse what no task could be run with, as @policy does."""
        declared_by(self)
        Task.__post_init__(self)  # not super(): it fails in a dataclass with slots


class PolicyBackend(BaseTaskBackend):
    """A backend whose tasks have a policy; what it is worth depends on what runs them."""

    task_class = JobQueueTask

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        self._options: Options | None = None

    @property
    def policies(self) -> Options:
        """Return the OPTIONS, checked at their first use. Raises ConfigurationError."""
        if self._options is None:
            self._options = Options(self.options)
        return self._options

    def policy_of(self, task: Task[Any, Any]) -> TaskPolicy:
        """Return what counts for a task that this backend enqueues. Raises ConfigurationError."""
        return self.policies.policy(task.module_path, declared_by(task), task.func)

    def validate_task(self, task: Task[Any, Any]) -> None:
        """Refuse what the tasks API refuses, and queue names that no queue can have. Raises InvalidTask."""
        super().validate_task(task)
        try:
            check_name("queue", task.queue_name)
        except InvalidName as error:
            raise InvalidTask(str(error)) from error

    def enqueue_many(self, calls: Calls) -> list[TaskResult[Any] | None]:
        """Enqueue many tasks, in input order; None where an active one holds the key.

        Each item is a TaskCall or a tuple (task, args, kwargs), of which the last two may be left out.
        """
        results = [self.get_or_enqueue(call) for call in map(as_call, calls)]
        return [result if created else None for result, created in results]

    async def aenqueue_many(self, calls: Calls) -> list[TaskResult[Any] | None]:
        """Do what enqueue_many() does, for async code."""
        return await sync_to_async(self.enqueue_many)(list(calls))

    def get_or_enqueue(self, call: TaskCall) -> tuple[TaskResult[Any], bool]:
        """Return (the result of the active task that holds the key, False), or enqueue and return (it, True)."""
        return self.enqueue(call.task, call.args, call.kwargs), True

    async def aget_or_enqueue(self, call: TaskCall) -> tuple[TaskResult[Any], bool]:
        """Do what get_or_enqueue() does, for async code."""
        return await sync_to_async(self.get_or_enqueue)(call)

    def check(self, **kwargs: Any) -> Iterable[checks.CheckMessage]:
        """Report OPTIONS that cannot work, paths in them that lead to no task, and impossible queue names."""
        yield from super().check(**kwargs)
        where = f"TASKS[{self.alias!r}]"
        try:
            options = self.policies
        except ConfigurationError as error:
            yield checks.Error(f"{where}: {error}", id="jobqueue.E014")
            return
        for queue in sorted(self.queues, key=str):
            try:
                check_name("queue", queue)
            except InvalidName as error:
                yield checks.Error(f"{where}['QUEUES']: {error}", id="jobqueue.E014")
        for path in options.tasks:
            try:
                find_task(path)
            except Exception as error:  # noqa: BLE001  (whatever its module raises)
                text = f"{where}['OPTIONS']['tasks'] names {path!r}, which is no task: {error}"
                yield checks.Warning(text, id="jobqueue.W014")


def as_call(item: TaskCall | tuple[Any, ...]) -> TaskCall:
    """Return a TaskCall. Raises TypeError for what is none."""
    if isinstance(item, TaskCall):
        return item
    if isinstance(item, tuple) and 1 <= len(item) <= 3 and isinstance(item[0], Task):
        task, args, kwargs = (*item, (), {})[:3] if len(item) == 1 else (*item, {})[:3]
        if isinstance(args, Sequence) and not isinstance(args, str | bytes) and isinstance(kwargs, Mapping):
            return TaskCall(task=task, args=args, kwargs=kwargs)
    raise TypeError(f"must be a TaskCall or a tuple (task, args, kwargs), not {item!r:.80}")


def register(task: Task[Any, Any]) -> None:
    """Make a task known to the registry while its module is imported; a clash is told by a check and at enqueue."""
    try:
        handler_of(task)
    except ValueError:
        return
