"""The tests' settings with jobs on a database of their own: a router sends the app to the alias "jobs".

DATABASE_URL is the jobs' database, PROBE_DEFAULT_URL that of everything else.
"""

from typing import Any

from tests.settings import *  # noqa: F403
from tests.settings import DATABASES, env

DATABASES = {"default": env.db_url_config(env.str("PROBE_DEFAULT_URL")), "jobs": DATABASES["default"]}


class JobsRouter:
    """Sends the app's models to "jobs", and keeps them out of all other databases."""

    def db_for_read(self, model: Any, **hints: Any) -> str | None:
        """Return "jobs" for the app's models."""
        return "jobs" if model._meta.app_label == "jobqueue" else None

    db_for_write = db_for_read

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool | None:
        """Tell whether an app's tables belong into a database."""
        return (app_label == "jobqueue") == (db == "jobs")


DATABASE_ROUTERS = ["tests.two_databases.JobsRouter"]
