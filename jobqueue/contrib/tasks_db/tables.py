"""The two tables of the move, by name: a backend is imported before models are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.db import models

if TYPE_CHECKING:
    from .models import Adopted


def adopted() -> models.Manager[Adopted]:
    """Return the moved tasks."""
    model: type[Adopted] = apps.get_model("jobqueue_tasks_db", "Adopted")
    return model.objects


def foreign() -> models.Manager[Any] | None:
    """Return the rows of django-tasks-db, None where that app is not installed."""
    if not apps.is_installed("django_tasks_db"):
        return None
    manager: models.Manager[Any] = apps.get_model("django_tasks_database", "DBTaskResult")._default_manager
    return manager
