"""Actions: who did what to which jobs, and why. Kept when the jobs are pruned."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from django.contrib import admin
from django.db.models import Func, IntegerField, Q
from django.http import HttpRequest
from django.utils.html import format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from jobqueue.models import Action
from jobqueue.redaction import mask_json

from .base import LARGEST_ID, ReadOnlyAdmin, job_url, text_block
from .wording import EMPTY, instant_of

if TYPE_CHECKING:
    from django.db.models import QuerySet

SHOWN: Final = 200


@admin.register(Action)
class ActionAdmin(ReadOnlyAdmin):
    """What people did, newest first."""

    view_permission = "jobqueue.view_audit"
    list_display = ("time", "actor", "action", "jobs", "subject", "reason")
    fields = ("time", "actor", "action", "reason", "subject", "jobs", "targets", "details")
    readonly_fields = fields
    time = instant_of("at", _("time"))
    ordering = ("-id",)
    search_fields = ("actor",)
    search_help_text = _(
        "A number finds what was done to that job; other text is looked for in the names of who did it."
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the actions with the number of their jobs, not the thousands of ids."""
        jobs = Func("job_ids", function="cardinality", output_field=IntegerField())
        rows: QuerySet[Any] = super().get_queryset(request).defer("job_ids", "detail").annotate(number=jobs)
        return rows

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Find by a job's id or by a name."""
        term = search_term.strip().removeprefix("#").replace("\x00", "")
        if term.isascii() and term.isdecimal():
            return queryset.filter(job_ids__contains=[min(int(term), LARGEST_ID)]), False
        return queryset.filter(Q(actor__icontains=term) if term else Q()), False

    @admin.display(description=_("number of jobs"))
    def jobs(self, action: Any) -> int:
        """Return how many jobs it changed."""
        return int(action.number)

    @admin.display(description=_("jobs"))
    def targets(self, action: Action) -> str:
        """Return links to the jobs."""
        links = format_html_join(", ", '<a href="{}">{}</a>', ((job_url(pk), pk) for pk in action.job_ids[:SHOWN]))
        return links + (", …" if len(action.job_ids) > SHOWN else "")

    @admin.display(description=_("detail"))
    def details(self, action: Action) -> SafeString | str:
        """Return what else is kept of it, the payloads of an edit for example, its secrets hidden."""
        if action.detail is None:
            return EMPTY
        return text_block(_("detail"), json.dumps(mask_json(action.detail), indent=4, ensure_ascii=False))
