"""Dead letters: grouped by their error, since a hundred jobs that failed alike are one problem, then one by one."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from django.contrib import admin
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from jobqueue.models import DeadLetter, Job
from jobqueue.ops.dead_groups import REACH, WINDOWS, DeadGroup, DeadGroups, dead_groups
from jobqueue.ops.limited import read_within
from jobqueue.states import Status

from .acting import GROUP_PARAMETERS, VERBS, discard, may, retry
from .base import job_link, job_url
from .filters import QueueFilter, TypeFilter
from .lists import JobListAdmin
from .wording import EMPTY, instant, shortened

if TYPE_CHECKING:
    from django.db.models import QuerySet

LIMIT: Final = timedelta(seconds=2)
MESSAGE_CHARACTERS: Final = 200
#: A trend in words; a number goes with those that tell of a pace.
TRENDS: Final[dict[str, Any]] = {
    "new": _("new"),
    "rising": _("rising"),
    "steady": _("steady"),
    "falling": _("falling"),
    "quiet": _("quiet"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """A group as the page shows it."""

    group: DeadGroup
    counts: list[str]  # one a window, then of all
    query: str

    @property
    def jobs(self) -> int:
        """Return the number of its dead letters, as far as they were read."""
        return self.group.jobs

    @property
    def error_class(self) -> str:
        """Return the class of the error."""
        return self.group.error_class or gettext("No error was kept")

    @property
    def message(self) -> str:
        """Return the head of the normalised message."""
        return shortened(self.group.message, MESSAGE_CHARACTERS)

    @property
    def first_died(self) -> str:
        """Return when the first one died."""
        return instant(self.group.first_at)

    @property
    def last_died(self) -> str:
        """Return when the last one died."""
        return instant(self.group.last_at)

    @property
    def trend(self) -> str:
        """Return the trend in a word."""
        return str(TRENDS[self.group.trend])

    @property
    def pace(self) -> str:
        """Return this hour as a multiple of the day's mean, where that tells something."""
        if self.group.trend not in ("rising", "steady", "falling"):
            return ""
        return gettext("%(times)s times the day's mean") % {"times": f"{self.group.pace:.1f}"}

    @property
    def newest_url(self) -> str:
        """Return the address of the newest job of the group."""
        return job_url(self.group.newest)


@admin.register(DeadLetter)
class DeadLetterAdmin(JobListAdmin):
    """Jobs that nobody will run again until a person has looked at them, newest first."""

    actions = (retry, discard)
    list_display = ("job", "job_type", "queue", "tries", "last_outcome", "error", "finished")
    list_display_links = None
    list_filter = (QueueFilter, TypeFilter)
    ordering = sample_order = ("-finished_at", "-id")
    change_list_template = "admin/jobqueue/deadletter/change_list.html"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the dead letters."""
        return super().get_queryset(request).filter(status=Status.DEAD)

    def searched(self, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Return all of them: the partial index of the dead letters bounds the search."""
        return queryset

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Show the groups of the filtered set above the list."""
        response = super().changelist_view(request, extra_context)
        context = response.context_data if isinstance(response, TemplateResponse) else None
        if context is not None and "cl" in context:
            groups, more = grouped(context["cl"].queryset, context["cl"].params)
            context |= {
                "groups": groups,
                "more_groups": more,
                "grouped": REACH,
                "windows": list(WINDOWS),
                "one_group": any(name.startswith("fingerprint") for name in request.GET),
                "verbs": [(name, VERBS[name]) for name in ("retry", "discard") if may(request, name)],
            }
        return response

    def change_view(self, request: HttpRequest, object_id: str, *args: Any, **kwargs: Any) -> HttpResponse:
        """Go to the job's own page."""
        return HttpResponseRedirect(job_url(int(object_id)) if object_id.isdecimal() else "../")

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
    return [_row(group, found, params) for group in found.groups], found.more


def _row(group: DeadGroup, found: DeadGroups, params: dict[str, Any]) -> GroupRow:
    kept = {name: value for name, value in params.items() if not name.startswith(GROUP_PARAMETERS)}
    none, one = {"fingerprint__isnull": "True"}, {"fingerprint__exact": group.fingerprint}
    chosen = {"job_type__exact": group.job_type, **(none if group.fingerprint is None else one)}
    counts = [_count(group.within[name], exact=found.exact(span)) for name, span in WINDOWS.items()]
    counts.append(_count(group.jobs, exact=found.exact()))
    return GroupRow(group=group, counts=counts, query=urlencode(kept | chosen, doseq=True))


def _count(jobs: int, *, exact: bool) -> str:
    return f"{jobs}" if exact else f"≥ {jobs}"
