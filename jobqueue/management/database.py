"""What the commands for people share: the alias they work on, and one clear line when its database is away."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError, InterfaceError, OperationalError, connections

from jobqueue.exceptions import ConfigurationError
from jobqueue.managers import JobManager
from jobqueue.managers.settling import sqlstate
from jobqueue.models import Job

CONNECT_SECONDS: Final = 5
UNDEFINED_TABLE: Final = "42P01"


class DatabaseCommand(BaseCommand):
    """A command that works on the jobs' database; exits with 1 and one line when it cannot."""

    # A monitor calls these every minute: checks that import the handlers are for `check` and the worker.
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare --database."""
        parser.add_argument("--database", help="alias of the jobs' database (default: where jobs are written)")

    def manager(self, options: dict[str, Any]) -> JobManager:
        """Return Job.objects on the alias that was asked for. Raises CommandError for one that does not exist."""
        try:
            alias = options["database"] or Job.objects.write_db
        except ConfigurationError as error:
            raise CommandError(str(error)) from error
        if alias not in connections:
            raise CommandError(f"--database {alias!r}: no such alias in settings.DATABASES", returncode=2)
        connection = connections[alias]
        if connection.connection is None:  # a host that does not answer at all would be waited for two minutes
            settings = connection.settings_dict
            settings["OPTIONS"] = {"connect_timeout": CONNECT_SECONDS, **settings.get("OPTIONS", {})}
        return Job.objects.db_manager(alias)


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn what the database or the settings refuse into a CommandError of one line."""
    try:
        yield
    except (OperationalError, InterfaceError) as error:
        raise CommandError(f"the database does not answer: {_first_line(error)}") from error
    except DatabaseError as error:
        hint = ": run manage.py migrate" if sqlstate(error) == UNDEFINED_TABLE else ""
        raise CommandError(f"the database refused: {_first_line(error)}{hint}") from error
    except ConfigurationError as error:
        raise CommandError(str(error)) from error


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
