"""One job in the foreground: claimed for this process alone, kept by its lease, told as it goes. See jobqueue_run."""

from __future__ import annotations

import pdb  # noqa: T100  (it is what --pdb opens)
import secrets
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from datetime import timedelta
from types import FrameType
from typing import TYPE_CHECKING, Any

from django.db import DatabaseError, InterfaceError

from jobqueue import operations
from jobqueue.children.protocol import Work
from jobqueue.conf import get_settings
from jobqueue.exceptions import InvalidTransition, JobCancelled, JobDeadlineExceeded, JobInterrupted
from jobqueue.foreground import End, ForegroundRunner, kept_transactions
from jobqueue.managers import leasing
from jobqueue.managers.rows import Span
from jobqueue.managers.sessions import Session
from jobqueue.models import Job
from jobqueue.ops.queues import paused_queues
from jobqueue.states import Status

from .logins import login

if TYPE_CHECKING:
    from jobqueue.managers import JobManager

Say = Callable[[str], object]


def make_worker_id() -> str:
    """Return an id for one run, told from those of workers by its beginning."""
    return f"run-{socket.gethostname()[:30]}-{secrets.token_hex(4)}"


def claim(manager: JobManager, job: Job, *, worker_id: str, reason: str = "") -> Job:
    """Claim one job that is due or dead, and no other. Raises InvalidTransition where that cannot be.

    Within a transaction that also made it due: no worker ever sees it so.
    """
    if job.status == Status.DEAD:
        actor = f"jobqueue_run ({login()})"
        no_wait = timedelta(0)
        report = operations.retry([job.pk], actor=actor, reason=reason, spread=no_wait, using=manager.write_db)
        if why := report.refused.get(job.pk):
            raise InvalidTransition(job.pk, Status.DEAD, "run", why)
        job = manager.get(pk=job.pk)
    if job.status != Status.PENDING:
        raise InvalidTransition(job.pk, Status(job.status), "run", "only what is due or dead can be run")
    # The range of the index that has this job alone at its beginning.
    span = Span(job.queue, 1, job.priority, str(job.run_after), job.pk - 1, job.priority, str(job.run_after))
    lease = get_settings().lease
    claimed = leasing.claim(manager.run_sql, spans=[span], worker_id=worker_id, lease=lease)
    if [each.id for each in claimed] != [job.pk]:
        paused = any(pause.holds(job.queue) for pause in paused_queues(manager.write_db))
        why = f"its queue {job.queue} is paused" if paused else "it is locked by another transaction"
        raise InvalidTransition(job.pk, Status.PENDING, "run", why)
    return manager.get(pk=job.pk)


class DebugRunner(ForegroundRunner):
    """Runs one job and tells progress, error and traceback; with `post_mortem` a debugger opens where it failed."""

    def __init__(
        self,
        worker_id: str,
        *,
        manager: JobManager,
        say: Say,
        deadline: float | None = None,
        post_mortem: bool = False,
        kept: bool = True,
        own: bool = True,
    ) -> None:
        """`kept`: not to be rolled back. `own`: made for this run, so that Ctrl-C cancels it; else it is given back."""
        super().__init__(worker_id, manager=manager, guard=self._guard)
        self._say, self._deadline, self._post_mortem, self._kept, self._own = say, deadline, post_mortem, kept, own
        self.end: End = None
        self.settled: int | None = None

    def progress(self, work: Work, value: dict[str, Any]) -> None:
        """Store how far the handler is, and tell it."""
        super().progress(work, value)
        self._say(f"progress: {value}")

    def settle(self, work: Work, end: End) -> int | None:
        """Make an end final; before that, while it is still being handled, show what the handler raised."""
        error = sys.exception()
        if error is not None:
            self._say("".join(traceback.format_exception(error)).rstrip())
            if self._post_mortem and error.__traceback__ is not None:
                pdb.post_mortem(error.__traceback__)
        self.end, self.settled = end, super().settle(work, end)
        return self.settled

    @contextmanager
    def _guard(self, _work: Work) -> Iterator[None]:
        with nullcontext() if self._kept else kept_transactions(), _limited(self._deadline):
            try:
                yield
            except KeyboardInterrupt as error:
                raise (JobCancelled if self._own else JobInterrupted)("Ctrl-C") from error


@contextmanager
def _limited(seconds: float | None) -> Iterator[None]:
    """Raise JobDeadlineExceeded in this thread after so long; nothing without a number."""
    if seconds is None:
        yield
        return

    def ring(_number: int, _frame: FrameType | None) -> None:
        raise JobDeadlineExceeded(f"longer than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class LeaseKeeper(threading.Thread):
    """Renews the lease of one job while somebody sits at a breakpoint: the debugger stops the main thread only."""

    def __init__(self, alias: str, worker_id: str, job: Job, say: Say) -> None:
        super().__init__(name="jobqueue-run-lease", daemon=True)
        self._session = Session(alias, f"jobqueue run {worker_id}")
        self._worker_id, self._held, self._say = worker_id, [(job.pk, job.lease_epoch, None)], say
        self._ended = threading.Event()

    def run(self) -> None:
        """Renew every third of a lease until end(), or until the lease is lost."""
        settings = get_settings()
        while not self._ended.wait(settings.renew_interval.total_seconds()):
            with suppress(DatabaseError, InterfaceError):  # the next third may find the database again
                renewals = leasing.renew(
                    self._session.run, worker_id=self._worker_id, held=self._held, lease=settings.lease
                )
                if any(renewal.verdict == "lost" for renewal in renewals):
                    self._say("the lease is lost: another worker may run this job, and its end here will be refused")
                    break
        self._session.close()

    def end(self) -> None:
        """Have the thread end, and wait for it."""
        self._ended.set()
        if self.is_alive():
            self.join()
