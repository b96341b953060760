"""Which queues are paused now, by whom and until when."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db import router
from django.db.models import Q

from jobqueue.conf import get_settings
from jobqueue.internal import INTERNAL_QUEUE
from jobqueue.managers.pausing import ALL_QUEUES
from jobqueue.models import Queue
from jobqueue.models.expressions import StatementTimestamp


@dataclass(frozen=True, slots=True)
class PausedQueue:
    """One pause that is in force; `name` is "*" for that of all queues but the package's own, jobqueue."""

    name: str
    paused_at: datetime
    paused_by: str  # a user's name, a command, or budget:NAME
    reason: str
    resumes_at: datetime | None  # None: when somebody resumes it

    def holds(self, queue: str) -> bool:
        """Tell whether this pause keeps the jobs of a queue from being claimed."""
        return self.name == queue or (self.name == ALL_QUEUES and queue != INTERNAL_QUEUE)


def paused_queues(using: str | None = None) -> list[PausedQueue]:
    """Return the pauses in force, by name; one row a queue, so it is cheap. Raises django.db errors."""
    alias = using or get_settings().DATABASE or router.db_for_read(Queue)
    now = StatementTimestamp()
    rows = Queue.objects.using(alias).filter(Q(resumes_at=None) | Q(resumes_at__gt=now), paused_at__isnull=False)
    fields = ("name", "paused_at", "paused_by", "reason", "resumes_at")
    return [PausedQueue(*row) for row in rows.order_by("name").values_list(*fields)]
