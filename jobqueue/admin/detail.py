"""What a job's page shows beside the columns: payload and result, cut to what a page can carry, and its history."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from django.db import connections
from django.db.models import QuerySet
from django.db.models.functions import Left

from jobqueue.models import Action, Attempt, Job
from jobqueue.outcomes import Outcome
from jobqueue.redaction import mask_text
from jobqueue.states import Status

from .masking import masked

JSON_CHARACTERS: Final = 32_768
ERROR_CHARACTERS: Final = 2_000
TRACEBACK_CHARACTERS: Final = 6_000
ATTEMPTS: Final = 50
ACTIONS: Final = 20

#: The columns of a job that hold JSON.
PARTS: Final = ("payload", "result", "progress")

# The server cuts: 10 MB of payload never travel for a page that shows 32 KB of them, and its printing keeps every digit
# of a number that JSON in Python or in a browser would round.
PREVIEW: Final = """
SELECT left(jsonb_pretty(payload), %(cut)s), left(jsonb_pretty(result), %(cut)s), left(jsonb_pretty(progress), %(cut)s),
       payload_bytes, octet_length(result::text), octet_length(progress::text), left(last_error, %(error_cut)s)
  FROM jobqueue_job WHERE id = %(id)s
"""
TEXT: Final = """
SELECT jsonb_pretty(payload), jsonb_pretty(result), jsonb_pretty(progress) FROM jobqueue_job WHERE id = %(id)s
"""


@dataclass(frozen=True, slots=True)
class Json:
    """One JSON column as a page shows it; `cut` tells that there is more, `bytes` how much in all."""

    text: str | None
    cut: bool
    bytes: int | None


@dataclass(frozen=True, slots=True)
class Preview:
    """The bulky columns of one job, cut; `hides` tells that secrets in them are masked."""

    parts: dict[str, Json]
    error: str | None
    hides: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One attempt in a job's history."""

    run: int  # lease_epoch: counts on over the whole life of the job, where a redrive starts the attempts anew
    number: int
    outcome: str
    worker_id: str
    claimed_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    error_class: str = ""
    error: str = ""
    traceback: str = ""
    exit_code: int | None = None
    cost: Decimal | None = None
    peak_memory_bytes: int | None = None
    attempt_id: int | None = None

    @property
    def run_time(self) -> timedelta | None:
        """Return how long the handler ran, None while it runs or where it never started."""
        return self.finished_at - self.started_at if self.finished_at and self.started_at else None


def preview(job_id: int, *, using: str, unmasked: bool = False) -> Preview:
    """Return the bulky columns of a job, pretty and cut by the server, with the secrets in them hidden."""
    cut = {"cut": JSON_CHARACTERS + 1, "error_cut": ERROR_CHARACTERS * 8, "id": job_id}
    with connections[using].cursor() as cursor:
        cursor.execute(PREVIEW, cut)
        row = cursor.fetchone() or (None,) * 7
    raw = Preview({part: _json(row[index], row[index + 3]) for index, part in enumerate(PARTS)}, row[6])
    return raw if unmasked else _masked(raw)


def _masked(raw: Preview) -> Preview:
    parts = {part: replace(one, text=one.text and masked(one.text)) for part, one in raw.parts.items()}
    error = raw.error and mask_text(raw.error)
    return Preview(parts, error, hides=(parts, error) != (raw.parts, raw.error))


def _json(text: str | None, size: int | None) -> Json:
    if text is None:
        return Json(None, cut=False, bytes=None)
    return Json(shorten(text, JSON_CHARACTERS), cut=len(text) > JSON_CHARACTERS, bytes=size)


def shorten(text: str, characters: int) -> str:
    """Return a text cut with an ellipsis."""
    return text if len(text) <= characters else f"{text[:characters]}…"


def json_text(job_id: int, part: str, *, using: str) -> str | None:
    """Return a JSON column in full, as the database prints it, nothing hidden; None where there is none."""
    with connections[using].cursor() as cursor:
        cursor.execute(TEXT, {"id": job_id})
        row = cursor.fetchone()
    text: str | None = row[PARTS.index(part)] if row else None
    return text


def pretty(text: str, *, using: str) -> str:
    """Return a JSON text as the database prints it."""
    with connections[using].cursor() as cursor:
        cursor.execute("SELECT jsonb_pretty(%s::jsonb)", [text])
        shown: str = cursor.fetchone()[0]
    return shown


def history(job: Job, *, using: str) -> tuple[list[Step], bool]:
    """Return (the newest attempts, newest first, whether there are more); texts are cut by the server."""
    rows = list(attempts_of(job.pk, using=using)[: ATTEMPTS + 1])
    steps = [_logged(row) for row in rows[:ATTEMPTS]]
    if job.status in (Status.RUNNING, Status.DONE):  # the row itself tells of this attempt: see Job.attempt_history()
        steps.insert(0, _present(job))
    return steps, len(rows) > ATTEMPTS


def attempts_of(job_id: int, *, using: str) -> QuerySet[Attempt, Any]:
    """Return the logged attempts of a job, newest first, with the heads of their texts."""
    rows = Attempt.objects.using(using).filter(job_id=job_id).order_by("-lease_epoch").defer("error_text", "traceback")
    return rows.annotate(
        error_head=Left("error_text", ERROR_CHARACTERS + 1), traceback_head=Left("traceback", TRACEBACK_CHARACTERS + 1)
    )


def actions_on(job_id: int, *, using: str) -> QuerySet[Action]:
    """Return what people did to a job, newest first, without the other jobs of the same action."""
    return Action.objects.using(using).filter(job_ids__contains=[job_id]).defer("job_ids").order_by("-pk")[:ACTIONS]


def _logged(row: Any) -> Step:
    return Step(
        run=row.lease_epoch,
        number=row.number,
        outcome=str(row.get_outcome_display()),
        worker_id=row.worker_id,
        claimed_at=row.claimed_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        error_class=row.error_class,
        error=mask_text(shorten(row.error_head, ERROR_CHARACTERS)),
        traceback=mask_text(shorten(row.traceback_head, TRACEBACK_CHARACTERS)),
        exit_code=row.exit_code,
        cost=row.cost or None,
        peak_memory_bytes=row.peak_memory_bytes,
        attempt_id=row.pk,
    )


def _present(job: Job) -> Step:
    done = job.status == Status.DONE
    return Step(
        run=job.lease_epoch,
        number=job.attempts,
        outcome=str(Outcome.DONE.label if done else Status.RUNNING.label),
        worker_id=job.worker_id or "",
        claimed_at=job.claimed_at,
        started_at=job.run_started_at,
        finished_at=job.finished_at if done else None,
        cost=(job.cost_last or None) if done else None,
        peak_memory_bytes=job.peak_memory_bytes if done else None,
    )
