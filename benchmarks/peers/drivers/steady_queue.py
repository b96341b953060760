"""steady-queue: a backend of django.tasks after Rails' Solid Queue; a table a state, polled for, and no bulk API."""

from __future__ import annotations

from . import postgres
from .django_peer import TasksPeer


class Peer(TasksPeer):
    """`manage.py steady_queue`: a supervisor with its worker, dispatcher and scheduler."""

    site = "steady_queue"
    packages = ("steady-queue", "Django", "psycopg", "psycopg-pool")
    settings = {
        "default": "steady_queue: 1 process, 3 threads, polls every 0.1 s, jobs kept, a connection a job",
        "tuned": "steady_queue: 2 processes, 5 threads each, polls every 0.01 s, exact queue, jobs kept, Django's pool",
    }
    bulk_size = None
    command = ("steady_queue",)

    def waiting(self) -> int:
        return postgres.count("steady_queue_readyexecution")

    def finished(self) -> int:
        return postgres.count("steady_queue_job", "finished_at IS NOT NULL")
