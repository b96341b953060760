"""This project, by the same rules: `manage.py runworker` of this checkout with its default settings."""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

from .base import DSN, Driver

ENVIRONMENT = {
    "DJANGO_SETTINGS_MODULE": "benchmarks.settings",
    "DATABASE_URL": DSN,
    "BENCHMARKS_DATABASE": urlsplit(DSN).path.removeprefix("/"),
}
MANAGE = Path(__file__).resolve().parents[3] / "manage.py"


class Peer(Driver):
    """`Job.objects` and `runworker`, which needs no tuning: its settings are the same in both columns."""

    packages = ("Django", "psycopg")
    settings = {"default": "manage.py runworker: its defaults"}
    bulk_size = 10_000

    def setup(self) -> None:
        os.environ.update(ENVIRONMENT)
        import django
        from django.core.management import call_command

        django.setup()
        call_command("migrate", verbosity=0)

    def open(self) -> None:
        from django.db import connection

        from benchmarks.jobs import MARK
        from jobqueue.models import Job

        connection.ensure_connection()
        self.name, self.jobs, self.connection = MARK, Job.objects, connection

    def enqueue(self, number: int) -> None:
        self.jobs.enqueue(self.name, {"number": number})

    def enqueue_bulk(self, numbers: range) -> None:
        self.jobs.enqueue_many([(self.name, {"number": number}) for number in numbers])

    def enqueue_later(self, numbers: range, seconds: int) -> None:
        later = {"job_type": self.name, "run_after": timedelta(seconds=seconds)}
        for start in range(numbers.start, numbers.stop, 100_000):
            chunk = range(start, min(start + 100_000, numbers.stop))
            self.jobs.enqueue_many([{**later, "payload": {"number": number}} for number in chunk])

    def waiting(self) -> int:
        return self._count("status = 1")

    def finished(self) -> int:
        return self._count("status = 3")

    def commands(self, workers: int) -> list[list[str]]:
        return [[sys.executable, str(MANAGE), "runworker", "--name", f"worker-{number}"] for number in range(workers)]

    def environment(self) -> dict[str, str]:
        return ENVIRONMENT

    def _count(self, condition: str) -> int:
        with self.connection.cursor() as cursor:
            cursor.execute(f"SELECT count(*) FROM jobqueue_job WHERE {condition}")
            return int(cursor.fetchone()[0])
