"""Which job a task of django-tasks-db has become."""

from __future__ import annotations

from typing import ClassVar

from django.db import models


class Adopted(models.Model):
    """One moved task. It outlives neither the app nor, in what it means, the job: a pruned one has no result."""

    result_id = models.UUIDField("result of django-tasks-db", primary_key=True)
    job_id = models.BigIntegerField("job")

    objects: ClassVar[models.Manager[Adopted]] = models.Manager()

    class Meta:
        """Names, and no permissions: it is in no admin."""

        verbose_name = "moved task"
        verbose_name_plural = "moved tasks"
        default_permissions = ()

    def __str__(self) -> str:
        """Return both ids."""
        return f"{self.result_id} is #{self.job_id}"
