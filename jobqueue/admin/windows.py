"""How far a search looks where no index helps: a window of ids, or of dead letters by the time they died."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cached_property
from typing import Final

from django.db import connections
from django.db.models import DateTimeField, F, Q, Value
from django.db.models.functions import Greatest
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext as _

from jobqueue import sql
from jobqueue.models import Job
from jobqueue.states import Status

from .base import number_of
from .paging import BEHIND_VAR
from .searching import Search, Window
from .wording import instant

#: So many ids are looked at in the list of all jobs, and so many dead letters in theirs.
SEARCHED: Final = 100_000
SEARCHED_DEAD: Final = 30_000
#: Ids are handed out before rows are written: around a time so many are looked at besides.
SLACK: Final = 10_000
# Rows written by hand may have a time that Python has not.
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


#: How a list of one status is read in the order of its index: sorting by id would walk past every other row.
ORDERS: Final[dict[Status | None, tuple[str, ...]]] = {
    Status.SCHEDULED: ("run_after", "id"),
    **dict.fromkeys((Status.DONE, Status.DEAD, Status.CANCELLED), ("-finished_at", "-id")),
}


class IdSearch(Search):
    """A search of all jobs: the newest 100,000 ids, or those before an id or a time that it names."""

    @property
    def order(self) -> tuple[str, ...]:
        """The order of the index of the one status, or by id: so is a window read, and few rows are sorted so."""
        if self.asked - {"status"}:
            claimed = self.status == Status.PENDING and self.asked == {"queue"}
            return ("priority", "run_after", "id") if claimed else ("-id",)
        return ORDERS.get(self.status, ("-id",))

    @cached_property
    def bounded(self) -> bool:
        """Whether no index finds what is asked for."""
        if self.error or "id" in self.asked or self.status == Status.RUNNING:
            return False
        asked = self.asked - {"status"}
        if not asked:
            return len(self.statuses) > 1
        if self.status == Status.PENDING and asked == {"queue"}:
            return False
        return not (self.status == Status.DEAD and "fingerprint" in asked and not asked & {"*", "-"})

    @cached_property
    def window(self) -> Window | None:
        """The ids that are looked at; None: all."""
        if not self.bounded:
            return None
        last = min([self.newest[0], *(number - 1 for number in self._numbers("id__lt"))])
        for at in self.times("before"):
            last = min(last, self._id_at(at) + SLACK)
        least, *_rest = [*self._numbers("id__gte"), 0]
        # Of a window that was fixed, also while new jobs come.
        last = min(last, least + 2 * SEARCHED) if least else last
        first = least or max(1, last - SEARCHED + 1)
        earliest = max([1, *(self._id_at(at) - SLACK for at in self.times("after"))])
        told = {"first": max(first, earliest), "last": max(last, 0)}
        return Window(
            condition=Q(pk__gte=told["first"], pk__lte=told["last"]),
            text=_("Looked at the jobs from #%(first)d to #%(last)d.") % told,
            fixed={"id__gte": str(told["first"])},
            behind={"id__lt": str(first), "id__gte": None} if earliest < first else None,
        )

    def _numbers(self, name: str) -> list[int]:
        number = number_of(self.params.get(name, ""))
        return [] if number is None else [number]

    def _id_at(self, at: datetime) -> int:
        with connections[self.using].cursor() as cursor:
            cursor.execute(sql.ID_AT, {"at": at})
            number: int = cursor.fetchone()[0]
            return number


class DiedSearch(Search):
    """A search of dead letters: the newest 30,000, or those that died before a time, unless an index finds them."""

    instant = "finished_at"
    #: What indexes of the dead letters find.
    found_by_index = frozenset({"id", "queue", "type", "fingerprint", "after", "before", "status"})

    @cached_property
    def window(self) -> Window | None:
        """The dead letters that are looked at; None: all."""
        if self.error or "id" in self.asked or self.asked <= self.found_by_index:
            return None
        last = min([self.newest[1], *self._times("finished_at__lte"), *self.times("before")])
        since = [*self._times("finished_at__gte"), *self._floor(last)][:1]
        if not since:
            return None
        earliest = max([since[0], *self.times("after")])
        return Window(
            condition=Q(finished_at__gte=earliest),
            text=_("Looked at the dead letters that died since %(time)s.") % {"time": instant(earliest)},
            fixed={"finished_at__gte": earliest.isoformat()},
            behind={"finished_at__lte": since[0].isoformat(), "finished_at__gte": None, BEHIND_VAR: None}
            if earliest == since[0]
            else None,
        )

    def _floor(self, last: datetime) -> list[datetime]:
        """Return when the last one died of those that are looked at; nothing where all are."""
        rows = Job.objects.using(self.using).filter(status=Status.DEAD, finished_at__lte=last)
        # In the order of the column itself: what is read of it is another expression, which would be sorted.
        at = Greatest(F("finished_at"), Value(EPOCH), output_field=DateTimeField())
        times = rows.annotate(died=at).order_by("-finished_at", "-pk").values_list("died", flat=True)
        return list(times[SEARCHED_DEAD : SEARCHED_DEAD + 1])

    def _times(self, name: str) -> list[datetime]:
        try:
            at = parse_datetime(self.params.get(name, ""))
        except ValueError:
            return []
        return [] if at is None or timezone.is_naive(at) else [at]
