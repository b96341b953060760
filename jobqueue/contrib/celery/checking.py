"""The system check of the move: what would change its meaning without a word."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core import checks

from jobqueue.registry import registry

from .running import CeleryTask


def check_priorities(**kwargs: Any) -> list[checks.CheckMessage]:
    """Warn of priorities that meant the opposite: with Redis 0 is the highest, here as with RabbitMQ the lowest."""
    broker = str(getattr(settings, "CELERY_BROKER_URL", ""))
    if not broker.startswith(("redis:", "rediss:", "redis+", "sentinel:", "unix:")):
        return []
    return [
        checks.Warning(
            f"task {task.name} has priority={task.options.priority}, which Redis reads the other way round",
            hint="Higher runs first here: turn the number, and those given to apply_async(); see docs/from-celery.md.",
            id="jobqueue.W016",
        )
        for task in registry
        if isinstance(task, CeleryTask) and task.options.priority is not None
    ]
