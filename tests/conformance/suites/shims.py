"""Our backend with the two conveniences that Django's tests use of its Dummy and its Immediate backend."""

from typing import Any

from jobqueue.backends import JobQueueBackend
from jobqueue.backends.results import read_row, result_of
from jobqueue.models import Job
from jobqueue.testing import drain


class Storing(JobQueueBackend):
    """`results` and `clear()`, as Dummy has them."""

    @property
    def results(self) -> list[Any]:
        ids = Job.objects.filter(task_backend=self.alias).order_by("pk").values_list("pk", flat=True)
        rows = [read_row(pk, self.alias) for pk in ids]
        return [result_of(row) for row in rows if row is not None]

    def clear(self) -> None:
        Job.objects.all().delete()


class Draining(JobQueueBackend):
    """Runs what it is given at once, as Immediate does, by way of the queue."""

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        result = super().enqueue(task, args, kwargs)
        drain()
        result.refresh()
        return result
