"""What Celery has and a job has not, each with what to use instead: told where it is used, not where it is missed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

_CANVAS: Final = "have a task enqueue the next one at its end, or enqueue many at once with Job.objects.enqueue_many()"
_ROUTING: Final = "say queue=, and start a worker for that queue"
_LIFECYCLE: Final = "connect a receiver to jobqueue.signals (job_done, job_dead, job_retrying)"
_ALWAYS_JSON: Final = "payloads are JSON"

#: Names of Celery's modules.
NAMES: Final[Mapping[str, str]] = {
    "chain": _CANVAS,
    "chord": _CANVAS,
    "chunks": _CANVAS,
    "group": _CANVAS,
    "signature": _CANVAS,
    "Signature": _CANVAS,
    "Celery": "there is no app object: declare with @shared_task, workers find the tasks modules of installed apps",
    "current_app": "there is no app object: a job is enqueued by name with Job.objects.enqueue()",
    "current_task": "declare with bind=True, and use self",
    "Ignore": "raise jobqueue.Discard",
    "Reject": "raise jobqueue.Dead, or jobqueue.Snooze to have it again later",
    "GroupResult": _CANVAS,
    "ResultSet": _CANVAS,
}

#: Attributes of a task.
ATTRIBUTES: Final[Mapping[str, str]] = {
    "s": _CANVAS,
    "si": _CANVAS,
    "signature": _CANVAS,
    "subtask": _CANVAS,
    "map": _CANVAS,
    "starmap": _CANVAS,
    "chunks": _CANVAS,
    "replace": _CANVAS,
    "add_to_chord": _CANVAS,
    "send_event": "report with self.request.job.progress(percent, message)",
    "update_state": "report with self.request.job.progress(percent, message)",
    "backend": "a job's own row holds its result",
    "app": "there is no app object",
}

#: Options of @shared_task.
DECLARED: Final[Mapping[str, str]] = {
    "base": f"classes of tasks are not known; for on_success and on_failure {_LIFECYCLE}",
    "on_success": _LIFECYCLE,
    "on_failure": _LIFECYCLE,
    "on_retry": _LIFECYCLE,
    "after_return": _LIFECYCLE,
    "rate_limit": "give the task a queue of its own, and a worker with as many slots as may run at a time",
    "serializer": _ALWAYS_JSON,
    "compression": "payloads are not compressed",
    "throws": "leave it out, it only changed the level of a log line",
    "exchange": _ROUTING,
    "routing_key": _ROUTING,
    "pydantic": "validate in the task",
}

#: Arguments of apply_async().
CALLED: Final[Mapping[str, str]] = {
    "link": _CANVAS,
    "link_error": f"{_LIFECYCLE}, or an alert rule",
    "chord": _CANVAS,
    "group_id": _CANVAS,
    "task_id": "an id is given by the database; for one job at a time use a dedupe_key with Job.objects.enqueue()",
    "exchange": _ROUTING,
    "routing_key": _ROUTING,
    "headers": "put it among the arguments",
    "shadow": "log lines have the job's id",
    "serializer": _ALWAYS_JSON,
    "compression": "payloads are not compressed",
    "time_limit": "say it in @shared_task(time_limit=...)",
    "soft_time_limit": "say it in @shared_task(soft_time_limit=...)",
    "producer": "there is no broker",
    "connection": "there is no broker",
}

#: Arguments of retry().
RETRIED: Final[Mapping[str, str]] = {
    "args": "a retry has the arguments of its job; for others enqueue a new one",
    "kwargs": "a retry has the arguments of its job; for others enqueue a new one",
    "queue": "a retry stays in its queue; for another one enqueue a new job",
    "priority": "a retry keeps its priority; for another one enqueue a new job",
    "throw": "a retry is raised; return from the task for no retry",
}


def refuse(where: str, names: Iterable[str], hints: Mapping[str, str]) -> None:
    """Raise TypeError for the first of the names, with what to use instead; do nothing where there is none."""
    for name in names:
        hint = hints.get(name, "it has no counterpart, see docs/from-celery.md")
        raise TypeError(f"{where}: {name} is not supported: {hint}")
