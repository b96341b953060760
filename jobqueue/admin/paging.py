"""Pages of lists of any length: what is counted is bounded, and what lies behind the last page is reached by key.

Counting all rows, or skipping millions of them by OFFSET, is what brought other queues' consoles down. A count stops at
COUNT_CAP and is shown as "at least"; one that takes too long is shown as unknown. The last page that can be reached by
number offers the rows behind its own, found by its last row's id, or by its time and id: a bulk may have 100,000 rows
of one instant.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from django.contrib.admin.views.main import ORDER_VAR, PAGE_VAR, ChangeList
from django.core.paginator import Paginator
from django.db.models import Expression, F, Func, TextField, Value
from django.db.models.lookups import GreaterThan, LessThan
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.functional import cached_property

from jobqueue.ops.limited import read_within

if TYPE_CHECKING:
    from django.db.models import QuerySet

    RowPaginator = Paginator[Any]
else:
    RowPaginator = Paginator

COUNT_CAP: Final = 10_000
COUNT_LIMIT: Final = timedelta(milliseconds=500)


class CappedPaginator(RowPaginator):
    """Counts up to the cap; `capped` tells that the count is not exact, `unknown` that nobody could count in time."""

    capped = unknown = False

    @cached_property
    def count(self) -> int:
        """Return the number of rows, the cap at most."""
        rows: QuerySet[Any] = self.object_list  # type: ignore[assignment]
        known: int | None = getattr(rows, "known_count", None)
        if known is not None:
            return known
        counted = read_within(rows.db, lambda: count_up_to(rows, COUNT_CAP + 1), COUNT_LIMIT)
        self.unknown = counted is None
        self.capped = counted is None or counted > COUNT_CAP
        # Of an unknown number as many pages are offered as of a large one; one without rows is empty.
        return COUNT_CAP if self.capped else counted or 0


#: By the first column of the order: the lookup that finds what follows a row.
BEHIND: Final = {
    "-id": "id__lt",
    "-pk": "pk__lt",
    "-finished_at": "finished_at__lte",
    "-at": "at__lte",
    "run_after": "run_after__gte",
    "-broken_since": "broken_since__lte",
}
#: The parameter that has the id of the row that is gone on behind, beside its time.
BEHIND_VAR: Final = "behind"
NUMBER: Final = re.compile(r"[0-9]{1,18}")


class KeyedChangeList(ChangeList):
    """A list whose rows behind the last page that has a number are reached by the key of its last row."""

    def get_filters_params(self, params: Any = None) -> Any:
        """Return what narrows the list by itself: the id does beside its time only."""
        found = super().get_filters_params(params)
        found.pop(BEHIND_VAR, None)
        return found

    def get_queryset(self, request: Any, exclude_parameters: Any = None) -> Any:
        """Return the rows; of those of the instant that is gone on behind, what follows the row that was the last."""
        rows = super().get_queryset(request, exclude_parameters)
        order = _order(rows)
        at, number = (self._said(name) for name in (_lookup(order), BEHIND_VAR))
        instant = _instant(at)
        if instant is None or not NUMBER.fullmatch(number) or not _has_ties(order):
            return rows
        # Compared as a row, which is where the index begins to be read: an OR would walk past all of that instant.
        follows = LessThan if order[0].startswith("-") else GreaterThan
        return rows.filter(follows(_row(F(order[0].lstrip("-")), F("pk")), _row(Value(instant), Value(int(number)))))

    def _said(self, name: str) -> str:
        return str(self.filter_params.get(name, [""])[-1])

    def get_ordering(self, request: Any, queryset: Any) -> Any:
        """Return the list's own order: another one, which an address may ask for, would sort the whole table."""
        self.params.pop(ORDER_VAR, None)
        return super().get_ordering(request, queryset)

    @property
    def older_query(self) -> str | None:
        """Return the query string for what follows the last row of this page, None where nothing is known to."""
        rows, order = list(self.result_list), _order(self.queryset)
        lookup = _lookup(order)
        if not rows or not lookup:
            return None
        value = getattr(rows[-1], lookup.partition("__")[0])
        text = value.isoformat() if hasattr(value, "isoformat") else str(value)
        place = {lookup: text, BEHIND_VAR: str(rows[-1].pk) if _has_ties(order) else None}
        # The key of a page before goes, whatever it was.
        return self.get_query_string(place, remove=[PAGE_VAR, "id__gte", "finished_at__gte"])


def _order(rows: QuerySet[Any]) -> list[str]:
    """Return the columns of the order; Django names those of a ModelAdmin twice."""
    return list(dict.fromkeys(map(str, rows.query.order_by)))


def _lookup(order: list[str]) -> str:
    return BEHIND.get(order[0], "") if order else ""


def _has_ties(order: list[str]) -> bool:
    """Tell whether rows that the first column does not tell apart follow each other by id, in the same direction."""
    sign = "-" if order[:1] and order[0].startswith("-") else ""
    return bool(_lookup(order)) and order[1:2] in ([f"{sign}id"], [f"{sign}pk"])


def _row(*parts: Expression | F) -> Func:
    return Func(*parts, function="ROW", output_field=TextField())


def _instant(text: str) -> datetime | None:
    """Return the time of an address; None for what is none, which the lookup itself refuses."""
    try:
        at = parse_datetime(text)
    except ValueError:
        return None
    return None if at is None or timezone.is_naive(at) else at


def count_up_to(rows: QuerySet[Any], most: int) -> int:
    """Count rows, no more than so many of them."""
    return rows.order_by().values("pk")[:most].count()
