"""Run due jobs in the test's own process: deterministic, on Django's own connection, also inside a TestCase.

    job = Job.objects.enqueue("documents.index", {"path": "a.pdf", "page_count": 1})
    assert run_once() == [(job.pk, Status.DONE)]

The handler runs through the very function that the worker's children use, and its end is settled by the same SQL, so
payload checks, outcomes, retries, costs and signals are the real ones. What is not enforced here: limits on time and
memory, since there is no process that could be killed (limits on the input are); and hooks of transaction.on_commit()
run as Django's test classes have them run. A job of an unknown type is dead at once: no other worker could know it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from asgiref.sync import async_to_sync
from django.db import connections, transaction

from jobqueue.children.costs import is_chargeable, priced
from jobqueue.children.executor import Executor
from jobqueue.children.protocol import Work
from jobqueue.exceptions import JobQueueError
from jobqueue.gauges import Measure, carried_by, is_carried
from jobqueue.internal import INTERNAL_QUEUE, is_internal
from jobqueue.managers import CostLine, Done, Ending, Release, leasing, settling
from jobqueue.managers.pausing import ALL_QUEUES
from jobqueue.models import Counter, Job
from jobqueue.ops.queues import paused_queues
from jobqueue.registry import registry
from jobqueue.states import Status

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper

WORKER_ID = "run_once"


def run_once(limit: int = 1, queues: Sequence[str] | None = None) -> list[tuple[int, Status]]:
    """Run up to `limit` due jobs, one after another, and return (job id, status after) of each.

    The best one of all queues comes first, or of those named: by priority, run_after and id. A job that a handler
    enqueues may be among them. The package's own jobs (notifications) run too, but are neither counted nor returned.
    A retry is due after its backoff only: to run it now, move its run_after by
    ``Job.objects.filter(pk=…).update(run_after=…)``.
    """
    runner = _Runner()
    ran: list[tuple[int, Status]] = []
    while (job := _claim_best(queues, own_only=len(ran) >= limit)) is not None:
        end = runner.run(job)
        if not is_internal(job.job_type):
            ran.append(end)
    return ran


def drain(queues: Sequence[str] | None = None, *, at_most: int = 10_000) -> list[tuple[int, Status]]:
    """Run jobs until none is due, and return (job id, status after) of each run.

    Raises JobQueueError after `at_most` runs: jobs that enqueue jobs have no end.
    """
    ran = run_once(at_most, queues)
    if len(ran) == at_most and _best_due(queues) is not None:
        msg = f"{at_most} jobs have run and more are due: do they enqueue one another for ever?"
        raise JobQueueError(msg)
    return ran


@contextmanager
def measured() -> Iterator[list[Measure]]:
    """Collect what code within the block tells by gauge() and count(), with or without a job around it.

    with measured() as told:
        index_document(context, path="a.pdf", page_count=1)
    assert told == [Measure("count", "pages", (("kind", "pdf"),), 1.0)]
    """
    told: list[Measure] = []
    with carried_by(told.append):
        yield told


def _best_due(queues: Sequence[str] | None) -> tuple[str, str] | None:
    """Return (queue, type) of the job that is to run next: of a queue that is not paused."""
    Job.objects.promote()
    due = Job.objects.db_manager(Job.objects.write_db).due()
    if queues is not None:
        due = due.filter(queue__in=[*queues, INTERNAL_QUEUE])
    for pause in paused_queues(due.db):
        due = due.filter(queue=INTERNAL_QUEUE) if pause.name == ALL_QUEUES else due.exclude(queue=pause.name)
    return due.values_list("queue", "job_type").first()


def _claim_best(queues: Sequence[str] | None, *, own_only: bool) -> Job | None:
    """Claim one job, so that each claim sees what the run before it has done."""
    best = _best_due(queues)
    if best is None or (own_only and not is_internal(best[1])):
        return None
    return next(iter(Job.objects.claim(1, worker_id=WORKER_ID, queues=[best[0]])), None)


class _Runner:
    """Settles on the same connection what the executor reports; stands where the supervisor does in a worker."""

    def __init__(self) -> None:
        self._executor = Executor(
            worker_id=WORKER_ID,
            reporter=self,
            settle=self._settle,
            guard=lambda _: _kept_transactions(),
            run_coroutine=_wait_for,
        )

    def run(self, job: Job) -> tuple[int, Status]:
        """Run one claimed job."""
        payload = _payload_text(job.pk)
        work = Work(
            *(job.pk, job.lease_epoch, job.job_type, job.queue, job.attempts, job.max_attempts),
            *(job.payload_bytes, payload, job.trace_context),
        )
        with nullcontext() if is_carried() else carried_by(_keep_count):
            self._executor.execute(work)
        return job.pk, Status(Job.objects.get(pk=job.pk).status)

    def cost(self, work: Work, line: CostLine) -> None:
        """Do nothing: the executor hands the costs over with the end."""

    def progress(self, work: Work, value: dict[str, Any]) -> None:
        """Store how far the handler is, at once."""
        leasing.write_progress(Job.objects.run_sql, worker_id=WORKER_ID, progress={(work.id, work.lease_epoch): value})

    def cancelled(self, work: Work) -> bool:
        """Tell whether somebody asked to cancel the job."""
        return Job.objects.get(pk=work.id).cancel_requested_at is not None

    def _settle(self, work: Work, end: Done | Ending | Release | None) -> int | None:
        run = Job.objects.run_sql
        end = _charged(work.job_type, end)
        with transaction.atomic(using=Job.objects.write_db):
            if isinstance(end, Done):
                settled = settling.settle_done(run, worker_id=WORKER_ID, jobs=[end])
            elif isinstance(end, Ending):
                settled = settling.settle_ended(run, worker_id=WORKER_ID, endings=[end])
            elif isinstance(end, Release):
                settled = leasing.release(run, worker_id=WORKER_ID, releases=[end])
            else:
                settled = {}
            if not settled:  # context.complete() has finished it, or somebody took it away meanwhile
                items = [(work.id, work.lease_epoch)]
                settled = settling.accepted_before(run, worker_id=WORKER_ID, items=items)
        return settled.get(work.id)


def _charged(job_type: str, end: Done | Ending | Release | None) -> Done | Ending | Release | None:
    """Charge an attempt that reported no cost by the price list; nobody measures its memory here."""
    if not isinstance(end, Done | Ending) or not is_chargeable(end) or job_type not in registry:
        return end
    name = registry.get(job_type).name
    costs = priced(name, run_seconds=end.run_seconds, cpu_seconds=end.cpu_seconds, memory_bytes=None)
    return end._replace(costs=costs) if isinstance(end, Done) else dataclasses.replace(end, costs=costs)


def _keep_count(measure: Measure) -> None:
    """Store what a handler counted, at once; a gauge is a worker's, and there is none."""
    if measure.kind == "count":
        row = Counter(name=measure.name, labels=dict(measure.labels), amount=measure.value)
        row.save(using=Job.objects.write_db)


def _payload_text(job_id: int) -> str:
    """Return the payload as the claim hands it to a worker: encoded by the database."""
    rows = Job.objects.run_sql("SELECT payload::text FROM jobqueue_job WHERE id = %(id)s", {"id": job_id})
    return str(rows[0][0])


@contextmanager
def _kept_transactions() -> Iterator[None]:
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
