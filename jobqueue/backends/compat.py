"""The one place that decides where the tasks API comes from: Django's own from 6.0 on, else the backport.

Everything else imports the names from here, so that one code runs on both. The exceptions have their names of Django 6;
the backport calls two of them InvalidTaskError and InvalidTaskBackendError.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import django
from django.core.exceptions import ImproperlyConfigured

if TYPE_CHECKING or django.VERSION < (6, 0):
    try:
        from django_tasks import TaskContext, TaskResult, TaskResultStatus, task, task_backends
        from django_tasks.backends.base import BaseTaskBackend
        from django_tasks.backends.dummy import DummyBackend as PlainDummyBackend
        from django_tasks.backends.immediate import ImmediateBackend as PlainImmediateBackend
        from django_tasks.base import Task, TaskError
        from django_tasks.exceptions import InvalidTaskBackendError as InvalidTaskBackend
        from django_tasks.exceptions import InvalidTaskError as InvalidTask
        from django_tasks.exceptions import TaskResultDoesNotExist, TaskResultMismatch
        from django_tasks.signals import task_enqueued, task_finished, task_started
        from django_tasks.utils import normalize_json
    except ImportError as error:
        raise ImproperlyConfigured(
            f"jobqueue.backends needs the tasks API: Django 6.0 or newer, or pip install 'jobqueue[tasks]' ({error})"
        ) from error
else:
    from django.tasks import TaskContext, TaskResult, TaskResultStatus, task, task_backends
    from django.tasks.backends.base import BaseTaskBackend
    from django.tasks.backends.dummy import DummyBackend as PlainDummyBackend
    from django.tasks.backends.immediate import ImmediateBackend as PlainImmediateBackend
    from django.tasks.base import Task, TaskError
    from django.tasks.exceptions import InvalidTask, InvalidTaskBackend, TaskResultDoesNotExist, TaskResultMismatch
    from django.tasks.signals import task_enqueued, task_finished, task_started
    from django.utils.json import normalize_json

__all__ = [
    "BaseTaskBackend",
    "InvalidTask",
    "InvalidTaskBackend",
    "PlainDummyBackend",
    "PlainImmediateBackend",
    "Task",
    "TaskContext",
    "TaskError",
    "TaskResult",
    "TaskResultDoesNotExist",
    "TaskResultMismatch",
    "TaskResultStatus",
    "normalize_json",
    "path_of",
    "task",
    "task_backends",
    "task_enqueued",
    "task_finished",
    "task_started",
]

#: Where the receivers live that write the log: they look at the id, the path and the status of a result, at no more.
SIGNALS_MODULE: Final = "django.tasks.signals" if django.VERSION >= (6, 0) else "django_tasks.signals"


def path_of(func: Any) -> str:
    """Return where a task's function is found again, as Task.module_path tells it."""
    return f"{func.__module__}.{func.__qualname__}"
