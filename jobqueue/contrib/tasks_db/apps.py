"""The Django application, for the time of the move."""

from __future__ import annotations

from django.apps import AppConfig


class TasksDbConfig(AppConfig):
    """Its one table remembers which job a result of django-tasks-db has become.

    No page shows it, so no name of it is translated.
    """

    name = "jobqueue.contrib.tasks_db"
    label = "jobqueue_tasks_db"
    verbose_name = "Job queue: tasks moved from django-tasks-db"
    default_auto_field = "django.db.models.BigAutoField"
