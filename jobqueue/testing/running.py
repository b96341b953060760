"""Run due jobs in the test's own process: deterministic, on Django's own connection, also inside a TestCase.

    job = Job.objects.enqueue("documents.index", {"path": "a.pdf", "page_count": 1})
    assert run_once() == [(job.pk, Status.DONE)]

The handler runs through the very function that the worker's children use, and its end is settled by the same SQL, so
payload checks, outcomes, retries, costs and signals are the real ones. What is not enforced here: limits on time and
memory, since there is no process that could be killed (limits on the input are); and hooks of transaction.on_commit()
run as Django's test classes have them run. A job of an unknown type is dead at once: no other worker could know it.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from jobqueue.exceptions import Dead, Discard, InputLimitExceeded, JobQueueError, Retry
from jobqueue.foreground import End, ForegroundRunner
from jobqueue.gauges import Measure, carried_by
from jobqueue.internal import INTERNAL_QUEUE, is_internal
from jobqueue.managers import Ending
from jobqueue.managers.pausing import ALL_QUEUES
from jobqueue.models import Job
from jobqueue.ops.queues import paused_queues
from jobqueue.outcomes import Outcome
from jobqueue.states import Status

from .travelling import due_now

if TYPE_CHECKING:
    from jobqueue.children.protocol import Work

WORKER_ID = "run_once"

_ERRORS = (Outcome.FAILED, Outcome.DEADLINE, Outcome.UNKNOWN_TYPE)
_state = threading.local()


def run_once(
    limit: int = 1, queues: Sequence[str] | None = None, *, without_backoff: bool = False, raise_errors: bool = False
) -> list[tuple[int, Status]]:
    """Run up to `limit` due jobs, one after another, and return (job id, status after) of each.

    The best one of all queues comes first, or of those named: by priority, run_after and id. A job that a handler
    enqueues may be among them. The package's own jobs (notifications) run too, but are neither counted nor returned.
    A retry is due after its backoff: `without_backoff` makes it due at once. What a handler raises becomes the end of
    its job; `raise_errors` raises it as well, once the job is settled and nothing is to try it again at once.
    """
    runner = _Runner(WORKER_ID)
    ran: list[tuple[int, Status]] = []
    with _busy():
        while (job := _claim_best(queues, own_only=len(ran) >= limit)) is not None:
            end = runner.run(job)
            if is_internal(job.job_type):
                continue
            ran.append(end)
            if without_backoff and runner.is_retried:
                due_now(job)
            elif raise_errors and runner.error is not None:
                raise runner.error
    return ran


def drain(
    queues: Sequence[str] | None = None,
    *,
    at_most: int = 10_000,
    without_backoff: bool = False,
    raise_errors: bool = False,
) -> list[tuple[int, Status]]:
    """Run jobs until none is due, and return (job id, status after) of each run; options as of run_once().

    Raises JobQueueError after `at_most` runs: jobs that enqueue jobs have no end.
    """
    ran = run_once(at_most, queues, without_backoff=without_backoff, raise_errors=raise_errors)
    if len(ran) == at_most and _best_due(queues) is not None:
        msg = f"{at_most} jobs have run and more are due: do they enqueue one another for ever?"
        raise JobQueueError(msg)
    return ran


def is_busy() -> bool:
    """Tell whether run_once() or drain() is at work in this thread: what is enqueued now, it may take up itself."""
    return bool(getattr(_state, "busy", False))


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


@contextmanager
def _busy() -> Iterator[None]:
    before, _state.busy = is_busy(), True
    try:
        yield
    finally:
        _state.busy = before


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


class _Runner(ForegroundRunner):
    """Remembers of the last run what its handler raised unasked, and whether the job is to be tried again."""

    error: Exception | None = None
    is_retried = False

    def run(self, job: Job) -> tuple[int, Status]:
        """Run one claimed job."""
        self.error, self.is_retried = None, False
        return super().run(job)

    def settle(self, work: Work, end: End) -> int | None:
        """Make an end final."""
        if isinstance(end, Ending):  # the handler's exception is still being handled
            self.error = _error_of(end)
        status = super().settle(work, end)
        self.is_retried = isinstance(end, Ending) and status == Status.SCHEDULED
        return status


def _error_of(end: Ending) -> Exception | None:
    """Return what to raise for an end that is an error: not for one that the handler asked for, or a person."""
    if end.outcome == Outcome.INPUT_LIMIT:
        return InputLimitExceeded(end.error_text)
    error = sys.exception() if end.outcome in _ERRORS else None
    if isinstance(error, Retry | Dead | Discard):
        return None
    if error is None or isinstance(error, Exception):
        return error
    told = JobQueueError(f"{end.error_class}: {end.error_text}")  # SystemExit would end the tests, not one of them
    told.__cause__ = error
    return told
