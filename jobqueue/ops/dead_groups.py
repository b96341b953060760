"""Dead letters by what killed them: a hundred jobs that failed alike are one problem.

A group is one fingerprint of one job type. Groups are made of the newest 20,000 dead letters of a set, so that a flood
of them cannot make the page slow: the rows are found by the index of finished jobs, counted by their primary key, and
no text is read but that of each group's newest job. A count that older dead letters could add to says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import BooleanField, Count, F, Func, Max, Min, Q
from django.db.models.functions import Left

from jobqueue.errors import normal_message
from jobqueue.models import GroupNote, Job
from jobqueue.models.expressions import StatementTimestamp
from jobqueue.operations import Group
from jobqueue.redaction import mask_text

if TYPE_CHECKING:
    from django.db.models import QuerySet

#: Groups are made of so many of the newest dead letters.
REACH: Final = 20_000
SHOWN: Final = 50
#: The columns, shortest first, before that of all.
WINDOWS: Final[Mapping[str, timedelta]] = {
    "1h": timedelta(hours=1),
    "24h": timedelta(hours=24),
    "7d": timedelta(days=7),
}
HEAD_CHARACTERS: Final = 400
#: From so many times the day's mean an hour on, up or down, it is a trend.
STEEP: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadGroup:
    """The dead letters of one type with one fingerprint (None: without one)."""

    fingerprint: str | None
    job_type: str
    jobs: int
    within: Mapping[str, int]  # by the names of WINDOWS
    first_at: datetime | None
    last_at: datetime | None
    newest: int  # the id of the newest job, as a sample
    age: timedelta  # since the first one died, by the database's clock
    error_class: str = ""
    message: str = ""  # the sample's, masked; numbers, names and paths are placeholders
    note: GroupNote | None = None  # what people noted of it
    now: datetime | None = None  # when it was read, by the database's clock
    reached: timedelta | None = None  # older dead letters than this may not have been read; None: all were

    def exact(self, window: timedelta | None = None) -> bool:
        """Tell whether the count of a window (None: of all, and when the first one died) leaves nothing out."""
        return _is_exact(self.reached, window)

    @property
    def key(self) -> Group:
        """What the operations call it."""
        return Group(self.fingerprint or "", self.job_type)

    @property
    def assignee(self) -> str:
        """Return in whose hands it is, "" for nobody's."""
        return self.note.assignee if self.note else ""

    @property
    def muted(self) -> bool:
        """Tell whether it is to be folded away: not beyond its time, nor once twice as many died in a day as then.

        Of those that were read: where these do not reach back a day it may end by its time alone.
        """
        if self.note is None or self.note.muted_until is None or self.now is None or self.note.muted_until <= self.now:
            return False
        rate = self.note.muted_rate
        return rate is None or self.within["24h"] < 2 * max(1, rate)

    @property
    def pace(self) -> float:
        """How many died in the last hour for each that died in an hour of the last 24, on average; 0 for none."""
        day = self.within["24h"]
        return self.within["1h"] * 24 / day if day else 0.0

    @property
    def trend(self) -> str:
        """Return "new" (none before this hour), "rising", "falling", "steady", or "quiet" (none in 24 hours).

        It is "unknown" where others may have died within the day, and never "new" where others may have before.
        """
        if not self.exact(WINDOWS["24h"]):
            return "unknown"
        if not self.within["24h"]:
            return "quiet"
        if self.exact() and self.age <= WINDOWS["1h"]:
            return "new"
        if self.pace >= STEEP:
            return "rising"
        return "falling" if self.pace <= 1 / STEEP else "steady"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadGroups:
    """The largest groups of a set."""

    groups: tuple[DeadGroup, ...]
    more: bool  # there are other groups, or there may be
    reached: timedelta | None  # dead letters older than this were not read; None: all were

    def exact(self, window: timedelta | None = None) -> bool:
        """Tell whether the counts of a window (None: of all) leave nothing out."""
        return _is_exact(self.reached, window)


def counted_by_group(newest: QuerySet[Any], **columns: Any) -> list[Any]:
    """Return a row for each group among the jobs of these ids, counted by the windows and by further columns.

    By their ids: a set cut to a number of rows cannot be grouped itself.
    """
    now = StatementTimestamp()
    within = {f"within_{name}": Count("pk", filter=Q(finished_at__gt=now - span)) for name, span in WINDOWS.items()}
    ends = {"first": Min("finished_at"), "last": Max("finished_at"), "newest": Max("pk")}
    groups = Job.objects.using(newest.db).filter(is_one_of(newest)).order_by().values("fingerprint", "job_type")
    return list(groups.annotate(jobs=Count("pk"), **ends, **within, **columns).annotate(now=now))


def dead_groups(rows: QuerySet[Any], *, reach: int = REACH, shown: int = SHOWN) -> DeadGroups:
    """Return the largest groups of the newest `reach` of these dead letters, in three statements."""
    counted = counted_by_group(rows.order_by("-finished_at", "-pk").values("pk")[:reach])
    found = sorted(counted, key=lambda row: (-row["jobs"], row["job_type"], row["fingerprint"] or ""))
    ages = [row["now"] - row["first"] for row in found if row["first"] is not None]
    full = sum(row["jobs"] for row in found) >= reach
    reached = max(ages, default=timedelta(0)) if full else None
    heads, notes = _heads([row["newest"] for row in found[:shown]], rows.db), _notes(found[:shown], rows.db)
    return DeadGroups(
        groups=tuple(_group(row, heads, notes, reached) for row in found[:shown]),
        more=full or len(found) > shown,
        reached=reached,
    )


def is_one_of(ids: QuerySet[Any]) -> Func:
    """Return the condition that a job's id is among these, at most some thousands.

    As an array, which each is looked up from by the primary key: joined with a subquery the planner would rather walk
    through all jobs there are.
    """
    return Func(
        F("pk"), ArraySubquery(ids), template="(%(expressions)s))", arg_joiner=" = ANY (", output_field=BooleanField()
    )


def make_group(row: Mapping[str, Any], using: str, *, whole: bool) -> DeadGroup:
    """Return the group of a row that counts it, or (not `whole`) some of it, as dead_groups() does; two statements."""
    return _group(row, _heads([row["newest"]], using), _notes([row], using), None if whole else timedelta(0))


def _is_exact(reached: timedelta | None, window: timedelta | None) -> bool:
    return reached is None or (window is not None and window < reached)


def _group(
    row: Mapping[str, Any],
    heads: dict[int, tuple[str, str]],
    notes: Mapping[tuple[str, str], GroupNote],
    reached: timedelta | None,
) -> DeadGroup:
    error_class, message = heads.get(row["newest"], ("", ""))
    return DeadGroup(
        fingerprint=row["fingerprint"],
        job_type=row["job_type"],
        jobs=row["jobs"],
        within={name: row[f"within_{name}"] for name in WINDOWS},
        first_at=row["first"],
        last_at=row["last"],
        newest=row["newest"],
        age=timedelta(0) if row["first"] is None else row["now"] - row["first"],
        error_class=error_class,
        message=message,
        note=notes.get((row["fingerprint"] or "", row["job_type"])),
        now=row["now"],
        reached=reached,
    )


def _notes(rows: Sequence[Mapping[str, Any]], using: str) -> dict[tuple[str, str], GroupNote]:
    """Return what people noted of these groups."""
    prints, types = {row["fingerprint"] or "" for row in rows}, {row["job_type"] for row in rows}
    found = GroupNote.objects.using(using).filter(fingerprint__in=prints, job_type__in=types)
    return {(note.fingerprint, note.job_type): note for note in found}


def _heads(ids: list[int], using: str) -> dict[int, tuple[str, str]]:
    """Return (error class, normalised message) of these jobs."""
    rows = Job.objects.using(using).filter(pk__in=ids).annotate(head=Left("last_error", HEAD_CHARACTERS))
    return {
        job_id: (error_class or "", normal_message(mask_text(head or "")))
        for job_id, error_class, head in rows.values_list("pk", "error_class", "head")
    }
