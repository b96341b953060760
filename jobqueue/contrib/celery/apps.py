"""The Django application: it lets workers find the tasks of the project."""

from __future__ import annotations

from django.apps import AppConfig, apps
from django.conf import settings
from django.core import checks
from django.utils.module_loading import module_has_submodule


class CeleryConfig(AppConfig):
    """Tasks declared with Celery's words; it has no models."""

    name = "jobqueue.contrib.celery"
    label = "jobqueue_celery"
    verbose_name = "Job queue: tasks moved from Celery"

    def ready(self) -> None:
        """Register the system check."""
        from .checking import check_priorities  # noqa: PLC0415  (apps are imported before anything else)

        checks.register(check_priorities)

    def job_modules(self) -> list[str]:
        """Return what a worker imports: ``tasks`` of every app, and what CELERY_IMPORTS and CELERY_INCLUDE name."""
        configs = [config for config in apps.get_app_configs() if config.module is not None]
        found = [f"{config.name}.tasks" for config in configs if module_has_submodule(config.module, "tasks")]
        for setting in ("CELERY_IMPORTS", "CELERY_INCLUDE"):
            named = getattr(settings, setting, ())
            found += [named] if isinstance(named, str) else list(named)
        return found
