"""Backends of django.tasks: the queue, and two for development and tests that take the same options."""

from .calls import TaskCall
from .compat import task, task_backends
from .local import DummyBackend, ImmediateBackend
from .policies import TaskPolicy, policy
from .queue import JobQueueBackend
from .results import TaskGone
from .running import JobTaskContext

__all__ = [
    "DummyBackend",
    "ImmediateBackend",
    "JobQueueBackend",
    "JobTaskContext",
    "TaskCall",
    "TaskGone",
    "TaskPolicy",
    "policy",
    "task",
    "task_backends",
]
