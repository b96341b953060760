from typing import ClassVar

from django.db import models


class Row(models.Model):
    """A task: what is not asked for by a query is in `state`, as JSON."""

    key = models.CharField(max_length=64, unique=True)
    alias = models.CharField(max_length=64)
    status = models.CharField(max_length=16)
    priority = models.IntegerField()
    run_after = models.DateTimeField(null=True)
    path = models.TextField()
    state = models.JSONField()

    objects: ClassVar[models.Manager["Row"]] = models.Manager()

    def __str__(self) -> str:
        return f"{self.path} {self.status}"
