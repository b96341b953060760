"""What the peers within Django have in common: the project of django_site.py, its migrations and its commands."""

from __future__ import annotations

import datetime as dt
import os
import sys
from typing import Any

from .base import Driver

SITE = f"{__package__}.django_site"


class DjangoPeer(Driver):
    """A driver that is a Django process. Subclasses name themselves and their worker's command."""

    site = ""  # which of django_site.SITES
    command: tuple[str, ...] = ()

    def __init__(self) -> None:
        import django

        os.environ.update(self.environment())
        django.setup()

    def environment(self) -> dict[str, str]:
        return {"DJANGO_SETTINGS_MODULE": SITE, "PEER_DJANGO": self.site}

    def setup(self) -> None:
        from django.core.management import call_command

        call_command("migrate", verbosity=0)

    def commands(self, workers: int) -> list[list[str]]:
        return [[sys.executable, "-m", "django", *self.command]] * workers


class TasksPeer(DjangoPeer):
    """One that is a backend of django.tasks: enqueued by the method that all of them have."""

    def __init__(self) -> None:
        super().__init__()
        self.noop = self.job()

    def job(self) -> Any:
        """Return the task that is enqueued."""
        from .django_jobs import noop

        return noop

    def enqueue(self, number: int) -> None:
        self.noop.enqueue(number)

    def enqueue_later(self, numbers: range, seconds: int) -> None:
        later = self.noop.using(run_after=in_seconds(seconds))
        for number in numbers:
            later.enqueue(number)


class BulkTasksPeer(TasksPeer):
    """One that has a bulk API of its own beside that, by which later jobs are enqueued, too."""

    def many(self, task: Any, numbers: range) -> None:
        """Enqueue the task once a number, by one call."""
        raise NotImplementedError

    def enqueue_bulk(self, numbers: range) -> None:
        self.many(self.noop, numbers)

    def enqueue_later(self, numbers: range, seconds: int) -> None:
        later = self.noop.using(run_after=in_seconds(seconds))
        for start in range(numbers.start, numbers.stop, 1_000):
            self.many(later, range(start, min(start + 1_000, numbers.stop)))


def in_seconds(seconds: int) -> dt.datetime:
    """Return the moment so many seconds from now, aware and UTC."""
    return dt.datetime.now(dt.UTC) + dt.timedelta(seconds=seconds)
