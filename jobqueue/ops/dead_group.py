"""One group of dead letters: how it came about hour by hour, under which releases, and what people did about it.

A group is read by the index of dead letters' fingerprints, its newest 20,000 at most; a count that older ones could add
to says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from django.db.models import Count, Func, IntegerField, Q

from jobqueue.models import Action, Attempt, Release, Worker
from jobqueue.models.expressions import StatementTimestamp
from jobqueue.operations import Group

from .dead_groups import REACH, DeadGroup, counted_by_group, make_group

if TYPE_CHECKING:
    from django.db.models import QuerySet

HOURS: Final = 24
RELEASES: Final = 6
#: Attempts whose workers are asked for their version.
ATTEMPTS: Final = 200
ACTIONS: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFigures:
    """A group with what its page tells beyond the list."""

    group: DeadGroup  # and all that is counted here, is of its newest dead letters where it is not exact()
    hours: tuple[tuple[datetime, int], ...]  # how many died in the 60 minutes before each time, the last one now
    releases: tuple[tuple[str, datetime, int], ...]  # newest first: (release, since when, how many died under it)


def group_figures(rows: QuerySet[Any], group: Group, *, reach: int = REACH) -> GroupFigures | None:
    """Return the figures of a group among these dead letters, None where none of them is of it; in five statements."""
    releases = list(Release.objects.using(rows.db).order_by("-first_seen_at")[:RELEASES])
    # By the fingerprint alone its index gives them; that a few types share one costs little.
    print_ = Q(fingerprint=group.fingerprint) if group.fingerprint else Q(fingerprint__isnull=True)
    newest = rows.filter(print_).order_by("-pk").values("pk")[:reach]
    now = StatementTimestamp()
    columns: dict[str, Any] = {}
    for hour in range(HOURS):
        within = Q(finished_at__gt=now - timedelta(hours=hour + 1), finished_at__lte=now - timedelta(hours=hour))
        columns[f"hour_{hour}"] = Count("pk", filter=within)
    for place, release in enumerate(releases):
        under = Q(finished_at__gte=release.first_seen_at)
        if place:
            under &= Q(finished_at__lt=releases[place - 1].first_seen_at)
        columns[f"release_{place}"] = Count("pk", filter=under)
    counted = counted_by_group(newest, **columns)
    row = next((row for row in counted if row["job_type"] == group.job_type), None)
    if row is None:
        return None
    return GroupFigures(
        # By their ids: where some were left out, nothing is known of when those died.
        group=make_group(row, rows.db, whole=sum(row["jobs"] for row in counted) < reach),
        hours=_hours(row),
        releases=tuple(
            (release.version, release.first_seen_at, row[f"release_{place}"]) for place, release in enumerate(releases)
        ),
    )


def _hours(row: Mapping[str, Any]) -> tuple[tuple[datetime, int], ...]:
    """Return the hours, oldest first."""
    return tuple((row["now"] - timedelta(hours=hour), row[f"hour_{hour}"]) for hour in reversed(range(HOURS)))


def worker_versions(job_ids: Sequence[int], *, using: str) -> list[str]:
    """Return the versions of the workers, as far as they are known still, that ran the last attempts of these jobs."""
    newest = Attempt.objects.using(using).filter(job_id__in=job_ids).order_by("-pk").values_list("worker_id", flat=True)
    versions = Worker.objects.using(using).filter(worker_id__in=set(newest[:ATTEMPTS])).exclude(version="")
    return sorted(versions.values_list("version", flat=True).distinct())


def group_actions(group: Group, *, using: str) -> QuerySet[Action]:
    """Return what people did about a group as such, newest first, without the jobs and the details of large edits."""
    rows = Action.objects.using(using).exclude(subject="").filter(subject=group.subject)
    jobs = Func("job_ids", function="cardinality", output_field=IntegerField())
    return rows.defer("job_ids", "detail").annotate(number=jobs).order_by("-pk")[:ACTIONS]
