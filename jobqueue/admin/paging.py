"""Pages of lists of any length: what is counted is bounded, and what lies behind the last page is reached by key.

Counting all rows, or skipping millions of them by OFFSET, is what brought other queues' consoles down. A count stops at
COUNT_CAP and is shown as "at least"; one that takes too long is shown as unknown. The last page that can be reached by
number offers the rows older than its own, found by their id.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from django.contrib.admin.views.main import ORDER_VAR, PAGE_VAR, ChangeList
from django.core.paginator import Paginator
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


#: By the first column of the order: the lookup that finds what follows a row. Rows of one instant are seen twice rather
#: than lost, since a batch settles hundreds of jobs at the same one.
BEHIND: Final = {
    "-id": "id__lt",
    "-pk": "pk__lt",
    "-finished_at": "finished_at__lte",
    "-at": "at__lte",
    "run_after": "run_after__gte",
    "-broken_since": "broken_since__lte",
}


class KeyedChangeList(ChangeList):
    """A list whose rows behind the last page that has a number are reached by the key of its last row."""

    def get_ordering(self, request: Any, queryset: Any) -> Any:
        """Return the list's own order: another one, which an address may ask for, would sort the whole table."""
        self.params.pop(ORDER_VAR, None)
        return super().get_ordering(request, queryset)

    @property
    def older_query(self) -> str | None:
        """Return the query string for what follows the last row of this page, None where nothing is known to."""
        rows, order = list(self.result_list), self.queryset.query.order_by
        lookup = BEHIND.get(str(order[0])) if order else None
        if not rows or lookup is None:
            return None
        value = getattr(rows[-1], lookup.partition("__")[0])
        text = value.isoformat() if hasattr(value, "isoformat") else str(value)
        # The key of a page before goes, whatever it was.
        return self.get_query_string({lookup: text}, remove=[PAGE_VAR, "id__gte", "finished_at__gte"])


def count_up_to(rows: QuerySet[Any], most: int) -> int:
    """Count rows, no more than so many of them."""
    return rows.order_by().values("pk")[:most].count()
