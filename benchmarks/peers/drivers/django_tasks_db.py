"""django-tasks-db: the reference backend of django.tasks; one job at a time, polled for, and no bulk API."""

from __future__ import annotations

from . import postgres
from .base import TUNED
from .django_peer import TasksPeer

TABLE = "django_tasks_database_dbtaskresult"


class Peer(TasksPeer):
    """`manage.py db_worker`, which runs one job at a time; -v0, since at its default it writes lines for each job."""

    site = "django_tasks_db"
    packages = ("django-tasks-db", "Django", "psycopg")
    settings = {
        "default": "db_worker: one job at a time, polls every 1 s, jobs kept",
        "tuned": "db_worker --interval 0.01 --no-startup-delay: one job at a time, jobs kept",
    }
    bulk_size = None
    command = ("db_worker", "-v0", *(("--interval", "0.01", "--no-startup-delay") if TUNED else ()))

    def waiting(self) -> int:
        # A job for now has the last day of the calendar for run_after.
        return postgres.count(TABLE, "status = 'READY' AND (run_after <= now() OR run_after >= '9999-01-01')")

    def finished(self) -> int:
        return postgres.count(TABLE, "status = 'SUCCESSFUL'")
