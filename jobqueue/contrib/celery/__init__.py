"""Celery's way to declare and call tasks, mapped onto jobs, so that a code base can move app by app.

Nothing of Celery is imported. What has no honest counterpart is refused with what to use instead; docs/from-celery.md
has the table. For new code there is ``@job``.
"""

from __future__ import annotations

from typing import NoReturn

from jobqueue.exceptions import JobDeadlineExceeded as SoftTimeLimitExceeded

from .declaring import shared_task
from .refusing import NAMES
from .requests import MaxRetriesExceededError, Retry, TaskFailure
from .results import AsyncResult, EagerResult
from .running import CeleryTask

__all__ = [
    "AsyncResult",
    "CeleryTask",
    "EagerResult",
    "MaxRetriesExceededError",
    "Retry",
    "SoftTimeLimitExceeded",
    "TaskFailure",
    "shared_task",
]

# What Celery's code imports, and is used to import as `Task`.
Task = CeleryTask


def __getattr__(name: str) -> NoReturn:
    """Say what to use instead of a name that Celery has and this module has not."""
    if name in NAMES:
        raise ImportError(f"jobqueue.contrib.celery has no {name}: {NAMES[name]}", name=name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
