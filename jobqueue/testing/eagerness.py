"""Eager mode: whatever is enqueued runs as soon as its transaction is committed, in the test's own process.

    with eager():
        response = client.post("/orders/", …)
    assert Order.objects.get().invoice is not None

It is as if an idle worker stood by: after an enqueue, everything that is due is run as drain() runs it, by the same
executor and the same SQL. So a payload has gone through JSON and through the database, limits on the input hold, a
failure is retried or becomes a dead letter, and what a job enqueues runs after it, not within it.

When "committed" is: outside of a transaction at once, and after transaction.atomic() by its commit hook. In a TestCase,
whose transaction never commits, when the outermost block of the code under test ends; if that is rolled back, the
job is gone and nothing runs, as in production.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from django.db import connections, transaction
from django.db.transaction import Atomic
from django.test.utils import TestContextDecorator

from jobqueue.managers import JobManager
from jobqueue.managers.enqueueing import EnqueueMixin
from jobqueue.models import Job

from .running import drain, is_busy

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper

    from jobqueue.managers.arriving import Arrival

_leave_block: Final = Atomic.__exit__

#: The modes that are on, the last one in force: a test may refine that of its class.
_modes: list[eager] = []


class eager(TestContextDecorator):  # noqa: N801  (as Django's override_settings)
    """Run jobs as soon as they are enqueued: a context manager, and a decorator of tests and TestCase classes.

    `queues`: only jobs of these; others wait. `without_backoff`: retries run at once, until the job is done or dead.
    `raise_errors`: what a handler raises is raised where the job was enqueued, after it was settled; without it the
    caller sees nothing, as in production. Raises JobQueueError after `at_most` runs in a row.
    """

    def __init__(
        self,
        *,
        queues: Sequence[str] | None = None,
        without_backoff: bool = False,
        raise_errors: bool = False,
        at_most: int = 10_000,
    ) -> None:
        super().__init__()
        self._options: dict[str, Any] = {
            "queues": queues,
            "without_backoff": without_backoff,
            "raise_errors": raise_errors,
            "at_most": at_most,
        }

    def enable(self) -> None:
        """Switch it on, for all threads of this process."""
        if not _modes:
            # The two verbs that every way to enqueue ends in: Job.objects, django.tasks, Celery's names, webhooks.
            JobManager._insert = _insert  # type: ignore[method-assign, assignment]
            JobManager._insert_many = _insert_many  # type: ignore[method-assign, assignment]
            Atomic.__exit__ = _exit  # type: ignore[method-assign]
        _modes.append(self)

    def disable(self) -> None:
        """Switch it off; one that is around it is in force again."""
        _modes.remove(self)
        if not _modes:
            del JobManager._insert, JobManager._insert_many
            Atomic.__exit__ = _leave_block  # type: ignore[method-assign]

    def run(self) -> None:
        """Run what is due, unless that is going on already: whoever does it goes on until nothing is."""
        if not is_busy():
            drain(**self._options)


class _AfterCommit:
    """A commit hook that runs what is due, once: at the commit, or in a TestCase at the end of the block."""

    def __init__(self) -> None:
        self.has_run = False

    def __call__(self) -> None:
        if not self.has_run:
            self.has_run = True
            _run()


def _insert(self: JobManager, arrival: Arrival) -> Job | None:
    job = EnqueueMixin._insert(self, arrival)
    if job is not None:
        _after_commit(self.write_db)
    return job


def _insert_many(self: JobManager, arrivals: Sequence[Arrival]) -> list[Job | None]:
    jobs = EnqueueMixin._insert_many(self, arrivals)
    if any(jobs):
        _after_commit(self.write_db)
    return jobs


def _exit(self: Atomic, *error: Any) -> None:
    _leave_block(self, *error)
    connection = transaction.get_connection(self.using)
    if connection.in_atomic_block and not _has_own_block(connection) and not connection.needs_rollback:
        for _, hook, *_ in list(connection.run_on_commit):  # a rollback has dropped what it undid
            if isinstance(hook, _AfterCommit):
                hook()


def _after_commit(alias: str) -> None:
    connection = connections[alias]
    if _has_own_block(connection):
        transaction.on_commit(_AfterCommit(), using=alias)
    elif connection.in_atomic_block or connection.get_autocommit():
        _run()
    # else a transaction managed by hand, which has no hook: its jobs wait for the next enqueue, or for drain()


def _has_own_block(connection: BaseDatabaseWrapper) -> bool:
    """Tell whether an atomic block is open that is not one of a TestCase's own."""
    blocks: list[Any] = connection.atomic_blocks
    return any(not block._from_testcase for block in blocks)


def _run() -> None:
    if _modes:
        _modes[-1].run()
