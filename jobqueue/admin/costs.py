"""Costs: what the attempts of each type cost, in each unit, over an hour to thirty days."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import path
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe

from jobqueue.models import Cost
from jobqueue.ops.costs import WINDOWS, CostRow, cost_table, unit_totals

from .base import ReadOnlyAdmin
from .wording import money

LABELS = {"1h": _("1 hour"), "24h": _("24 hours"), "7d": _("7 days"), "30d": _("30 days")}


@admin.register(Cost)
class CostAdmin(ReadOnlyAdmin):
    """One page of sums; the single rows are folded away by maintenance and have no page."""

    view_permission = "jobqueue.view_costs"

    def get_urls(self) -> list[Any]:
        """Return the one address: there are no rows to add, change or delete."""
        view = self.admin_site.admin_view(require_safe(self.changelist_view))
        return [path("", view, name="jobqueue_cost_changelist")]

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Show the sums."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        table = cost_table(list(WINDOWS.values()))
        context = {
            **self.admin_site.each_context(request),
            "title": _("Costs by type"),
            "opts": self.opts,
            "media": self.media,
            "windows": [LABELS[name] for name in WINDOWS],
            "rows": [_shown(row) for row in table],
            "totals": [_shown(row) for row in unit_totals(table)],
            **(extra_context or {}),
        }
        return TemplateResponse(request, "admin/jobqueue/cost/sums.html", context)


def _shown(row: CostRow) -> tuple[str, str, list[str]]:
    return row.job_type, row.unit, [money(amount) for amount in row.amounts]
