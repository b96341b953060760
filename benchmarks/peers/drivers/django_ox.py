"""django-ox: a backend of django.tasks; polled for, claimed and settled one by one by a pool of threads."""

from __future__ import annotations

from typing import Any

from . import postgres
from .base import TUNED
from .django_peer import BulkTasksPeer


class Peer(BulkTasksPeer):
    """`manage.py ox_worker` and django_ox.bulk.enqueue_many()."""

    site = "django_ox"
    packages = ("django-ox", "Django", "psycopg")
    settings = {
        "default": "ox_worker: 1 process, 1 thread, polls every 1 s, jobs kept",
        "tuned": "ox_worker --processes 2 --concurrency 2 --interval 0.01: jobs kept",
    }
    command = ("ox_worker", *(("--processes=2", "--concurrency=2", "--interval=0.01") if TUNED else ()))

    def waiting(self) -> int:
        return postgres.count("django_ox_oxtask", "status = 'READY' AND coalesce(run_after <= now(), true)")

    def finished(self) -> int:
        return postgres.count("django_ox_oxtask", "status = 'SUCCESSFUL'")

    def many(self, task: Any, numbers: range) -> None:
        from django_ox.bulk import enqueue_many

        enqueue_many(task, [((number,), {}) for number in numbers])
