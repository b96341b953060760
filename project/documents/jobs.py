"""The handlers: index a document, search it, tell a partner, and one that crashes in C."""

from __future__ import annotations

import ctypes
from dataclasses import asdict
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
from django.conf import settings
from django.db import transaction
from django.utils import timezone

from jobqueue import MB, Backoff, Discard, Limits, job
from project.documents.models import Document
from project.documents.reading import Reading, read_document, read_text
from project.documents.searching import best_match

if TYPE_CHECKING:
    from jobqueue.children.context import Context

SIZE_MAX_BYTES = 20_000_000
PAGES_MAX = 2_000

PRICE_PER_PAGE = Decimal("0.0004")
PRICE_PER_MB = Decimal("0.0010")
COST_STEP = Decimal("0.00000001")


@job(
    "documents.index",
    queue="documents",
    limits=Limits(
        duration=60,
        memory_bytes=256 * MB,
        payload_fields={"size_bytes": SIZE_MAX_BYTES, "page_count": PAGES_MAX},
    ),
)
def index_document(
    context: Context,
    *,
    path: str,
    size_bytes: int,
    page_count: int | None = None,
) -> dict[str, Any]:
    """Read a file and store what it holds, exactly once with the end of the job.

    `size_bytes` and `page_count` are there for the limits, which are checked before this is called.
    """
    try:
        reading = read_document(Path(path), context.progress)
    except FileNotFoundError as error:
        raise Discard(f"{path} was deleted before it could be read") from error
    for component, amount in costs_of(reading):
        context.add_cost(component, amount)
    result = summary(reading)
    with transaction.atomic():
        stored = asdict(reading) | {"job_id": context.job_id, "indexed_at": timezone.now()}
        Document.objects.update_or_create(path=path, defaults=stored)
        context.complete(result)
    return result


def costs_of(reading: Reading) -> list[tuple[str, Decimal]]:
    """Return what reading a file costs, by component: its pages, and its size."""
    costs = [("storage", (PRICE_PER_MB * reading.size_bytes / MB).quantize(COST_STEP))]
    if reading.pages:
        costs.append(("pages", PRICE_PER_PAGE * reading.pages))
    return costs


def summary(reading: Reading) -> dict[str, Any]:
    """Return what the job itself keeps as its result; the rest is in the document's row."""
    return {
        "kind": str(reading.kind),
        "size_bytes": reading.size_bytes,
        "sha256": reading.sha256,
        "pages": reading.pages,
        "words": reading.words,
    }


@job("documents.search", queue="documents", max_attempts=2, limits=Limits(duration=3))
def search_document(context: Context, *, path: str, phrase: str) -> dict[str, Any]:
    """Find a phrase in a text file although it may be misspelt there; too slow for large files, hence the limit."""
    match = best_match(read_text(Path(path)).lower(), phrase.lower(), context.progress)
    return {"phrase": phrase, "errors": match.errors, "end": match.end}


@job(
    "partner.notify",
    queue="partner",
    max_attempts=8,
    backoff=Backoff(base=1, factor=2, cap=8),
    limits=Limits(duration=20),
)
def notify_partner(context: Context, *, event: str, path: str) -> dict[str, Any]:
    """Tell the partner's HTTP server of a document; while that is down, httpx raises and the job is retried."""
    # The same key at every attempt: an answer that got lost must not make the partner count the event twice.
    answer = httpx.post(
        settings.PARTNER_URL,
        json={"event": event, "path": path},
        headers={"Idempotency-Key": str(context.job_id)},
        timeout=5,
    )
    answer.raise_for_status()
    return {"receipt": answer.json()["receipt"]}


@job("documents.native_crash", queue="documents", max_attempts=2, limits=Limits(duration=10))
def crash_natively(context: Context, *, path: str) -> dict[str, Any]:
    """Crash the process: call C's strlen() on a bad pointer, as a faulty C extension would.

    The fault is the usual one: the length of the file is taken for the address of its content. No page below
    64 KiB is ever mapped, so for a small file the kernel ends the process with SIGSEGV.
    """
    length = Path(path).stat().st_size
    context.progress(50, "calling strlen")
    return {"length": ctypes.CDLL(None).strlen(ctypes.c_void_p(length))}
