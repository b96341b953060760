"""The audit as a file: read in pieces while it is sent, newest first, its secrets hidden as on the page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from django.db.models import Q

from jobqueue.redaction import mask_json

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from jobqueue.models import Action

MOST: Final = 100_000
PIECE: Final = 2_000
#: How many whole rows are in memory at once: what an edit of a field keeps may be 4 MiB each.
FEW: Final = 20
COLUMNS: Final = ("id", "at", "actor", "action", "refused", "jobs", "subject", "reason", "address", "job_ids", "detail")


def newest_first(rows: QuerySet[Any]) -> Iterator[Action]:
    """Yield the newest rows: their places a piece a query, themselves a few at a time, since some are megabytes."""
    ordered, left = rows.order_by("-at", "-id"), MOST
    places = list(ordered.values_list("at", "pk")[: min(PIECE, left)])
    while places:
        for start in range(0, len(places), FEW):
            yield from ordered.filter(pk__in=[pk for _at, pk in places[start : start + FEW]])
        left -= len(places)
        at, pk = places[-1]
        # The first condition is the one that an index knows.
        behind = ordered.filter(at__lte=at).filter(Q(at__lt=at) | Q(pk__lt=pk)).values_list("at", "pk")
        places = list(behind[: min(PIECE, left)]) if len(places) == PIECE and left > 0 else []


def values(action: Action) -> dict[str, Any]:
    """Return a row by the names of COLUMNS, as JSON holds it."""
    return {
        "id": action.pk,
        "at": action.at.isoformat(),
        "actor": action.actor,
        "action": action.action,
        "refused": action.refused,
        "jobs": len(action.job_ids),
        "subject": action.subject,
        "reason": action.reason,
        "address": action.address,
        "job_ids": action.job_ids,
        "detail": None if action.detail is None else mask_json(action.detail),
    }


def cells(action: Action) -> list[Any]:
    """Return a row for a spreadsheet."""
    row = values(action)
    row["job_ids"] = " ".join(str(job_id) for job_id in row["job_ids"])
    row["detail"] = "" if row["detail"] is None else json.dumps(row["detail"], ensure_ascii=False)
    return [row[name] for name in COLUMNS]


def json_lines(rows: Iterator[Action]) -> Iterator[str]:
    """Yield a JSON list of the rows, one a line."""
    before = "[\n"
    for action in rows:
        yield before + json.dumps(values(action), ensure_ascii=False)
        before = ",\n"
    yield "[]\n" if before == "[\n" else "\n]\n"
