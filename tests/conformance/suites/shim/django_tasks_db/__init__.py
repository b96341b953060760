"""Under django-tasks-db's name, for its tests: our backend."""

from typing import Any


def __getattr__(name: str) -> Any:
    if name == "DatabaseBackend":
        from jobqueue.backends import JobQueueBackend

        return JobQueueBackend
    raise AttributeError(name)
