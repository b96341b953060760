"""django-vtasks on its database backend: an asyncio worker that polls; a finished job is deleted."""

from __future__ import annotations

from typing import Any

from . import postgres
from .django_peer import BulkTasksPeer

TABLE = "db_queuedtask"


class Peer(BulkTasksPeer):
    """`manage.py runworker`. Its store keeps failed jobs only, so what is gone is finished."""

    site = "django_vtasks"
    packages = ("django-vtasks", "Django", "psycopg")
    settings = {
        # No tuned form: more or less concurrency, async handlers and a pool changed nothing, and its polling is fixed.
        "default": "runworker: concurrency 20, 1 job a claim, polls every 0.1 to 1 s, jobs deleted"
    }
    command = ("runworker",)

    def job(self) -> Any:
        from .django_vtasks_jobs import noop

        return noop

    def setup(self) -> None:
        super().setup()
        self._enqueued = 0

    def enqueue(self, number: int) -> None:
        super().enqueue(number)
        self._enqueued += 1

    def waiting(self) -> int:
        return postgres.count(TABLE, "status = 'QUEUED' AND coalesce(run_after <= now(), true)")

    def finished(self) -> int:
        return self._enqueued - postgres.count(TABLE)

    def many(self, task: Any, numbers: range) -> None:
        from django.tasks import default_task_backend

        backend: Any = default_task_backend
        backend.enqueue_many([(task, (number,), {}) for number in numbers])
        self._enqueued += len(numbers)
