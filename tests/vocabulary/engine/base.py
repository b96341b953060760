"""The engine's connections: Django's, under another name."""

from django.db.backends.postgresql import base


class DatabaseWrapper(base.DatabaseWrapper):
    """Differ from Django's by the class only."""
