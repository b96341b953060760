"""JobQueueBackend for a project that comes from django-tasks-db: it takes its OPTIONS, and knows its results."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final
from uuid import UUID

from django.apps import apps
from django.core import checks

from jobqueue.backends import JobQueueBackend
from jobqueue.backends.compat import TaskResult, TaskResultDoesNotExist
from jobqueue.backends.policies import Options

from .tables import adopted, foreign

#: What django-tasks-db's OPTIONS may hold and ours do not. An id is the job's number.
FOREIGN_OPTIONS: Final = frozenset({"id_function"})


class TasksDbBackend(JobQueueBackend):
    """Enqueues jobs as JobQueueBackend does; ids of django-tasks-db (UUIDs) still lead to their results.

    A moved task's id leads to its job. Any other leads to the row of django-tasks-db while that app is installed, so
    what has ended there can be read. Name JobQueueBackend instead when nobody asks for old ids any more.
    """

    @property
    def policies(self) -> Options:
        """Return the OPTIONS that are ours, checked at their first use. Raises ConfigurationError."""
        if self._options is None:
            self._options = Options(
                {name: value for name, value in self.options.items() if name not in FOREIGN_OPTIONS}
            )
        return self._options

    def get_result(self, result_id: str) -> TaskResult[Any]:
        """Return a result by its new or its old id; an old one takes a second query, and stays what it was.

        Raises TaskResultDoesNotExist and TaskGone as JobQueueBackend does.
        """
        old = _uuid(result_id)
        if old is None:
            return super().get_result(result_id)
        job_id = adopted().filter(pk=old).values_list("job_id", flat=True).first()
        if job_id is None:
            return self._foreign_result(old)
        result = super().get_result(str(job_id))
        object.__setattr__(result, "id", str(old))
        return result

    def _foreign_result(self, old: UUID) -> TaskResult[Any]:
        rows = foreign()
        row = None if rows is None else rows.filter(pk=old, backend_name=self.alias).first()
        if row is None:
            raise TaskResultDoesNotExist(str(old))
        result: TaskResult[Any] = row.task_result
        return result

    def check(self, **kwargs: Any) -> Iterable[checks.CheckMessage]:
        """Report OPTIONS of django-tasks-db that mean nothing here, and what JobQueueBackend reports."""
        yield from super().check(**kwargs)
        if not apps.is_installed("jobqueue.contrib.tasks_db"):
            hint = "Add 'jobqueue.contrib.tasks_db' to INSTALLED_APPS and run migrate."
            yield checks.Error(f"TASKS[{self.alias!r}] needs that app", hint=hint, id="jobqueue.E014")
        for name in sorted(FOREIGN_OPTIONS & self.options.keys()):
            text = f"TASKS[{self.alias!r}]['OPTIONS'][{name!r}] is not used: an id is the job's number"
            yield checks.Warning(text, hint="Remove it.", id="jobqueue.W015")


def _uuid(result_id: object) -> UUID | None:
    """Return an id of django-tasks-db, None for what is none; a job's number never is one: it is too short."""
    if not isinstance(result_id, str | UUID):
        return None
    try:
        return UUID(str(result_id))
    except ValueError:
        return None
