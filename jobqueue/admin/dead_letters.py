"""Dead letters: grouped by their error, since a hundred jobs that failed alike are one problem, then one by one."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from django.contrib import admin
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.utils.translation import gettext_lazy as _

from jobqueue.models import DeadLetter, Job
from jobqueue.ops.dead_groups import REACH, WINDOWS, DeadGroup, dead_groups
from jobqueue.ops.limited import read_within

from .acting import GROUP_PARAMETERS, VERBS, discard, edit_field, may, retry
from .base import job_link, job_url, number_of, user_of
from .costs import LABELS
from .filters import QueueFilter, TypeFilter
from .group_forms import SPANS, people
from .group_rows import GroupRow, counts_of, group_url
from .groups import GroupsAdmin, chosen_group, list_query
from .windows import DiedSearch
from .wording import EMPTY

if TYPE_CHECKING:
    from django.db.models import QuerySet

LIMIT: Final = timedelta(seconds=2)


@admin.register(DeadLetter)
class DeadLetterAdmin(GroupsAdmin):
    """Jobs that nobody will run again until a person has looked at them, newest first."""

    actions = (retry, edit_field, discard)
    list_display = ("job", "job_type", "queue", "tries", "last_outcome", "error", "finished")
    list_display_links = None
    list_filter = (QueueFilter, TypeFilter)
    ordering = sample_order = ("-finished_at", "-id")
    search_class = DiedSearch
    change_list_template = "admin/jobqueue/deadletter/change_list.html"

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Show the groups of the filtered set above the list."""
        response = super().changelist_view(request, extra_context)
        context = response.context_data if isinstance(response, TemplateResponse) else None
        if context is not None and "cl" in context:
            groups, more = grouped(context["cl"].queryset, context["cl"].params)
            chosen, alone = chosen_group(request.GET), any(name.startswith("fingerprint") for name in request.GET)
            context |= {
                "groups": groups and [row for row in groups if alone or not row.group.muted],
                "muted": [row for row in groups or () if row.group.muted and not alone],
                "more_groups": more,
                "grouped": REACH,
                "windows": [LABELS[name] for name in WINDOWS],
                "one_group": alone,
                "chosen_url": group_url(chosen) if chosen else "",
                "verbs": [(name, VERBS[name]) for name in ("retry", "discard") if may(request, name)],
                "says": [row.group.key for row in groups or () if not row.group.muted],
                "may_note": may(request, "note_group"),
                "people": people() if groups and may(request, "hand_over") else [],
                "spans": [(key, label) for key, (_span, label) in SPANS.items()],
                "me": user_of(request).get_username(),
                "list_query": request.GET.urlencode(),
            }
        return response

    def change_view(self, request: HttpRequest, object_id: str, *args: Any, **kwargs: Any) -> HttpResponse:
        """Go to the job's own page."""
        number = number_of(object_id)
        return HttpResponseRedirect("../" if number is None else job_url(number))

    @admin.display(description=_("job"))
    def job(self, job: Job) -> str:
        """Return a link to the job's page."""
        return job_link(job)

    @admin.display(description=_("last outcome"))
    def last_outcome(self, job: Job) -> str:
        """Return how the last attempt ended."""
        return job.get_outcome_display() or EMPTY


def grouped(rows: QuerySet[Any], params: dict[str, Any]) -> tuple[list[GroupRow] | None, bool]:
    """Return (the largest groups of the newest rows, whether there are more); None for groups that take too long."""
    found = read_within(rows.db, lambda: dead_groups(rows), LIMIT, by_index=True)
    if found is None:
        return None, True
    return [_row(group, params) for group in found.groups], found.more


def _row(group: DeadGroup, params: dict[str, Any]) -> GroupRow:
    kept = {name: value for name, value in params.items() if not name.startswith(GROUP_PARAMETERS)}
    query = urlencode(kept | list_query(group.key), doseq=True)
    return GroupRow(group=group, counts=counts_of(group), query=query)
