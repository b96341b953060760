"""The Django application."""

from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class JobQueueConfig(AppConfig):
    """Job queue on PostgreSQL; does nothing at start but registering its system checks."""

    name = "jobqueue"
    label = "jobqueue"
    verbose_name = _("Job queue")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the system checks; handler modules are imported at first use, never here."""
        from . import checks as _checks  # noqa: F401, PLC0415 - importing registers them
