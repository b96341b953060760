"""What its tests ask of its table, answered from ours. Rows are not made by this: there is no such table."""

from typing import Any

from django.utils import timezone

from jobqueue.backends.results import read_row, result_of
from jobqueue.models import Job
from jobqueue.states import Status


def get_date_max() -> Any:
    raise NotImplementedError


class DBTaskResult:
    """One task."""

    def __init__(self, job_id: int) -> None:
        row = read_row(job_id, None)
        assert row is not None
        self.task_result = result_of(row)
        self.task = self.task_result.task
        self.id = self.task_result.id


class Rows:
    """Some tasks, in the order in which they run."""

    def __init__(self, jobs: Any) -> None:
        self.jobs = jobs

    def all(self) -> "Rows":
        return self

    def filter(self, **named: Any) -> "Rows":
        return Rows(self.jobs.filter(**named))

    def ready(self) -> "Rows":
        Job.objects.promote()
        return Rows(self.jobs.filter(status=Status.PENDING, run_after__lte=timezone.now()))

    def successful(self) -> "Rows":
        return Rows(self.jobs.filter(status=Status.DONE))

    def failed(self) -> "Rows":
        return Rows(self.jobs.filter(status=Status.DEAD))

    def count(self) -> int:
        return int(self.jobs.count())

    def get(self, **named: Any) -> DBTaskResult:
        return DBTaskResult(self.jobs.get(**named).pk)

    def values(self, *names: str) -> Any:
        return self.jobs.values(*names)

    def update(self, *, run_after: Any) -> None:
        self.jobs.update(run_after=run_after)

    def select_for_update(self) -> Any:
        return self.jobs.select_for_update()

    def __iter__(self) -> Any:
        return iter([DBTaskResult(pk) for pk in self.jobs.values_list("pk", flat=True)])

    def create(self, **named: Any) -> Any:
        raise NotImplementedError("makes a row of django-tasks-db's own table")


class _Manager:
    def __get__(self, instance: Any, owner: Any) -> Rows:
        return Rows(Job.objects.exclude(task_backend=None).order_by("priority", "run_after", "pk"))


DBTaskResult.objects = _Manager()  # type: ignore[attr-defined]
