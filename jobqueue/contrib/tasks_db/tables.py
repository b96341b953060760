"""The two tables of the move, by name: a backend is imported before models are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.db import models

if TYPE_CHECKING:
    from .models import Adopted


def adopted() -> models.Manager[Adopted]:
    """Return the moved tasks."""
    model: Any = apps.get_app_config("jobqueue_tasks_db").get_model("Adopted")
    manager: models.Manager[Adopted] = model.objects
    return manager


def foreign() -> models.Manager[Any] | None:
    """Return the rows of django-tasks-db, None where that app is not installed."""
    if not apps.is_installed("django_tasks_db"):
        return None
    model: type[Any] = apps.get_app_config("django_tasks_database").get_model("DBTaskResult")
    manager: models.Manager[Any] = model._default_manager
    return manager
