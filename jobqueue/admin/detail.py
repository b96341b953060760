"""What a job's page shows beside the columns: payload, result and progress, cut to what a page can carry."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from django.db import connections
from django.db.models import F, Func, IntegerField, TextField
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast, Left

from jobqueue.redaction import mask_text

from .masking import masked

if TYPE_CHECKING:
    from django.db.models import QuerySet

JSON_CHARACTERS: Final = 32_768
ERROR_CHARACTERS: Final = 2_000
PERCENT_CHARACTERS: Final = 20

#: The columns of a job that hold JSON.
PARTS: Final = ("payload", "result", "progress")

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


def with_preview(rows: QuerySet[Any]) -> QuerySet[Any]:
    """Return jobs with what preview_of() needs.

    The server cuts: 10 MB of payload never travel for a page that shows 32 KB of them, and its printing keeps every
    digit of a number that JSON in Python or in a browser would round.
    """
    pretty = {
        f"_{part}": Left(Func(F(part), function="jsonb_pretty", output_field=TextField()), JSON_CHARACTERS + 1)
        for part in PARTS
    }
    sizes = {
        f"_{part}_bytes": Func(Cast(F(part), TextField()), function="octet_length", output_field=IntegerField())
        for part in PARTS[1:]
    }
    found: QuerySet[Any] = rows.annotate(
        **pretty,
        **sizes,
        _payload_bytes=F("payload_bytes"),
        _error=Left("last_error", ERROR_CHARACTERS * 8),
        percent=Left(KeyTextTransform("percent", "progress"), PERCENT_CHARACTERS),
    )
    return found


def preview_of(job: Any, *, unmasked: bool = False) -> Preview:
    """Return the bulky columns of a job that was read with_preview(), with the secrets in them hidden."""
    parts = {part: _json(getattr(job, f"_{part}"), getattr(job, f"_{part}_bytes")) for part in PARTS}
    raw = Preview(parts, job._error)
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
