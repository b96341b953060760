"""Dead letters: grouped by their error, since a hundred jobs that failed alike are one problem, then one by one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from django.contrib import admin
from django.db.models.functions import Left
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.utils.translation import gettext_lazy as _

from jobqueue.models import DeadLetter, Job
from jobqueue.ops.limited import read_within
from jobqueue.states import Status

from .acting import COUNT_LIMIT, VERBS, discard, may, retry
from .base import job_link, job_url
from .filters import QueueFilter, TypeFilter
from .lists import JobListAdmin
from .wording import EMPTY, ERROR_CHARACTERS, instant, shortened

if TYPE_CHECKING:
    from django.db.models import QuerySet

#: Groups are made of the newest dead letters, so many of them at most.
GROUPED: Final = 20_000
SHOWN: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Dead letters with one fingerprint."""

    jobs: int
    error_class: str
    job_types: list[str]
    first_died: str
    last_died: str
    newest: int
    query: str
    message: str

    @property
    def newest_url(self) -> str:
        """Return the address of the newest job of the group."""
        return job_url(self.newest)


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
                "grouped": GROUPED,
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


def grouped(rows: QuerySet[Any], params: dict[str, Any]) -> tuple[list[Group] | None, bool]:
    """Return (the largest groups of the newest rows, whether there are more); None for groups that take too long."""
    newest = rows.order_by("-finished_at", "-pk").values_list("fingerprint", "pk", "job_type", "finished_at")[:GROUPED]
    found = read_within(rows.db, lambda: list(newest), COUNT_LIMIT)
    if found is None:
        return None, True
    members: dict[str | None, list[tuple[Any, ...]]] = {}
    for fingerprint, *rest in found:
        members.setdefault(fingerprint, []).append(tuple(rest))
    largest = sorted(members.items(), key=lambda item: -len(item[1]))[:SHOWN]
    heads = _heads([group[0][0] for _fingerprint, group in largest], rows.db)
    made = [_group(fingerprint, group, heads, params) for fingerprint, group in largest]
    return made, len(members) > SHOWN or len(found) == GROUPED


def _heads(ids: list[int], using: str) -> dict[int, tuple[str, str]]:
    rows = Job.objects.using(using).filter(pk__in=ids).annotate(head=Left("last_error", ERROR_CHARACTERS + 1))
    return {row[0]: (row[1] or EMPTY, shortened(row[2])) for row in rows.values_list("pk", "error_class", "head")}


def _group(
    fingerprint: str | None,
    members: list[tuple[Any, ...]],
    heads: dict[int, tuple[str, str]],
    params: dict[str, Any],
) -> Group:
    """Make a group of its (id, type, finished_at), newest first."""
    kept = {name: value for name, value in params.items() if not name.startswith("fingerprint")}
    chosen = {"fingerprint__isnull": "True"} if fingerprint is None else {"fingerprint__exact": fingerprint}
    newest, _type, last_at = members[0]
    error_class, message = heads.get(newest, (EMPTY, ""))
    return Group(
        jobs=len(members),
        error_class=error_class,
        job_types=sorted({member[1] for member in members}),
        first_died=instant(members[-1][2]),
        last_died=instant(last_at),
        newest=newest,
        query=urlencode(kept | chosen, doseq=True),
        message=message,
    )
