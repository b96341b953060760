"""The enqueue half of Job.objects: one job, one job unless there is one, many jobs; and their async twins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async
from django.db import connections, transaction

from jobqueue import tracing
from jobqueue.conf import get_settings
from jobqueue.exceptions import JobQueueError
from jobqueue.payloads import check_key
from jobqueue.states import ACTIVE

from .arriving import Arrival, Arrivals, JobSpec, arrive
from .base import JobManagerBase
from .budgeting import refuse_if_spent
from .copying import Batch, collector_paused, may_stream
from .inserting import enqueue_one
from .instances import new_job
from .waking import wake_after_commit

if TYPE_CHECKING:
    from jobqueue.models import Job


class EnqueueMixin(JobManagerBase):
    """Enqueue in the caller's transaction: a job starts after the commit, and is gone with a rollback."""

    def enqueue(
        self,
        job_type: str,
        payload: Mapping[str, Any] | None = None,
        *,
        queue: str | None = None,
        priority: int | None = None,
        run_after: datetime | timedelta | None = None,
        dedupe_key: str | None = None,
        max_attempts: int | None = None,
        owner: str = "",
    ) -> Job | None:
        """Enqueue one job; what is not given comes from the handler's declaration, then from the settings.

        `run_after` is an aware datetime or a timedelta from now. Returns the job, or None when an active job holds
        `dedupe_key`. Raises UnknownJobType, InvalidName, PayloadError, TypeError or ValueError before any SQL, and
        BudgetSpent before anything is written, so the caller's transaction stays usable.
        """
        arrival = arrive(job_type, payload, queue, priority, run_after, dedupe_key, max_attempts, owner)
        refuse_if_spent(self.run_sql, [(arrival.job_type, arrival.queue)])
        return self._insert(arrival)

    def get_or_enqueue(
        self, job_type: str, payload: Mapping[str, Any] | None = None, *, dedupe_key: str, **options: Any
    ) -> tuple[Job, bool]:
        """Return (the active job that holds the key, False), or enqueue one and return (it, True).

        Options and errors as in enqueue(). Under REPEATABLE READ the server's 40001 may reach the caller.
        """
        arrival = arrive(job_type, payload, dedupe_key=check_key("dedupe_key", dedupe_key), **options)
        refuse_if_spent(self.run_sql, [(arrival.job_type, arrival.queue)])
        while True:  # the holder may finish between the insert and the look: then the key is free again
            job = self._insert(arrival)
            if job is not None:
                return job, True
            holder = self.using(self.write_db).filter(dedupe_key=dedupe_key, status__in=ACTIVE).first()
            if holder is not None:
                return holder, False

    def enqueue_many(self, jobs: Iterable[JobSpec | Mapping[str, Any] | tuple[Any, ...]]) -> list[Job | None]:
        """Enqueue many jobs, all or nothing; returns them in input order, None where an active job holds the key.

        Each item is a JobSpec, a dict of enqueue()'s arguments, or a tuple (job type, payload). Of several items with
        one key the first wins. 100,000 take a second or two. Errors are those of enqueue() and name the index; they
        leave nothing enqueued and the caller's transaction usable, though of a large bulk SQL may have run by then.
        """
        with collector_paused():  # no name for the arrivals: they are gone before the collector looks again
            return self._insert_many(Arrivals(jobs))

    def _insert_many(self, arrivals: Arrivals | Sequence[Arrival]) -> list[Job | None]:
        if not arrivals:
            return []
        settings = get_settings()
        if settings.BUDGETS or settings.TRACING or not may_stream(arrivals):
            arrivals = list(arrivals)  # every check comes before any SQL
        if settings.BUDGETS:
            refuse_if_spent(self.run_sql, {(arrival.job_type, arrival.queue) for arrival in arrivals})
        if not settings.TRACING:
            return self._insert_batch(arrivals)
        types, queues = {arrival.job_type for arrival in arrivals}, {arrival.queue for arrival in arrivals}
        with tracing.sending_many(types, queues, count=len(arrivals)) as span:
            return self._insert_batch(arrivals, span.traceparent)

    def _insert_batch(self, arrivals: Arrivals | Sequence[Arrival], trace: str | None = None) -> list[Job | None]:
        alias = self.write_db
        connection = connections[alias]
        # Within a block of the caller's this is a savepoint: an item refused in mid-COPY leaves that block usable.
        with transaction.atomic(using=alias), connection.cursor() as cursor:
            batch = Batch(cursor, arrivals, self.model, trace)
            batch.insert()
            if batch.queues:
                wake_after_commit(connection, batch.queues)
        return batch.jobs

    def enqueue_arrival(self, arrival: Arrival) -> Job | None:
        """Enqueue what arrive() has checked. Returns None when an active job holds its key; raises BudgetSpent."""
        refuse_if_spent(self.run_sql, [(arrival.job_type, arrival.queue)])
        return self._insert(arrival)

    def enqueue_arrivals(self, arrivals: Sequence[Arrival]) -> list[Job | None]:
        """Enqueue many that arrive() has checked, as enqueue_many() does."""
        with collector_paused():
            return self._insert_many(arrivals)

    async def aenqueue(self, job_type: str, payload: Mapping[str, Any] | None = None, **options: Any) -> Job | None:
        """Async twin of enqueue()."""
        return await sync_to_async(self.enqueue)(job_type, payload, **options)

    async def aget_or_enqueue(
        self, job_type: str, payload: Mapping[str, Any] | None = None, *, dedupe_key: str, **options: Any
    ) -> tuple[Job, bool]:
        """Async twin of get_or_enqueue()."""
        return await sync_to_async(self.get_or_enqueue)(job_type, payload, dedupe_key=dedupe_key, **options)

    async def aenqueue_many(self, jobs: Iterable[JobSpec | Mapping[str, Any] | tuple[Any, ...]]) -> list[Job | None]:
        """Async twin of enqueue_many()."""
        return await sync_to_async(self.enqueue_many)(jobs)

    def create(self, **kwargs: Any) -> Job:
        """Refuse: a job is made by enqueue(), which checks the payload and wakes a worker. Raises JobQueueError."""
        msg = "Job.objects.create() skips the checks and wakes nobody: use Job.objects.enqueue(job_type, payload, ...)"
        raise JobQueueError(msg)

    def bulk_create(self, *args: Any, **kwargs: Any) -> list[Job]:
        """Refuse: see create(); use enqueue_many(). Raises JobQueueError."""
        msg = "Job.objects.bulk_create() skips the checks and wakes nobody: use Job.objects.enqueue_many([...])"
        raise JobQueueError(msg)

    def _insert(self, arrival: Arrival) -> Job | None:
        if not get_settings().TRACING:
            return self._insert_one(arrival)
        with tracing.sending(arrival.job_type, arrival.queue, body_bytes=arrival.payload_bytes) as span:
            job = self._insert_one(arrival, span.traceparent)
            span.sent(None if job is None else job.pk)
            return job

    def _insert_one(self, arrival: Arrival, trace: str | None = None) -> Job | None:
        alias = self.write_db
        row = enqueue_one(connections[alias], arrival, trace)
        return None if row is None else new_job(self.model, alias, arrival, row, trace)
