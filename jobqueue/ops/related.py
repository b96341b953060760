"""Jobs that have to do with one job: those with its key, and those like it that came shortly before and after."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from django.db.models import Value

from jobqueue.models import Job
from jobqueue.states import ACTIVE, Status

if TYPE_CHECKING:
    from django.db.models import QuerySet

#: So many ids before it and after it are looked at for jobs like it: there is no index of owners.
REACH: Final = 5_000
#: At most so many with its key, and like it on either side, are told of.
MOST: Final = 5

_COLUMNS: Final = ("pk", "job_type", "status", "queue", "created_at", "finished_at")
_KEY, _BEFORE, _AFTER = "key", "before", "after"


@dataclass(frozen=True, slots=True)
class RelatedJob:
    """One of them."""

    job_id: int
    job_type: str
    status: int
    queue: str
    created_at: datetime
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class Related:
    """Those with the same key that wait, run or are dead; and those of its type and owner near it, oldest first."""

    same_key: list[RelatedJob]
    near: list[RelatedJob]


def related(job: Job, rows: QuerySet[Any]) -> Related:
    """Return what of `rows`, the jobs that may be seen, has to do with a job; one statement, by index.

    Its ids are read as far as REACH: what lies further off is not near in time, either.
    """
    others, like_it = rows.order_by(), {"job_type": job.job_type, "owner": job.owner}
    parts = [
        _part(others.filter(pk__lt=job.pk, pk__gte=job.pk - REACH, **like_it).order_by("-pk"), _BEFORE),
        _part(others.filter(pk__gt=job.pk, pk__lte=job.pk + REACH, **like_it).order_by("pk"), _AFTER),
    ]
    if job.dedupe_key is not None:
        same = others.filter(dedupe_key=job.dedupe_key).exclude(pk=job.pk).order_by("-pk")
        # Two parts: each has an index of its own, which holds no other status.
        parts += [_part(same.filter(status__in=ACTIVE), _KEY), _part(same.filter(status=Status.DEAD), _KEY)]
    found = [(row[-1], RelatedJob(*row[:-1])) for row in parts[0].union(*parts[1:], all=True)]
    near = sorted((one for kind, one in found if kind != _KEY), key=lambda one: one.job_id)
    return Related([one for kind, one in found if kind == _KEY], near)


def _part(rows: QuerySet[Any], kind: str) -> QuerySet[Any]:
    found: QuerySet[Any] = rows.annotate(_kind=Value(kind)).values_list(*_COLUMNS, "_kind")[:MOST]
    return found
