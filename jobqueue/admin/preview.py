"""What an action would change, shown before it does: how many jobs, of which types and ages, and at what cost."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from django.db.models import Count, Q
from django.db.models.functions import Coalesce
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from jobqueue.models import Job
from jobqueue.models.expressions import StatementTimestamp
from jobqueue.ops.estimates import Estimate, estimated_costs
from jobqueue.ops.limited import read_within

from .base import user_of
from .paging import COUNT_CAP, count_up_to
from .wording import money

if TYPE_CHECKING:
    from django.db.models import QuerySet

COUNT_LIMIT: Final = timedelta(seconds=2)
COST_LIMIT: Final = timedelta(milliseconds=500)
SHOWN_TYPES: Final = 10
#: How long ago a job ended, or was enqueued where it has not: each column has what is in none before it.
AGES: Final = (
    (_("Last hour"), timedelta(hours=1)),
    (_("1 to 24 hours"), timedelta(hours=24)),
    (_("1 to 7 days"), timedelta(days=7)),
)
OLDER: Final = _("Older")


@dataclass(frozen=True, slots=True)
class TypeRow:
    """The jobs of one type, in all and by age, youngest first."""

    job_type: str
    jobs: int
    ages: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """A set of jobs at one moment; `capped` where there are more than could be counted in time."""

    jobs: int  # 0 of a capped set: not even up to the cap
    capped: bool
    newest: int
    moment: datetime | None  # by the database's clock
    types: list[TypeRow] = field(default_factory=list)
    estimate: Estimate | None = None

    ages = (*(label for label, _span in AGES), OLDER)

    @property
    def unknown(self) -> bool:
        """Whether nobody could count them, not even up to the cap."""
        return self.capped and not self.jobs

    @property
    def shown(self) -> list[TypeRow]:
        """The types with most jobs."""
        return self.types[:SHOWN_TYPES]

    @property
    def more(self) -> int:
        """How many types are not among those."""
        return len(self.types) - len(self.shown)

    @property
    def totals(self) -> list[int]:
        """The jobs of all types by age."""
        return [sum(column) for column in zip(*(row.ages for row in self.types), strict=True)]

    @property
    def cost(self) -> list[str]:
        """The estimated cost, one text a unit."""
        amounts = self.estimate.amounts if self.estimate else {}
        return [f"{money(_rounded(amount))} {unit}" for unit, amount in sorted(amounts.items())]


def preview(request: HttpRequest, queryset: QuerySet[Job], *, costs: bool) -> Preview:
    """Look at a set within limits of time; `costs` estimates what running it costs, for who may see costs."""
    using = queryset.db
    # The set is fixed here: what has a later id, or ends later, is left alone.
    fixed = Job.objects.using(using).annotate(now=StatementTimestamp()).order_by("-pk").values_list("pk", "now").first()
    newest, moment = fixed or (0, None)
    types = read_within(using, lambda: _types(queryset), COUNT_LIMIT)
    if types is None:
        counted = read_within(using, lambda: count_up_to(queryset, COUNT_CAP + 1), COUNT_LIMIT)
        return Preview(jobs=min(counted or 0, COUNT_CAP), capped=True, newest=newest, moment=moment)
    estimate = None
    if costs and user_of(request).has_perm("jobqueue.view_cost"):
        jobs = {row.job_type: row.jobs for row in types}
        estimate = read_within(using, lambda: estimated_costs(jobs, using=using), COST_LIMIT)
    total = sum(row.jobs for row in types)
    return Preview(jobs=total, capped=False, newest=newest, moment=moment, types=types, estimate=estimate)


def _types(queryset: QuerySet[Job]) -> list[TypeRow]:
    """Return the types of the set with their numbers, most jobs first."""
    at, now = Coalesce("finished_at", "created_at"), StatementTimestamp()
    columns: dict[str, Any] = {
        f"age_{index}": Count("pk", filter=Q(_at__gt=now - span)) for index, (_label, span) in enumerate(AGES)
    }
    rows = queryset.order_by().annotate(_at=at).values("job_type").annotate(jobs=Count("pk"), **columns)
    found = [_type_row(*row) for row in rows.values_list("job_type", "jobs", *columns)]
    return sorted(found, key=lambda row: (-row.jobs, row.job_type))


def _type_row(job_type: str, jobs: int, *younger: int) -> TypeRow:
    ends = (0, *younger, jobs)
    return TypeRow(job_type, jobs, tuple(end - start for start, end in pairwise(ends)))


def _rounded(amount: Decimal) -> Decimal:
    """Return an estimate with the digits that it deserves."""
    return amount.quantize(Decimal("0.01") if amount >= 1 else Decimal("0.0001"))
