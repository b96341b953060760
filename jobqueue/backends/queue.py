"""JobQueueBackend: tasks of django.tasks as jobs of this queue."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from django.apps import apps
from django.core import checks

from jobqueue import sql
from jobqueue.managers.arriving import Arrival, arrive
from jobqueue.registry import registry
from jobqueue.states import ACTIVE

from .base import PolicyBackend, as_call, register
from .calls import TaskCall, key_of, normal_arguments, payload_of
from .compat import InvalidTask, Task, TaskResult, TaskResultDoesNotExist, TaskResultStatus, task_enqueued
from .handling import Source, handler_of
from .results import PRIORITY_TURN, changed_task, jobs, parse_id, read_row, result_of

if TYPE_CHECKING:
    from jobqueue.models import Job

    from .base import Calls

#: A key's holder may end between the insert that it refuses and the look at it, again and again only if keys are hot.
MOST_TRIES: Final = 20


class JobQueueBackend(PolicyBackend):
    """Stores tasks as jobs in the caller's transaction; ``manage.py runworker`` runs them.

    TASKS = {"default": {"BACKEND": "jobqueue.backends.JobQueueBackend", "QUEUES": [...], "OPTIONS": {...}}}
    """

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    #: Tells the registry to import the ``tasks`` modules of the installed apps.
    runs_as_jobs = True

    def validate_task(self, task: Task[Any, Any]) -> None:
        """Refuse what cannot be enqueued, and make the task known to this process. Raises InvalidTask."""
        super().validate_task(task)
        register(task)

    def enqueue(self, task: Task[Any, Any], args: Any, kwargs: Any) -> TaskResult[Any]:
        """Enqueue a task in the caller's transaction, in one query.

        Where the task's policy has it deduplicated and an active one holds the key, returns that one's result. Raises
        InvalidTask, TypeError, ValueError or PayloadError before any SQL, so that the transaction stays usable.
        """
        return self.get_or_enqueue(TaskCall(task=task, args=args, kwargs=kwargs))[0]

    def get_or_enqueue(self, call: TaskCall) -> tuple[TaskResult[Any], bool]:
        """Return (the result of the active task that holds the key, False), or enqueue and return (it, True)."""
        arrival = self._arrival(call)
        for _ in range(MOST_TRIES):
            job = jobs().enqueue_arrival(arrival)
            if job is not None:
                return self._enqueued(call.task, job), True
            holder = jobs().using(jobs().write_db).filter(dedupe_key=arrival.dedupe_key, status__in=ACTIVE)
            held = holder.values_list("pk", flat=True).first()
            row = None if held is None else read_row(held, self.alias)
            if row is not None:
                return result_of(row), False
        raise InvalidTask(f"the key {arrival.dedupe_key!r} is held by a job that is no task of backend {self.alias!r}")

    def enqueue_many(self, calls: Calls) -> list[TaskResult[Any] | None]:
        """Enqueue many tasks, all or nothing, in input order; None where an active one holds the key.

        Each item is a TaskCall or a tuple (task, args, kwargs), of which the last two may be left out. Errors name the
        index. Of several items with one key the first wins.
        """
        known: list[TaskCall] = []
        arrivals: list[Arrival] = []
        for index, item in enumerate(calls):
            try:
                known.append(as_call(item))
                arrivals.append(self._arrival(known[-1]))
            except (InvalidTask, TypeError, ValueError) as error:
                error.args = (f"item {index}: {error}", *error.args[1:])
                raise
        rows = jobs().enqueue_arrivals(arrivals)
        # A bulk's rows are written by several statements, each with its own time; a result tells that of its row.
        times = dict(jobs().run_sql(sql.CREATED_TIMES, {"ids": [job.pk for job in rows if job is not None]}))
        for job in rows:
            if job is not None:
                job.created_at = times.get(job.pk, job.created_at)
        return [None if job is None else self._enqueued(call.task, job) for call, job in zip(known, rows, strict=True)]

    def _arrival(self, call: TaskCall) -> Arrival:
        task = self._own(call.task)
        self.validate_task(task)
        args, kwargs = normal_arguments(call.args, call.kwargs)
        registry.load()
        try:
            handler = handler_of(task)
        except ValueError as error:
            raise InvalidTask(str(error)) from error
        policy = self.policy_of(task)
        max_attempts = policy.max_attempts if call.max_attempts is None else call.max_attempts
        arrival = arrive(
            handler.name,
            payload_of(task, args, kwargs, retried=max_attempts is not None),
            queue=task.queue_name,
            priority=PRIORITY_TURN - int(task.priority),
            run_after=task.run_after,
            dedupe_key=key_of(call, policy, args, kwargs),
            max_attempts=max_attempts,
            owner=call.owner,
        )
        return arrival._replace(task_backend=self.alias)

    def _own(self, task: Task[Any, Any]) -> Task[Any, Any]:
        """Return the task as one of this alias: somebody may call backend.enqueue() with another one's."""
        return task if task.backend == self.alias else changed_task(task, backend=self.alias)

    def _enqueued(self, task: Task[Any, Any], job: Job) -> TaskResult[Any]:
        result: TaskResult[Any] = TaskResult(
            task=self._own(task),
            id=str(job.pk),
            status=TaskResultStatus.READY,
            enqueued_at=job.created_at,
            started_at=None,
            last_attempted_at=None,
            finished_at=None,
            args=job.payload["args"],
            kwargs=job.payload["kwargs"],
            backend=self.alias,
            errors=[],
            worker_ids=[],
        )
        task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> TaskResult[Any]:
        """Return the result of a task that this alias enqueued, in one query.

        Raises TaskResultDoesNotExist for an unknown or malformed id, and TaskGone where the task's code has gone.
        """
        job_id = parse_id(result_id)
        row = None if job_id is None else read_row(job_id, self.alias)
        if row is None:
            raise TaskResultDoesNotExist(result_id)
        return result_of(row)

    def check(self, **kwargs: Any) -> Iterable[checks.CheckMessage]:
        """Report what would keep tasks from being stored or run."""
        if not apps.is_installed("jobqueue"):
            hint = "Add 'jobqueue' to INSTALLED_APPS and run migrate."
            yield checks.Error(f"TASKS[{self.alias!r}] needs the app jobqueue", hint=hint, id="jobqueue.E014")
        yield from super().check(**kwargs)


registry.task_source = Source()
