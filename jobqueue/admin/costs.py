"""Costs: what attempts cost by type, queue, component or owner, over time, against budgets, and where it was wasted."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final, cast
from urllib.parse import urlencode

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext_lazy
from django.views.decorators.http import require_safe

from jobqueue.conf import get_settings
from jobqueue.models import Cost, Job
from jobqueue.ops.budgets import BudgetState
from jobqueue.ops.cost_page import CostPage, read_costs, read_points, read_table
from jobqueue.ops.costly import CostlyJob, RetryCost
from jobqueue.ops.costs import WINDOWS, CostPoint, CostRow, Part, Period, unit_totals

from .base import ReadOnlyAdmin, job_url, user_of
from .charts import Chart, Value, bar_chart, share_width
from .downloads import csv_response
from .wording import EMPTY, instant, money

LABELS: Final[dict[str, Any]] = {
    "1h": gettext_lazy("1 hour"),
    "24h": gettext_lazy("24 hours"),
    "7d": gettext_lazy("7 days"),
    "30d": gettext_lazy("30 days"),
}
PARTS: Final[dict[str, Any]] = {
    "job_type": gettext_lazy("Type"),
    "queue": gettext_lazy("Queue"),
    "component": gettext_lazy("Component"),
    "owner": gettext_lazy("Owner"),
}
TITLES: Final[dict[str, Any]] = {
    "job_type": gettext_lazy("Costs by type"),
    "queue": gettext_lazy("Costs by queue"),
    "component": gettext_lazy("Costs by component"),
    "owner": gettext_lazy("Costs by owner"),
}
PERIODS: Final[dict[str, Any]] = {
    "hour": gettext_lazy("Hour"),
    "day": gettext_lazy("Day"),
    "month": gettext_lazy("Month"),
}
CHARTS: Final[dict[str, Any]] = {
    "hour": gettext_lazy("%(unit)s by hour, the last 24 hours"),
    "day": gettext_lazy("%(unit)s by day, the last 30 days"),
    "month": gettext_lazy("%(unit)s by month, the last 12 months"),
}
BEGINS: Final = {"hour": "%Y-%m-%d %H:%M", "day": "%Y-%m-%d", "month": "%Y-%m"}
BELOW: Final = {"hour": "%H:%M", "day": "%m-%d", "month": "%Y-%m"}
AT_LIMIT: Final[dict[str, Any]] = {
    "alert": gettext_lazy("an alert is sent"),
    "pause": gettext_lazy("the queue is paused"),
    "refuse": gettext_lazy("enqueues are refused"),
}
WINDOW: Final[dict[str, Any]] = {
    "hour": gettext_lazy("this hour"),
    "day": gettext_lazy("today"),
    "month": gettext_lazy("this month"),
}
NONE: Any = pgettext_lazy("no owner, component or unit", "none")
SHOWN: Final = 100
SHOWN_PARTS: Final = 5
BAR_PIXELS: Final = 240


@admin.register(Cost)
class CostAdmin(ReadOnlyAdmin):
    """One page of sums; the single rows are folded away by maintenance and have no page."""

    view_permission = "jobqueue.view_cost"

    def get_urls(self) -> list[Any]:
        """Return the addresses: there are no rows to add, change or delete."""
        wrap = self.admin_site.admin_view
        return [
            path("", wrap(require_safe(self.changelist_view)), name="jobqueue_cost_changelist"),
            path("costs.csv", wrap(require_safe(self.csv_view)), name="jobqueue_cost_csv"),
        ]

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Show the sums."""
        self._check(request)
        by, per = _chosen(request)
        page = read_costs(by, per, unit=request.GET.get("unit", ""))
        kept = {"by": by, "per": per, "unit": page.unit}
        table = page.table
        context = {
            **self.admin_site.each_context(request),
            "title": TITLES[by],
            "opts": self.opts,
            "media": self.media,
            "zone": timezone.get_default_timezone_name(),
            "part": PARTS[by],
            "period": PERIODS[per],
            "by_links": [_link(label, by == name, kept | {"by": name}) for name, label in PARTS.items()],
            "per_links": [_link(label, per == name, kept | {"per": name}) for name, label in PERIODS.items()],
            "unit_links": [_link(name, name == page.unit, kept | {"unit": name}) for name in page.units]
            if len(page.units) > 1
            else [],
            "windows": [LABELS[name] for name in WINDOWS],
            "slow": table is None,
            "rows": [_shown(row) for row in (table or ())[:SHOWN]],
            "more_rows": max(0, len(table or ()) - SHOWN),
            "totals": [_shown(row) for row in unit_totals(table or ())],
            "chart": _chart(page, per),
            "behind": behind(page, per),
            "unit": page.unit,
            "budgets": None if page.budgets is None else [budget_row(one) for one in page.budgets],
            "costliest": None if page.costliest is None else [_job(one, request) for one in page.costliest],
            "since": _instant(page.starts[0]) if page.starts else EMPTY,
            "retries": None if page.retries is None else [_retry(one) for one in page.retries[:SHOWN]],
            "wasted": _wasted(page),
            "retries_since": _instant(page.retries_since),
            "csv_sums": f"{reverse('admin:jobqueue_cost_csv')}?{urlencode({'of': 'sums', 'by': by})}",
            "csv_series": f"{reverse('admin:jobqueue_cost_csv')}?{urlencode({'of': 'series', 'by': by, 'per': per})}",
            **(extra_context or {}),
        }
        return TemplateResponse(request, "admin/jobqueue/cost/page.html", context)

    def csv_view(self, request: HttpRequest) -> HttpResponse:
        """Send the sums, or the figures of the chart by part and in all units, as a file."""
        self._check(request)
        by, per = _chosen(request)
        rows: list[tuple[Any, ...]] | None
        header: tuple[str, ...]
        if request.GET.get("of") == "series":
            points = read_points(by, per)
            rows = None if points is None else [(_iso(one.at), one.key[0], one.unit, one.amount) for one in points]
            header, name = ("begins", by, "unit", "amount"), f"costs-by-{by}-and-{per}.csv"
        else:
            table = read_table(by)
            rows = None if table is None else [(row.key, row.unit, *row.amounts) for row in table]
            header, name = (by, "unit", *WINDOWS), f"costs-by-{by}.csv"
        if rows is None:
            messages.warning(
                request,
                _("The file would be too long, or takes too long: choose a shorter time or other parts."),
            )
            url = f"{reverse('admin:jobqueue_cost_changelist')}?{urlencode({'by': by, 'per': per})}"
            return HttpResponseRedirect(url)
        return csv_response(name, header, [[_exact(cell) for cell in row] for row in rows])

    def _check(self, request: HttpRequest) -> None:
        if not self.has_view_permission(request):
            raise PermissionDenied


def _chosen(request: HttpRequest) -> tuple[Part, Period]:
    """Return what the address asks for; what is not offered is the default."""
    by, per = request.GET.get("by", ""), request.GET.get("per", "")
    return cast("Part", by if by in PARTS else "job_type"), cast("Period", per if per in PERIODS else "day")


def _link(label: Any, chosen: bool, query: dict[str, str]) -> dict[str, Any]:
    return {"label": label, "chosen": chosen, "query": urlencode(query)}


def _shown(row: CostRow) -> tuple[Any, str, list[str]]:
    return row.key or NONE, row.unit, [money(amount) for amount in row.amounts]


def _chart(page: CostPage, per: Period) -> Chart | None:
    """Return the chart of the totals; None where they could not be read."""
    if page.totals is None:
        return None
    values = [
        Value(f"{start:{BELOW[per]}}", f"{start:{BEGINS[per]}}: {money(amount)} {page.unit}", amount)
        for start in page.starts
        for amount in [page.totals.get(start.astimezone(UTC), Decimal(0))]
    ]
    highest = max(values, key=lambda value: value.amount)
    total = sum((value.amount for value in values), Decimal(0))
    text = _("%(total)s %(unit)s in all. Most: %(highest)s. The figures are in the table below.")
    return bar_chart(
        "jobqueue-costs",
        title=str(CHARTS[per]) % {"unit": page.unit},
        description=text % {"total": money(total), "unit": page.unit, "highest": highest.text},
        values=values,
    )


def behind(page: CostPage, per: Period) -> dict[str, Any] | None:
    """Return the table behind the chart, the present period first: the dearest parts, all others, the total."""
    if page.totals is None:
        return None
    parts = _dearest(page.points or ())
    amounts: dict[tuple[datetime, str], Decimal] = {
        (point.at.astimezone(UTC), point.key[0]): point.amount for point in page.points or ()
    }
    others = len({point.key[0] for point in page.points or ()}) > len(parts)
    rows = []
    for start in reversed(page.starts):
        at = start.astimezone(UTC)
        total = page.totals.get(at, Decimal(0))
        cells = [amounts.get((at, part), Decimal(0)) for part in parts]
        rest = [total - sum(cells, Decimal(0))] if others else []
        rows.append((f"{start:{BEGINS[per]}}", [money(cell) for cell in [*cells, *rest, total]]))
    heads = [part or NONE for part in parts] + ([_("others")] if others else [])
    return {"heads": heads, "rows": rows, "slow": page.points is None}


def _dearest(points: Sequence[CostPoint]) -> list[str]:
    sums: dict[str, Decimal] = {}
    for point in points:
        sums[point.key[0]] = sums.get(point.key[0], Decimal(0)) + point.amount
    return sorted(sums, key=lambda part: (-sums[part], part))[:SHOWN_PARTS]


def budget_row(one: BudgetState) -> dict[str, Any]:
    """Return a budget as pages show it."""
    of = [words % {"name": name} for name, words in _covered(one) if name]
    if one.level >= 100:
        state = _("spent: %(then)s") % {"then": AT_LIMIT.get(one.at_limit, one.at_limit)}
    elif one.level >= 80:
        state = _("more than 80 % is spent")
    else:
        state = _("within the budget")
    return {
        "name": one.name,
        "of": ", ".join(of) or _("all jobs"),
        "spent": money(one.spent),
        "amount": money(one.amount),
        "unit": one.unit,
        "share": f"{one.share:.0%}",
        "state": state,
        "level": one.level,
        "window": WINDOW.get(one.per, one.per),
        "until": _instant(one.window_end),
        "bar": share_width(one.share, BAR_PIXELS),
    }


def _covered(one: BudgetState) -> list[tuple[str | None, str]]:
    return [(one.job_type, _("type %(name)s")), (one.queue, _("queue %(name)s"))]


def _job(one: CostlyJob, request: HttpRequest) -> dict[str, Any]:
    return {
        "id": str(one.id),
        "url": job_url(one.id) if user_of(request).has_perm("jobqueue.view_job") else "",
        "job_type": one.job_type,
        "queue": one.queue,
        "owner": one.owner or EMPTY,
        "status": Job(status=one.status).get_status_display(),
        "attempts": one.attempts,
        "total": money(one.cost_total),
        "at": _instant(one.at),
    }


def _retry(one: RetryCost) -> dict[str, Any]:
    bar = share_width(float(one.share), 80)
    return {
        "job_type": one.job_type,
        "spent": money(one.spent),
        "failed": money(one.failed),
        "share": f"{one.share:.1%}",
        "bar": bar,
    }


def _wasted(page: CostPage) -> str:
    """Return how much of all costs the attempts had that did not end well; nothing where that is unknown."""
    if not page.retries or not page.retries_of or page.retries_of <= 0:
        return ""
    failed = sum((one.failed for one in page.retries), Decimal(0))
    words = _("%(failed)s of %(all)s %(unit)s: %(share)s")
    share = min(Decimal(1), max(Decimal(0), failed / page.retries_of))
    unit = get_settings().COST_UNITS[0]
    return words % {"failed": money(failed), "all": money(page.retries_of), "unit": unit, "share": f"{share:.1%}"}


def _instant(value: datetime | None) -> str:
    """Return a time in the zone that the periods are cut in, whatever zone the visitor has."""
    return instant(value, timezone.get_default_timezone())


def _iso(at: datetime) -> str:
    return at.isoformat()


def _exact(cell: Any) -> Any:
    # Never 1E-7: a number is read back as it was. It stays a number, so a refund gets no apostrophe.
    return _Number(f"{cell:f}") if isinstance(cell, Decimal) else cell


class _Number(Decimal):
    """A Decimal that is written without an exponent."""

    def __str__(self) -> str:
        return f"{self:f}"
