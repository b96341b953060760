"""Lists of jobs as pages: their rows within a limit of time, their search in words, their tabs by status."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final

from django.contrib.admin.views.main import PAGE_VAR
from django.http import HttpRequest
from django.utils.translation import gettext as _

from jobqueue.ops.limited import Budget, read_within
from jobqueue.states import Status

from .paging import BEHIND_VAR, COUNT_CAP, KeyedChangeList, count_up_to
from .search_terms import HELP
from .searching import PLACES, STATUS, Chip, Search, address_of

if TYPE_CHECKING:
    from .lists import JobListAdmin

#: The rows of a page.
ROWS_LIMIT: Final = timedelta(seconds=1)
#: All counts of the tabs together, and each of them.
TABS_LIMIT: Final = timedelta(milliseconds=300)
TAB_LIMIT: Final = timedelta(milliseconds=100)
#: Tabs in the order of a job's life; WAITING has no jobs yet.
TABS: Final = (Status.PENDING, Status.SCHEDULED, Status.RUNNING, Status.DEAD, Status.DONE, Status.CANCELLED)


@dataclass(frozen=True, slots=True)
class Tab:
    """One status, the number of its jobs in words ("" where it is not counted), and its address."""

    label: Any
    jobs: str
    address: str
    current: bool


class JobChangeList(KeyedChangeList):
    """A list of jobs with what its search form shows; the templates read its properties."""

    model_admin: JobListAdmin
    #: The rows could not be read in time: none are shown.
    unread = False

    def __init__(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        self.request = request
        super().__init__(request, *args, **kwargs)

    def get_results(self, request: HttpRequest) -> None:
        """Read the rows of the page within a limit of time; without them the page stands, and says so."""
        first = self._read(self.queryset[: self.list_per_page]) if self.page_num == 1 else None
        if first is not None and len(first) < self.list_per_page:
            # All there are, so nobody has to look for more of them again.
            self.queryset.known_count = len(first)
        super().get_results(request)
        rows = self._read(self.result_list) if first is None else first
        self.unread = rows is None
        self.result_list = rows or []

    def _read(self, rows: Any) -> list[Any] | None:
        return read_within(rows.db, lambda: list(rows), ROWS_LIMIT)

    @cached_property
    def search(self) -> Search:
        """What is looked for."""
        return self.model_admin.search_of(self.request)

    @property
    def chips(self) -> list[Chip]:
        """The terms, each with the address of the list without it."""
        return self.search.chips(address_of(self.request.GET))

    @property
    def behind_query(self) -> str | None:
        """The address of the window behind the one that was looked at."""
        window = self.search.window
        return address_of(self.request.GET)(window.behind) if window and window.behind else None

    @property
    def search_help(self) -> Any:
        """What can be typed, and what it finds."""
        return HELP

    @cached_property
    def tabs(self) -> list[Tab]:
        """The statuses with their counts, where nothing else narrows the list; else without."""
        if not self.model_admin.has_tabs:
            return []
        chosen = self.request.GET.get(STATUS, "")
        narrowed = bool(self.search.terms) or any(name not in PLACES for name in self.request.GET)
        counts = {} if narrowed else self._counts()
        address = address_of(self.request.GET)
        gone = dict.fromkeys((PAGE_VAR, "id__lt", "id__gte", "finished_at__lte", "run_after__gte", BEHIND_VAR))
        tabs = [Tab(_("all"), "", address(gone | {STATUS: None}), not chosen)]
        for status in TABS:
            value = str(int(status))
            tabs.append(Tab(status.label, counts.get(status, ""), address(gone | {STATUS: value}), chosen == value))
        return tabs

    def _counts(self) -> dict[Status, str]:
        """Return how many jobs each status has, up to the cap, in one transaction with a limit of time."""
        rows, counts = self.root_queryset, {}
        budget = Budget(rows.db, each=TAB_LIMIT, end=time.monotonic() + TABS_LIMIT.total_seconds())
        with budget.open():
            for status in TABS:
                found = rows.filter(status=status)
                jobs = budget.read(partial(count_up_to, found, COUNT_CAP + 1), of="jobqueue_job")
                counts[status] = _("unknown") if jobs is None else f"≥ {COUNT_CAP}" if jobs > COUNT_CAP else str(jobs)
        return counts
