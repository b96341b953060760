"""dj-queue: a backend of django.tasks after Rails' Solid Queue; a table a state, LISTEN, threads that prefetch."""

from __future__ import annotations

from typing import Any

from . import postgres
from .base import TUNED
from .django_peer import BulkTasksPeer


class Peer(BulkTasksPeer):
    """`manage.py dj_queue`: a supervisor with its worker, dispatcher and scheduler."""

    site = "dj_queue"
    packages = ("dj-queue", "Django", "psycopg")
    settings = {
        "default": "dj_queue: 1 process, 3 threads, 6 jobs a claim at most, LISTEN, polls every 0.1 s, jobs kept",
        "tuned": "dj_queue: 2 processes, 5 threads and 50 jobs a claim each, LISTEN, polls every 0.1 s, jobs deleted",
    }
    command = ("dj_queue",)

    def setup(self) -> None:
        super().setup()
        self._enqueued = 0

    def enqueue(self, number: int) -> None:
        super().enqueue(number)
        self._enqueued += 1

    def waiting(self) -> int:
        return postgres.count("dj_queue_ready_executions")

    def finished(self) -> int:
        if TUNED:  # a finished job is deleted; a failed one stays
            return self._enqueued - postgres.count("dj_queue_jobs")
        return postgres.count("dj_queue_jobs", "finished_at IS NOT NULL")

    def many(self, task: Any, numbers: range) -> None:
        self.noop.get_backend().enqueue_all([(task, [number], {}) for number in numbers])
        self._enqueued += len(numbers)
