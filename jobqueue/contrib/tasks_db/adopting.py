"""Move waiting tasks of django-tasks-db into jobs, a batch a transaction.

A batch locks its rows, inserts a job for each, remembers which job each became, and deletes the rows: all of it or
nothing. So a move that was cut off is begun again and no task is run twice or lost. Rows that a db_worker is just
claiming are locked by it and left out; those that cannot be jobs stay where they are, with the reason.

A job keeps its place: its run_after is the task's, else the time at which the task was enqueued.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from django.db import router, transaction

from jobqueue.backends import JobQueueBackend, TaskCall, task_backends
from jobqueue.backends.compat import InvalidTask, InvalidTaskBackend
from jobqueue.backends.results import changed_task, find_task, jobs
from jobqueue.exceptions import BudgetSpent, ConfigurationError
from jobqueue.managers.arriving import Arrival

from .tables import adopted, foreign

READY: Final = "READY"
RUNNING: Final = "RUNNING"
#: What django-tasks-db stores for a task that may run at once is in the year 9999.
NEVER_DEFERRED: Final = 9999
_FIRST: Final = UUID(int=0)


@dataclass(slots=True)
class Report:
    """What a move did: how many rows became jobs, and why others did not, with one of them each."""

    moved: int = 0
    left: Counter[str] = field(default_factory=Counter)
    examples: dict[str, UUID] = field(default_factory=dict)
    running: int = 0
    still_ready: int = 0

    def leave(self, row: Any, why: str) -> None:
        """Take note of a row that stays."""
        self.left[why] += 1
        self.examples.setdefault(why, row.pk)


class Move:
    """The move of all waiting rows, or of those of one backend; ``to`` is the alias that their jobs get."""

    def __init__(self, *, backend: str | None = None, to: str | None = None, batch: int = 500) -> None:
        """Raise ConfigurationError where the two tables cannot be changed in one transaction."""
        rows = foreign()
        if rows is None:
            raise ConfigurationError("django_tasks_db is not in INSTALLED_APPS: its table cannot be read")
        self.report = Report()
        self._rows, self._backend, self._to, self._batch = rows, backend, to, batch
        self._alias = router.db_for_write(rows.model)
        aliases = {self._alias, jobs().write_db, router.db_for_write(adopted().model)}
        if len(aliases) > 1:
            raise ConfigurationError(f"tasks and jobs must be in one database, not in {', '.join(sorted(aliases))}")

    def run(self, *, dry: bool = False, told: Callable[[int], None] = lambda _: None) -> Report:
        """Move all of them; ``told`` gets the number moved after each batch, ``dry`` changes nothing.

        Raises BudgetSpent; ``report`` then tells what was done before.
        """
        report, after = self.report, _FIRST
        while True:
            with transaction.atomic(using=self._alias):
                rows = self._take(after, lock=not dry)
                self._move(rows, dry=dry)
            if not rows:
                break
            after = rows[-1].pk
            told(report.moved)
        report.running = self._waiting(RUNNING).count()
        report.still_ready = self._waiting(READY).count()
        return report

    def _waiting(self, status: str) -> Any:
        found = self._rows.using(self._alias).filter(status=status)
        return found if self._backend is None else found.filter(backend_name=self._backend)

    def _take(self, after: UUID, *, lock: bool) -> list[Any]:
        rows = self._waiting(READY).filter(pk__gt=after).order_by("pk")
        if lock:
            rows = rows.select_for_update(skip_locked=True)
        return list(rows[: self._batch])

    def _move(self, rows: Sequence[Any], *, dry: bool) -> None:
        report = self.report
        going: list[Any] = []
        arrivals: list[Arrival] = []
        for row in rows:
            try:
                arrivals.append(self._arrival(row))
                going.append(row)
            except BudgetSpent:
                raise
            except Exception as error:  # noqa: BLE001  (importing a task runs whatever is in its module)
                report.leave(row, _reason(error))
        if dry:
            report.moved += len(going)
            return
        made = jobs().enqueue_arrivals(arrivals)
        pairs = [(row, job) for row, job in zip(going, made, strict=True) if job is not None]
        for row, job in zip(going, made, strict=True):
            if job is None:
                report.leave(row, f"{row.task_path}: an active job holds its dedupe key")
        table = adopted()
        table.using(self._alias).bulk_create([table.model(result_id=row.pk, job_id=job.pk) for row, job in pairs])
        self._rows.using(self._alias).filter(pk__in=[row.pk for row, _ in pairs]).delete()
        report.moved += len(pairs)

    def _arrival(self, row: Any) -> Arrival:
        alias = self._to or row.backend_name
        try:
            backend = task_backends[alias]
        except InvalidTaskBackend as error:
            raise InvalidTask(f"TASKS has no {alias!r}") from error
        if not isinstance(backend, JobQueueBackend):
            raise InvalidTask(f"TASKS[{alias!r}] is no JobQueueBackend")
        deferred = None if row.run_after.year >= NEVER_DEFERRED else row.run_after.astimezone(UTC)
        task = changed_task(
            find_task(row.task_path),
            backend=alias,
            queue_name=row.queue_name,
            priority=row.priority,
            run_after=deferred,
        )
        values = row.args_kwargs
        arrival = backend._arrival(TaskCall(task=task, args=values["args"], kwargs=values["kwargs"]))
        return arrival if deferred else arrival._replace(run_after=_instant(row.enqueued_at))


def _instant(value: datetime) -> datetime:
    return value.astimezone(UTC)


def _reason(error: Exception) -> str:
    """Return the first line: rows with one reason are told together."""
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__)[:200]
