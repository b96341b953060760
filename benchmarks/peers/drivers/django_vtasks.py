"""django-vtasks on its database backend: an asyncio worker that polls; a finished job is deleted."""

from __future__ import annotations

from typing import Any

from . import postgres
from .django_peer import DjangoPeer, in_seconds, thousands

TABLE = "db_queuedtask"


class Peer(DjangoPeer):
    """`manage.py runworker`. Its store keeps failed jobs only, so what is gone is finished."""

    site = "django_vtasks"
    packages = ("django-vtasks", "Django", "psycopg")
    settings = {
        # No tuned form: more or less concurrency, async handlers and a pool changed nothing, and its polling is fixed.
        "default": "runworker: concurrency 20, 1 job a claim, polls every 0.1 to 1 s, jobs deleted"
    }
    command = ("runworker",)

    def __init__(self) -> None:
        super().__init__()
        self.noop = self.job()

    def job(self) -> Any:
        """Return the task that is enqueued."""
        from .django_vtasks_jobs import noop

        return noop

    def setup(self) -> None:
        super().setup()
        self._enqueued = 0

    def enqueue(self, number: int) -> None:
        self.noop.enqueue(number)
        self._enqueued += 1

    def enqueue_bulk(self, numbers: range) -> None:
        self._many(self.noop, numbers)

    def enqueue_later(self, numbers: range, seconds: int) -> None:
        later = self.noop.using(run_after=in_seconds(seconds))
        for chunk in thousands(numbers):
            self._many(later, chunk)

    def waiting(self) -> int:
        return postgres.count(TABLE, "status = 'QUEUED' AND coalesce(run_after <= now(), true)")

    def finished(self) -> int:
        return self._enqueued - postgres.count(TABLE)

    def _many(self, task: object, numbers: range) -> None:
        from django.tasks import default_task_backend

        backend: Any = default_task_backend
        backend.enqueue_many([(task, (number,), {}) for number in numbers])
        self._enqueued += len(numbers)
