"""Run a claimed job in the caller's own process and on Django's own connection: under a debugger, or in a test.

The handler runs through the very function that the worker's children use, and its end is settled by the same SQL, so
payload checks, outcomes, retries, costs and signals are the real ones. Nothing is enforced that takes a process which
could be killed: limits on time and memory.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from asgiref.sync import async_to_sync
from django.db import connections, transaction

from jobqueue.children.costs import is_chargeable, priced
from jobqueue.children.executor import Executor
from jobqueue.children.protocol import Work
from jobqueue.gauges import Measure, carried_by, is_carried
from jobqueue.managers import CostLine, Done, Ending, Release, leasing, settling
from jobqueue.models import Counter, Job
from jobqueue.registry import registry
from jobqueue.states import Status

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper

    from jobqueue.managers import JobManager

End = Done | Ending | Release | None


class ForegroundRunner:
    """Settles on Django's connection what the executor reports; stands where the supervisor does in a worker."""

    def __init__(
        self,
        worker_id: str,
        *,
        manager: JobManager | None = None,
        guard: Callable[[Work], AbstractContextManager[Any]] | None = None,
    ) -> None:
        """`manager` is Job.objects of some alias; `guard` wraps the handler's call."""
        self.worker_id = worker_id
        self.manager: JobManager = Job.objects if manager is None else manager
        self._executor = Executor(
            worker_id=worker_id,
            reporter=self,
            settle=self.settle,
            guard=guard or (lambda _: kept_transactions()),
            run_coroutine=_wait_for,
        )

    def run(self, job: Job) -> tuple[int, Status]:
        """Run one job that this worker id has claimed. Returns its id and its status afterwards."""
        payload = _payload_text(self.manager, job.pk)
        work = Work(
            *(job.pk, job.lease_epoch, job.job_type, job.queue, job.attempts, job.max_attempts),
            *(job.payload_bytes, payload, job.trace_context),
        )
        with nullcontext() if is_carried() else carried_by(self._keep_count):
            self._executor.execute(work)
        return job.pk, Status(self.manager.get(pk=job.pk).status)

    def cost(self, work: Work, line: CostLine) -> None:
        """Do nothing: the executor hands the costs over with the end."""

    def progress(self, work: Work, value: dict[str, Any]) -> None:
        """Store how far the handler is, at once."""
        told = {(work.id, work.lease_epoch): value}
        leasing.write_progress(self.manager.run_sql, worker_id=self.worker_id, progress=told)

    def cancelled(self, work: Work) -> bool:
        """Tell whether somebody asked to cancel the job."""
        return self.manager.get(pk=work.id).cancel_requested_at is not None

    def settle(self, work: Work, end: End) -> int | None:
        """Make an end final. Returns the job's status then, None where the job is no longer ours."""
        run = self.manager.run_sql
        end = _charged(work.job_type, end)
        with transaction.atomic(using=self.manager.write_db):
            if isinstance(end, Done):
                settled = settling.settle_done(run, worker_id=self.worker_id, jobs=[end])
            elif isinstance(end, Ending):
                settled = settling.settle_ended(run, worker_id=self.worker_id, endings=[end])
            elif isinstance(end, Release):
                settled = leasing.release(run, worker_id=self.worker_id, releases=[end])
            else:
                settled = {}
            if not settled:  # context.complete() has finished it, or somebody took it away meanwhile
                items = [(work.id, work.lease_epoch)]
                settled = settling.accepted_before(run, worker_id=self.worker_id, items=items)
        return settled.get(work.id)

    def _keep_count(self, measure: Measure) -> None:
        """Store what a handler counted, at once; a gauge is a worker's, and there is none."""
        if measure.kind == "count":
            row = Counter(name=measure.name, labels=dict(measure.labels), amount=measure.value)
            row.save(using=self.manager.write_db)


def _charged(job_type: str, end: End) -> End:
    """Charge an attempt that reported no cost by the price list; nobody measures its memory here."""
    if not isinstance(end, Done | Ending) or not is_chargeable(end) or job_type not in registry:
        return end
    name = registry.get(job_type).name
    costs = priced(name, run_seconds=end.run_seconds, cpu_seconds=end.cpu_seconds, memory_bytes=None)
    return end._replace(costs=costs) if isinstance(end, Done) else dataclasses.replace(end, costs=costs)


def _payload_text(manager: JobManager, job_id: int) -> str:
    """Return the payload as the claim hands it to a worker: encoded by the database."""
    rows = manager.run_sql("SELECT payload::text FROM jobqueue_job WHERE id = %(id)s", {"id": job_id})
    return str(rows[0][0])


@contextmanager
def kept_transactions() -> Iterator[None]:
    """Keep a TestCase's transactions usable when a statement of the handler fails within them.

    In a worker such a statement ends alone, in autocommit mode. Only what is broken is rolled back: effects before an
    exception that has nothing to do with the database stay, as they do there.
    """
    savepoints = [
        (connection, connection.savepoint())
        for connection in connections.all(initialized_only=True)
        if connection.in_atomic_block and not connection.needs_rollback
    ]
    try:
        yield
    finally:
        for connection, savepoint in reversed(savepoints):
            if savepoint is not None:  # a database without savepoints
                _end_savepoint(connection, savepoint)


def _end_savepoint(connection: BaseDatabaseWrapper, savepoint: str) -> None:
    broken = connection.needs_rollback or (connection.connection is not None and _has_failed(connection.connection))
    if broken:
        connection.needs_rollback = False
        connection.savepoint_rollback(savepoint)
    connection.savepoint_commit(savepoint)


def _has_failed(raw: Any) -> bool:
    info = getattr(raw, "info", None)
    return info is not None and getattr(info.transaction_status, "name", "") == "INERROR"


def _wait_for(coroutine: Any) -> Any:
    """Run a coroutine to its end so that database calls in it come back to this thread and its connection."""

    async def wait() -> Any:
        return await coroutine

    return async_to_sync(wait)()
