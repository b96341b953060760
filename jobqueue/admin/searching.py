"""A search of a list: what was typed, as conditions, within bounds, at one moment.

What no index finds is looked for in a window: the newest 100,000 ids, or the newest 30,000 dead letters, or those
before the place or time that the address names. The page says which one it was, and offers the one behind it. An action
on all that match takes the same window and the same moment, however many steps it needs: fix() puts both into the
address of its pages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from django.contrib.admin.views.main import PAGE_VAR, SEARCH_VAR
from django.db.models import Q
from django.http import HttpRequest
from django.utils import timezone

from jobqueue.models import Job
from jobqueue.models.expressions import StatementTimestamp
from jobqueue.states import Status

from .base import user_of
from .paging import BEHIND_VAR
from .search_syntax import SearchError, Term, parse, written
from .search_terms import Meaning, condition, instant_of_term, is_id, statuses_of

if TYPE_CHECKING:
    from django.db.models import QuerySet

STATUS: Final = "status__exact"
#: What a list may be narrowed by in its address beside the filters: nothing that reads, or tells, more than they do.
LOOKUPS: Final = frozenset(
    {STATUS, "id__lt", "id__gte", "finished_at__lte", "finished_at__gte", "run_after__gte", "run_after__lte"}
    | {"fingerprint__exact", "fingerprint__isnull", "job_type__exact", "queue__exact", "queue", "job_type"}
)
#: Those of them that say where in the list, not which rows.
PLACES: Final = frozenset(
    {SEARCH_VAR, PAGE_VAR, STATUS, "id__lt", "id__gte", "finished_at__lte", "finished_at__gte", "run_after__gte"}
    | {BEHIND_VAR, "action", "o", "e"}
)


@dataclass(frozen=True, slots=True)
class Chip:
    """A term, and the address of the list without it."""

    text: str
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What is looked at, as a condition and in words."""

    condition: Q
    text: str
    #: With these parameters the same window is looked at later, too.
    fixed: dict[str, str] = field(default_factory=dict)
    #: With these the window behind this one is looked at; None: there is none.
    behind: dict[str, str | None] | None = None


class Search:
    """One request's search of one list that is short by itself."""

    #: The column that `after` and `before` compare.
    instant = "created_at"

    def __init__(self, request: HttpRequest, using: str) -> None:
        """Take what the request asks for."""
        self.params: Mapping[str, str] = request.GET
        self.using = using
        self.sees_hidden = user_of(request).has_perm("jobqueue.view_payload")
        self.terms: tuple[Term, ...] = ()
        self.error: SearchError | None = None
        self.condition = Q()
        try:
            self.terms = parse(self.params.get(SEARCH_VAR, ""))
            for term in self.terms:
                self.condition &= condition(term, self.meaning)
        except SearchError as error:
            self.error = error

    @cached_property
    def newest(self) -> tuple[int, datetime]:
        """The newest id, and the time by the database's clock."""
        rows = Job.objects.using(self.using).annotate(now=StatementTimestamp()).order_by("-pk")
        return rows.values_list("pk", "now").first() or (0, timezone.now())

    @property
    def meaning(self) -> Meaning:
        """What the terms mean here and now."""
        return Meaning(moment=lambda: self.newest[1], instant=self.instant, sees_hidden=self.sees_hidden)

    @cached_property
    def statuses(self) -> frozenset[Status]:
        """The statuses that the list is narrowed to; empty: all."""
        if self.error:
            return frozenset()
        chosen = [statuses_of(term) for term in self.terms if term.key == "status" and not term.negated]
        if self.params.get(STATUS, "") in {str(status.value) for status in Status}:
            chosen.append([Status(int(self.params[STATUS]))])
        return frozenset.intersection(*map(frozenset, chosen)) if chosen else frozenset()

    @property
    def status(self) -> Status | None:
        """The only status that the list is narrowed to."""
        return next(iter(self.statuses)) if len(self.statuses) == 1 else None

    @cached_property
    def asked(self) -> frozenset[str]:
        """What the rows are chosen by: keys of terms, names of filters, "*" for what is not whole, "-" for a not."""
        found = {name.partition("__")[0] for name, value in self.params.items() if value and name not in PLACES}
        for term in self.terms:
            found |= {"-"} if term.negated else {"id" if is_id(term) else term.key}
            found |= {"*"} if "*" in term.value and not term.quoted else set()
        return frozenset("type" if name == "job_type" else name for name in found)

    @cached_property
    def window(self) -> Window | None:
        """What is looked at; None: all."""
        return None

    @property
    def order(self) -> tuple[str, ...] | None:
        """The order of the index that the rows are read by; None: that of the list."""
        return None

    def applied(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Return the rows that are found; none where the search is wrong."""
        if self.error:
            return rows.none()
        found = rows.filter(self.condition) if self.terms else rows
        return found if self.window is None else found.filter(self.window.condition)

    def fix(self, params: Any) -> None:
        """Put the window and the times of this moment into the parameters of an address."""
        if self.error is None:
            for name, value in (self.window.fixed if self.window else {}).items():
                params[name] = value
            if any(term.key in ("after", "before") for term in self.terms):
                params[SEARCH_VAR] = written(map(self._timed, self.terms))

    def chips(self, address: Callable[[dict[str, str | None]], str]) -> list[Chip]:
        """Return the terms with the address of the list without each; `address` makes a query string."""
        rest = [written((*self.terms[:index], *self.terms[index + 1 :])) for index in range(len(self.terms))]
        return [
            Chip(str(term), address({SEARCH_VAR: text or None})) for term, text in zip(self.terms, rest, strict=True)
        ]

    def times(self, key: str) -> list[datetime]:
        """Return the times that `after` or `before` name."""
        return [instant_of_term(term, self.meaning) for term in self.terms if term.key == key and not term.negated]

    def _timed(self, term: Term) -> Term:
        if term.key not in ("after", "before"):
            return term
        return replace(term, value=instant_of_term(term, self.meaning).isoformat(), quoted=False)


def address_of(params: Any) -> Callable[[dict[str, str | None]], str]:
    """Return the function that makes an address of these parameters with others, None for without one; page 1."""

    def address(changes: dict[str, str | None]) -> str:
        kept = params.copy()
        for name, value in {PAGE_VAR: None, **changes}.items():
            kept.pop(name, None)
            if value is not None:
                kept[name] = value
        return f"?{kept.urlencode()}"

    return address
