"""The same as jobqueue_worker, under the name that people look for."""

from jobqueue.management.commands.jobqueue_worker import Command

__all__ = ["Command"]
