"""The tasks API of this Django: its own from 6.0 on, else the backport.

jobqueue.backends has the same decision, but its package needs jobqueue's tables; the kit runs where there are none.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

import django

#: Where the tasks API is.
MODULE: Final = "django.tasks" if django.VERSION >= (6, 0) else "django_tasks"

try:
    _api: Any = import_module(MODULE)
except ImportError as error:
    raise ImportError("the kit needs the tasks API: Django 6.0 or newer, or pip install 'jobqueue[tasks]'") from error
_exceptions: Any = import_module(f"{MODULE}.exceptions")
_signals: Any = import_module(f"{MODULE}.signals")

task: Callable[..., Callable[[Callable[..., Any]], Any]] = _api.task
task_backends: Any = _api.task_backends
READY, RUNNING, FAILED, SUCCESSFUL = (
    getattr(_api.TaskResultStatus, name) for name in ("READY", "RUNNING", "FAILED", "SUCCESSFUL")
)
InvalidTask: Any = getattr(_exceptions, "InvalidTask", None) or _exceptions.InvalidTaskError
TaskResultDoesNotExist: Any = _exceptions.TaskResultDoesNotExist
TaskResultMismatch: Any = _exceptions.TaskResultMismatch
task_enqueued: Any = _signals.task_enqueued
task_started: Any = _signals.task_started
task_finished: Any = _signals.task_finished
