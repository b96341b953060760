"""The kit's app: workers find its tasks, and their signals are written down."""

from __future__ import annotations

import sys
from typing import Any

from django.apps import AppConfig

from . import trace


class ConformanceConfig(AppConfig):
    """Installed by the kit's settings; it has no table."""

    name = "jobqueue.testing.conformance"
    label = "jobqueue_conformance"

    def ready(self) -> None:
        """Listen to the three signals in every process."""
        from . import api  # noqa: PLC0415 (the backport is an app itself)

        api.task_enqueued.connect(_enqueued)
        api.task_started.connect(_started)
        api.task_finished.connect(_finished)


def _enqueued(sender: Any, task_result: Any, **kwargs: Any) -> None:
    _tell("enqueued", sender, task_result)


def _started(sender: Any, task_result: Any, **kwargs: Any) -> None:
    _tell("started", sender, task_result)


def _finished(sender: Any, task_result: Any, **kwargs: Any) -> None:
    _tell("finished", sender, task_result)


def _tell(kind: str, sender: Any, result: Any) -> None:
    handled = sys.exc_info()[0]
    trace.write(
        kind,
        str(result.id),
        sender=f"{sender.__module__}.{sender.__qualname__}" if isinstance(sender, type) else f"no class: {sender!r}",
        status=str(result.status),
        worker_ids=len(result.worker_ids),
        handled=None if handled is None else handled.__name__,
    )
