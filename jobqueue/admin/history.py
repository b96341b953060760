"""What happened to a job: every attempt with its times and how it ended, in words, and what people did."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any, Final, NamedTuple

from django.db.models import Case, F, Q, QuerySet, When
from django.db.models.functions import Left
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobqueue.exceptions import JobKilled
from jobqueue.models import Action, Attempt, Job
from jobqueue.outcomes import Outcome
from jobqueue.redaction import mask_text
from jobqueue.states import Status

from .detail import shorten

ERROR_CHARACTERS: Final = 2_000
TRACEBACK_CHARACTERS: Final = 6_000
ATTEMPTS: Final = 50
ACTIONS: Final = 20
BAR_WIDTH: Final = 160
LEAST: Final = 2.0  # pixels of a time that is not quite nothing

#: How an attempt ended, in words; of those that depend on more see ending().
ENDINGS: Final[dict[int, Any]] = {
    Outcome.DONE: gettext_lazy("It ended well."),
    Outcome.FAILED: gettext_lazy("Its handler raised an error."),
    Outcome.DEADLINE: gettext_lazy("It ran for longer than its type may, and was stopped."),
    Outcome.MEMORY: gettext_lazy("It used more memory than its type may, and was stopped."),
    Outcome.LEASE_EXPIRED: gettext_lazy("Its worker was lost: nobody renewed the lease."),
    Outcome.INTERRUPTED: gettext_lazy("It was interrupted and given back, which uses up no attempt."),
    Outcome.CANCELLED: gettext_lazy("Somebody cancelled it."),
    Outcome.DISCARDED: gettext_lazy("Its dead letter was discarded."),
    Outcome.INPUT_LIMIT: gettext_lazy("Its payload was over a limit of its type, so it did not start."),
    Outcome.UNKNOWN_TYPE: gettext_lazy("No worker knew its type."),
}
#: The class of the error where a person had the process killed.
KILLED: Final = f"{JobKilled.__module__}.{JobKilled.__qualname__}"
#: How a status or an outcome is marked beside its word.
MARKS: Final[dict[int, str]] = {
    Outcome.DONE: "ok",
    Outcome.INTERRUPTED: "warn",
    Outcome.CANCELLED: "off",
    Outcome.DISCARDED: "off",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One attempt in a job's history; without an outcome it is under way."""

    run: int  # lease_epoch: counts on over the whole life of the job, where a redrive starts the attempts anew
    number: int
    outcome: int | None
    worker_id: str
    claimed_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    ready_at: datetime | None = None  # when the job was enqueued, or the attempt before it ended
    due_at: datetime | None = None  # known of the present attempt only
    error_class: str = ""
    error: str = ""
    traceback: str = ""
    exit_code: int | None = None
    cost: Decimal | None = None
    cpu_seconds: float | None = None
    peak_memory_bytes: int | None = None
    attempt_id: int | None = None

    @property
    def label(self) -> str:
        """Return how it ended, in the word of logs and metrics."""
        if self.outcome is None:
            return str(Status.RUNNING.label)
        return Outcome(self.outcome).label if self.outcome in Outcome.values else str(self.outcome)

    @property
    def mark(self) -> str:
        """Return how its end is marked: ok, warn, off, bad or busy."""
        return "busy" if self.outcome is None else MARKS.get(self.outcome, "bad")

    @property
    def ending(self) -> str:
        """Return in a sentence how it ended."""
        return "" if self.outcome is None else ending(self.outcome, self.exit_code, self.error_class)

    @property
    def wait_time(self) -> timedelta | None:
        """Return how long it lay before a worker took it, its delay included; None where that is not known."""
        return _between(self.ready_at, self.claimed_at)

    @property
    def late(self) -> timedelta | None:
        """Return how long it lay although it was due, where that is known."""
        return _between(self.due_at, self.claimed_at)

    @property
    def run_time(self) -> timedelta | None:
        """Return how long the handler ran, None while it runs or where it never started."""
        return _between(self.started_at, self.finished_at)


class Bar(NamedTuple):
    """The wait and the run of an attempt as a bar, in pixels."""

    wait: str
    start: str
    run: str


def ending(outcome: int, exit_code: int | None, error_class: str = "") -> str:
    """Return in a sentence how an attempt ended, and what became of its process."""
    if outcome == Outcome.CRASHED and error_class == KILLED:
        return _("Somebody had its process killed.")
    if outcome == Outcome.CRASHED:
        return _crash(exit_code)
    said = str(ENDINGS.get(outcome, ""))
    if exit_code is None or not said:
        return said
    return _("%(ending)s Its process ended by %(cause)s.") % {"ending": said, "cause": _cause(exit_code)}


def _crash(exit_code: int | None) -> str:
    if exit_code is None:
        return _("Its process died without a result.")
    told = {"cause": _cause(exit_code)}
    if exit_code == -signal.SIGKILL:
        return _("Its process was killed from outside (%(cause)s): often by the system, for want of memory.") % told
    if exit_code < 0:
        return _("Its process crashed by %(cause)s.") % told
    return _("Its process ended by itself, without a result: %(cause)s.") % told


def _cause(exit_code: int) -> str:
    if exit_code >= 0:
        return _("exit code %(code)d") % {"code": exit_code}
    try:
        return signal.Signals(-exit_code).name
    except ValueError:
        return _("signal %(number)d") % {"number": -exit_code}


def history(job: Job, *, using: str) -> tuple[list[Step], bool]:
    """Return (the newest attempts, newest first, whether there are more); texts are cut by the server."""
    rows = list(attempts_of(job.pk, using=using)[: ATTEMPTS + 1])
    steps = [_logged(row) for row in rows]
    if job.status in (Status.RUNNING, Status.DONE):  # the row itself tells of this attempt: see Job.attempt_history()
        steps.insert(0, _present(job))
    first = replace(steps[-1], ready_at=job.created_at) if steps else None
    known = [replace(step, ready_at=before.finished_at) for step, before in pairwise(steps)]
    more = len(rows) > ATTEMPTS
    return [*known, *([first] if first and not more else [])], more


def attempts_of(job_id: int, *, using: str) -> QuerySet[Attempt, Any]:
    """Return the logged attempts of a job, newest first, with the heads of their texts."""
    rows = Attempt.objects.using(using).filter(job_id=job_id).order_by("-lease_epoch").defer("error_text", "traceback")
    return rows.annotate(
        error_head=Left("error_text", ERROR_CHARACTERS + 1), traceback_head=Left("traceback", TRACEBACK_CHARACTERS + 1)
    )


def bars(steps: Sequence[Step]) -> list[Bar]:
    """Return a bar for each step, all to one scale: the longest wait and run together are BAR_WIDTH pixels."""
    times = [(_seconds(step.wait_time), _seconds(step.run_time)) for step in steps]
    longest = max((wait + run for wait, run in times), default=0.0) or 1.0
    scale = (BAR_WIDTH - 2 * LEAST) / longest
    found = []
    for wait, run in times:
        lain, ran = max(wait * scale, LEAST if wait else 0.0), max(run * scale, LEAST if run else 0.0)
        found.append(Bar(f"{lain:.1f}", f"{lain:.1f}", f"{ran:.1f}"))
    return found


def actions_on(job_id: int, *, using: str, refused: bool) -> QuerySet[Action]:
    """Return what people did to a job, newest first, without the other jobs of the same action.

    `refused` has what they asked for without the permission, too.
    """
    rows = Action.objects.using(using).filter(job_ids__contains=[job_id]).filter(Q() if refused else Q(refused=False))
    # Of other actions the detail may be two payloads long.
    cloned = Case(When(action="clone", then=F("detail")))
    return rows.annotate(cloned=cloned).defer("job_ids", "detail").order_by("-pk")[:ACTIONS]


def _logged(row: Any) -> Step:
    return Step(
        run=row.lease_epoch,
        number=row.number,
        outcome=row.outcome,
        worker_id=row.worker_id,
        claimed_at=row.claimed_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        error_class=row.error_class,
        error=mask_text(shorten(row.error_head, ERROR_CHARACTERS)),
        traceback=mask_text(shorten(row.traceback_head, TRACEBACK_CHARACTERS)),
        exit_code=row.exit_code,
        cost=row.cost or None,
        cpu_seconds=row.cpu_seconds,
        peak_memory_bytes=row.peak_memory_bytes,
        attempt_id=row.pk,
    )


def _present(job: Job) -> Step:
    done = job.status == Status.DONE
    return Step(
        run=job.lease_epoch,
        number=job.attempts,
        outcome=Outcome.DONE if done else None,
        worker_id=job.worker_id or "",
        claimed_at=job.claimed_at,
        started_at=job.run_started_at,
        finished_at=job.finished_at if done else None,
        due_at=job.run_after,
        cost=(job.cost_last or None) if done else None,
        cpu_seconds=job.cpu_seconds if done else None,
        peak_memory_bytes=job.peak_memory_bytes if done else None,
    )


def _between(start: datetime | None, end: datetime | None) -> timedelta | None:
    """Return the time from one instant to another; None where one is missing, or rows written by hand are absurd."""
    return end - start if start is not None and end is not None and end >= start else None


def _seconds(value: timedelta | None) -> float:
    return value.total_seconds() if value is not None else 0.0
