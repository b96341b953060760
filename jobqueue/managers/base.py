"""Which database the verbs of Job.objects run on, and how a statement is run there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from django.db import connections, models, router

from jobqueue.conf import get_settings

from .querysets import JobQuerySet

if TYPE_CHECKING:
    from jobqueue.models import Job

    ManagerBase = models.Manager[Job]
else:
    ManagerBase = models.Manager


class JobManagerBase(ManagerBase):
    """Job.objects without its verbs."""

    @property
    def write_db(self) -> str:
        """The alias that jobs are written to and read back from: by using(), JOBQUEUE["DATABASE"] or the router."""
        return self._db or get_settings().DATABASE or router.db_for_write(self.model)

    def get_queryset(self) -> JobQuerySet:
        """Return the named querysets."""
        return JobQuerySet(self.model, using=self._db or get_settings().DATABASE, hints=self._hints)  # type: ignore[attr-defined]

    def get(self, *args: Any, **kwargs: Any) -> Job:
        """Return one job, read from the primary: a replica may not have it yet."""
        return self.get_queryset().using(self.write_db).get(*args, **kwargs)

    def run_sql(self, statement: str, params: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """Run one of jobqueue.sql's statements on Django's connection and return its rows."""
        with connections[self.write_db].cursor() as cursor:
            cursor.execute(statement, params)
            return cursor.fetchall() if cursor.description else []
