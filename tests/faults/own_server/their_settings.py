"""A project of somebody else's: the tests' settings with databases, routers and URLs of its own.

THEIR_DATABASES is its DATABASES as JSON, THEIR_ROUTERS the dotted names of its routers, with commas.
"""

from typing import Any

from tests.settings import *  # noqa: F403  (as settings are derived)
from tests.settings import JOBQUEUE, env

DATABASES = env.json("THEIR_DATABASES")
DATABASE_ROUTERS = env.list("THEIR_ROUTERS", default=[])
ROOT_URLCONF = "tests.faults.own_server.their_urls"
ALLOWED_HOSTS = ["*"]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
JOBQUEUE = {**JOBQUEUE, "OPS_TOKEN": "a-token-of-some-length"}


class JobsRouter:
    """The app on the alias "jobs", all others on "default": as docs/databases.md has it."""

    def db_for_read(self, model: Any, **hints: object) -> str | None:
        """Return "jobs" for the app's models."""
        return "jobs" if model._meta.app_label == "jobqueue" else None

    db_for_write = db_for_read

    def allow_migrate(self, db: str, app_label: str, **hints: object) -> bool | None:
        """Tell whether an app's tables belong into a database."""
        return (app_label == "jobqueue") == (db == "jobs")


class ReplicaRouter:
    """Reads of everything go to the replica, as Django's documentation has it."""

    def db_for_read(self, model: object, **hints: object) -> str:
        """Return the replica."""
        return "replica"

    def db_for_write(self, model: object, **hints: object) -> str:
        """Return the primary."""
        return "default"

    def allow_relation(self, one: object, other: object, **hints: object) -> bool:
        """Both hold the same rows."""
        return True

    def allow_migrate(self, db: str, app_label: str, **hints: object) -> bool:
        """Tables are made on the primary."""
        return db == "default"
