"""Actions on jobs: chosen in a list, shown with their number on a page that asks, carried out by jobqueue.operations.

The page that asks holds the newest id of its moment: jobs that come to match only afterwards are left alone. "Select
all" acts on the filtered set as the database has it, not on the rows of the visible page (case C130).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from django import forms
from django.contrib import admin, messages
from django.contrib.admin import helpers
from django.db.models import Count
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from jobqueue import operations
from jobqueue.models import Job
from jobqueue.ops.limited import read_within

from .base import ReadOnlyAdmin, user_of
from .paging import COUNT_CAP, count_up_to

if TYPE_CHECKING:
    from django.db.models import QuerySet

COUNT_LIMIT: Final = timedelta(seconds=2)
SHOWN_REFUSALS: Final = 5
SHOWN_TYPES: Final = 10
LONGEST_SPREAD_SECONDS: Final = 7 * 86_400


class Verb(NamedTuple):
    """One action as people read it."""

    act: Callable[..., operations.Report]
    label: Any
    question: Any
    done: Callable[[int], str]
    danger: bool = False


def _retried(jobs: int) -> str:
    return ngettext("%d job was put back.", "%d jobs were put back.", jobs) % jobs


def _discarded(jobs: int) -> str:
    return ngettext("%d dead letter was discarded.", "%d dead letters were discarded.", jobs) % jobs


def _cancelled(jobs: int) -> str:
    return ngettext("%d job was cancelled.", "%d jobs were cancelled.", jobs) % jobs


def _released(jobs: int) -> str:
    return ngettext("%d job was given back.", "%d jobs were given back.", jobs) % jobs


VERBS: Final[dict[str, Verb]] = {
    "retry": Verb(operations.retry, _("Retry"), _("Put these dead letters back, with a fresh budget?"), _retried),
    "discard": Verb(
        operations.discard, _("Discard"), _("Discard these dead letters for good?"), _discarded, danger=True
    ),
    "cancel": Verb(operations.cancel, _("Cancel"), _("Cancel these jobs?"), _cancelled, danger=True),
    "release": Verb(operations.release, _("Release"), _("Give these stuck jobs back to the queue?"), _released),
}


class ActForm(forms.Form):
    """What a person may say about an action."""

    newest = forms.IntegerField(widget=forms.HiddenInput, min_value=0)
    reason = forms.CharField(
        label=_("Reason"), required=False, max_length=operations.REASON_CHARACTERS, help_text=_("Kept with the action.")
    )
    spread_seconds = forms.IntegerField(
        label=_("Spread over (seconds)"),
        required=False,
        min_value=0,
        max_value=LONGEST_SPREAD_SECONDS,
        help_text=_("The jobs become due at random within this time, so that they do not come back all at once."),
    )

    def __init__(self, verb: str, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if verb != "retry":
            del self.fields["spread_seconds"]

    def options(self) -> dict[str, Any]:
        """Return the arguments for the operation."""
        options: dict[str, Any] = {"reason": self.cleaned_data["reason"]}
        seconds = self.cleaned_data.get("spread_seconds")
        return options if seconds is None else options | {"spread": timedelta(seconds=seconds)}


class ActingAdmin(ReadOnlyAdmin):
    """A list of jobs that people act on."""

    verbs: tuple[str, ...] = ()

    def has_retry_permission(self, request: HttpRequest) -> bool:
        """Tell whether the user may put dead letters back."""
        return may(request, "retry")

    def has_discard_permission(self, request: HttpRequest) -> bool:
        """Tell whether the user may discard dead letters."""
        return may(request, "discard")

    def has_cancel_permission(self, request: HttpRequest) -> bool:
        """Tell whether the user may cancel jobs."""
        return may(request, "cancel")

    def has_release_permission(self, request: HttpRequest) -> bool:
        """Tell whether the user may give stuck jobs back."""
        return may(request, "release")

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Show the list; refuse an action that the user may not take, instead of quietly not taking it."""
        if request.method == "POST":
            for name in {name for name in request.POST.getlist("action") if name in VERBS}:
                operations.check_permission(user_of(request), name)
        return super().changelist_view(request, extra_context)

    def take(self, request: HttpRequest, name: str, queryset: QuerySet[Job]) -> HttpResponse | None:
        """Act, after asking where a whole set or something final is at stake; None goes back to the list."""
        operations.check_permission(user_of(request), name)
        options: dict[str, Any] = {}
        if "confirmed" in request.POST:
            form = ActForm(name, request.POST)
            if not form.is_valid():
                return self.ask(request, name, queryset, form)
            queryset, options = queryset.filter(pk__lte=form.cleaned_data["newest"]), form.options()
        elif VERBS[name].danger or _is_across(request):
            return self.ask(request, name, queryset, None)
        # Of rows that were ticked each is answered for, even if it has left the list meanwhile.
        targets = queryset if _is_across(request) else _ticked(request)
        tell(request, name, VERBS[name].act(targets, actor=user_of(request), **options))
        return _back_to_list(request)

    def ask(self, request: HttpRequest, name: str, queryset: QuerySet[Job], form: ActForm | None) -> HttpResponse:
        """Show how many jobs of which types would change, before any does."""
        types, jobs, capped = _counted(queryset)
        newest = Job.objects.using(queryset.db).order_by("-pk").values_list("pk", flat=True).first() or 0
        initial = {"newest": newest, "spread_seconds": int(operations.default_spread(jobs).total_seconds())}
        across = _is_across(request)
        context = {
            **self.admin_site.each_context(request),
            "title": VERBS[name].label,
            "opts": self.opts,
            "media": self.media,
            "verb": VERBS[name],
            "name": name,
            "form": ActForm(name, initial=initial) if form is None else form,
            "jobs": jobs,
            "capped": capped,
            "types": types[:SHOWN_TYPES],
            "more_types": len(types) > SHOWN_TYPES,
            "across": across,
            # With all selected one id stands for the set: Django asks for one, and reads the set from the filters.
            "selected": request.POST.getlist(helpers.ACTION_CHECKBOX_NAME)[: 1 if across else None],
            "checkbox": helpers.ACTION_CHECKBOX_NAME,
        }
        return TemplateResponse(request, "admin/jobqueue/confirm_action.html", context)


def _is_across(request: HttpRequest) -> bool:
    return request.POST.get("select_across") == "1"


def _ticked(request: HttpRequest) -> list[int]:
    return [int(value) for value in request.POST.getlist(helpers.ACTION_CHECKBOX_NAME) if value.isdecimal()]


def _back_to_list(request: HttpRequest) -> HttpResponse:
    """Return to the list as it was filtered, but not to a group of errors that is dealt with."""
    rest = request.GET.copy()
    for key in [key for key in rest if key.startswith("fingerprint")]:
        del rest[key]
    return HttpResponseRedirect(f"{request.path}?{rest.urlencode()}" if rest else request.path)


def may(request: HttpRequest, name: str) -> bool:
    """Tell whether the user has the permission of an action."""
    return user_of(request).has_perm(operations.PERMISSIONS[name])


def _counted(queryset: QuerySet[Job]) -> tuple[list[tuple[str, int]], int, bool]:
    """Return ([(type, jobs)], jobs in all, whether there are more), within a limit on time."""
    groups = queryset.order_by().values_list("job_type").annotate(jobs=Count("pk")).order_by("-jobs", "job_type")
    types = read_within(queryset.db, lambda: list(groups), COUNT_LIMIT)
    if types is not None:
        return types, sum(jobs for _type, jobs in types), False
    counted = read_within(queryset.db, lambda: count_up_to(queryset, COUNT_CAP + 1), COUNT_LIMIT)
    return [], min(counted or 0, COUNT_CAP), True


def tell(request: HttpRequest, name: str, report: operations.Report) -> None:
    """Say how many jobs changed, and why others did not."""
    if report.changed or not report.refused:
        messages.success(request, VERBS[name].done(len(report.changed)))
    if report.refused:
        some = "; ".join(f"#{job_id} {why}" for job_id, why in sorted(report.refused.items())[:SHOWN_REFUSALS])
        more = "; …" if len(report.refused) > SHOWN_REFUSALS else ""
        refused = ngettext("%d job was refused:", "%d jobs were refused:", len(report.refused)) % len(report.refused)
        messages.warning(request, f"{refused} {some}{more}")


@admin.action(description=_("Retry selected jobs"), permissions=["retry"])
def retry(modeladmin: ActingAdmin, request: HttpRequest, queryset: QuerySet[Job]) -> HttpResponse | None:
    """Put dead letters back."""
    return modeladmin.take(request, "retry", queryset)


@admin.action(description=_("Discard selected jobs"), permissions=["discard"])
def discard(modeladmin: ActingAdmin, request: HttpRequest, queryset: QuerySet[Job]) -> HttpResponse | None:
    """Discard dead letters."""
    return modeladmin.take(request, "discard", queryset)


@admin.action(description=_("Cancel selected jobs"), permissions=["cancel"])
def cancel(modeladmin: ActingAdmin, request: HttpRequest, queryset: QuerySet[Job]) -> HttpResponse | None:
    """Cancel jobs."""
    return modeladmin.take(request, "cancel", queryset)


@admin.action(description=_("Release selected stuck jobs"), permissions=["release"])
def release(modeladmin: ActingAdmin, request: HttpRequest, queryset: QuerySet[Job]) -> HttpResponse | None:
    """Give stuck jobs back."""
    return modeladmin.take(request, "release", queryset)
