"""capture_jobs(): the jobs that a block of code enqueues, by whatever path, as rows of the table.

with capture_jobs() as jobs:
    client.post("/orders/", …)
assert [job.job_type for job in jobs] == ["shop.invoice"]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self, overload

from asgiref.sync import sync_to_async

from jobqueue.internal import is_internal
from jobqueue.models import Job

from .naming import Named, name_of

if TYPE_CHECKING:
    from types import TracebackType


class CapturedJobs(Sequence[Job]):
    """Jobs in the order of their ids: read from the table while the block runs, kept as they are at its end.

    What was rolled back is not among them: it was never enqueued. Nor is what another transaction, not committed yet,
    enqueues. See capture_jobs().
    """

    def __init__(self, types: Sequence[str]) -> None:
        self._types = types
        self._after = 0
        self._kept: list[Job] | None = None

    def __enter__(self) -> Self:
        newest = Job.objects.using(Job.objects.write_db).order_by("-pk").values_list("pk", flat=True).first()
        self._after, self._kept = newest or 0, None
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is None:  # else the transaction may be broken, and a second error would hide the first
            self._kept = self._read()

    async def __aenter__(self) -> Self:
        return await sync_to_async(self.__enter__)()

    async def __aexit__(self, *error: object) -> None:
        await sync_to_async(self.__exit__)(*error)  # type: ignore[arg-type]

    @overload
    def __getitem__(self, index: int) -> Job: ...
    @overload
    def __getitem__(self, index: slice) -> list[Job]: ...
    def __getitem__(self, index: int | slice) -> Job | list[Job]:
        return self._jobs[index]

    def __len__(self) -> int:
        return len(self._jobs)

    def __repr__(self) -> str:
        return repr(self._jobs)

    @property
    def _jobs(self) -> list[Job]:
        return self._read() if self._kept is None else self._kept

    def _read(self) -> list[Job]:
        rows = Job.objects.using(Job.objects.write_db).filter(pk__gt=self._after).order_by("pk")
        if self._types:
            rows = rows.filter(job_type__in=self._types)
        return [job for job in rows if self._types or not is_internal(job.job_type)]


def capture_jobs(*types: Named) -> CapturedJobs:
    """Collect the jobs that are enqueued within the block, all of the project's or those of some types.

    A context manager, for `with` and `async with`; its value is a sequence of jobs. Every way to enqueue counts:
    enqueue(), enqueue_many(), get_or_enqueue(), their async twins, django.tasks, Celery's names, rows made by
    factories. The package's own jobs (notices, webhooks, mail) are there only where their type is named.
    """
    return CapturedJobs([name_of(each) for each in types])
