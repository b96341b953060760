"""Actions on jobs: chosen in a list, shown with their number on a page that asks, carried out by jobqueue.operations.

The page that asks holds the newest id and the time of its moment: jobs that come to match only afterwards are left
alone. "Select all" acts on the filtered set as the database has it, not on the rows of the visible page (case C130), in
steps that the page drives (running.py): it ends in a report however many jobs there are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from django.contrib import admin, messages
from django.contrib.admin import helpers
from django.contrib.admin.views.main import PAGE_VAR
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.template.response import TemplateResponse
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from jobqueue import operations
from jobqueue.models import Job

from .asking import ActForm, set_of
from .base import ReadOnlyAdmin, job_url, number_of, user_of
from .guarding import guarded
from .preview import preview
from .running import Run
from .why_not import why_not
from .wording import span

if TYPE_CHECKING:
    from django.db.models import QuerySet

SHOWN_REFUSALS: Final = 5
#: What a list is filtered by where it shows one group of errors.
GROUP_PARAMETERS: Final = ("fingerprint", "job_type__")
#: With what a search holds its window while an action goes on.
FLOORS: Final = ("id__gte", "finished_at__gte")


class Verb(NamedTuple):
    """One action as people read it."""

    act: Callable[..., operations.Report]
    label: Any
    question: Any
    done: Callable[[int], str]
    danger: bool = False
    #: Makes the arguments of `act` from what a run keeps for it (Run.more).
    arguments: Callable[[dict[str, Any]], dict[str, Any]] = dict


def _retried(jobs: int) -> str:
    return ngettext("%d job was put back.", "%d jobs were put back.", jobs) % jobs


def _discarded(jobs: int) -> str:
    return ngettext("%d dead letter was discarded.", "%d dead letters were discarded.", jobs) % jobs


def _edited(jobs: int) -> str:
    return ngettext("%d job was edited.", "%d jobs were edited.", jobs) % jobs


def _edit_arguments(more: dict[str, Any]) -> dict[str, Any]:
    return more | {"edit": operations.FieldEdit.from_json(more["edit"])}


def _cancelled(jobs: int) -> str:
    return ngettext("%d job was cancelled.", "%d jobs were cancelled.", jobs) % jobs


def _marked_dead(jobs: int) -> str:
    return ngettext("%d job was marked dead.", "%d jobs were marked dead.", jobs) % jobs


def _released(jobs: int) -> str:
    return ngettext("%d job was given back.", "%d jobs were given back.", jobs) % jobs


VERBS: Final[dict[str, Verb]] = {
    "retry": Verb(operations.retry, _("Retry"), _("Put these dead letters back, with a fresh budget?"), _retried),
    "discard": Verb(
        operations.discard, _("Discard"), _("Discard these dead letters for good?"), _discarded, danger=True
    ),
    "cancel": Verb(operations.cancel, _("Cancel"), _("Cancel these jobs?"), _cancelled, danger=True),
    "release": Verb(operations.release, _("Release"), _("Give these stuck jobs back to the queue?"), _released),
    "mark_dead": Verb(
        operations.mark_dead, _("Mark dead"), _("Make dead letters of these stuck jobs?"), _marked_dead, danger=True
    ),
}
#: Of these one is only taken on sets: it has to be told more than a button can.
SET_VERBS: Final[dict[str, Verb]] = VERBS | {
    "edit_field": Verb(
        operations.edit_field,
        _("Edit a field"),
        _("Change one field in the payloads of these dead letters?"),
        _edited,
        arguments=_edit_arguments,
    ),
}


class ActingAdmin(ReadOnlyAdmin):
    """A list of jobs that people act on."""

    verbs: tuple[str, ...] = ()

    def has_retry_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Tell whether the user may put dead letters back."""
        return may(request, "retry")

    def has_discard_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Tell whether the user may discard dead letters."""
        return may(request, "discard")

    def has_edit_field_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Tell whether the user may edit a field of many payloads, and put them back."""
        return may(request, "edit_field") and may(request, "retry")

    def has_cancel_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Tell whether the user may cancel jobs."""
        return may(request, "cancel")

    def has_release_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Tell whether the user may give stuck jobs back."""
        return may(request, "release")

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Show the list; refuse an action that the user may not take, instead of quietly not taking it."""
        if request.method == "POST":
            for name in {name for name in request.POST.getlist("action") if name in SET_VERBS}:
                operations.check_permission(user_of(request), name)
        return super().changelist_view(request, extra_context)

    def take(self, request: HttpRequest, name: str, queryset: QuerySet[Job]) -> HttpResponse | None:
        """Act, after asking where a whole set or something final is at stake; None goes back to the list."""
        operations.check_permission(user_of(request), name)
        if "run" in request.POST:
            run = Run.read(request.POST["run"], verb=name, user=str(user_of(request).pk))
            if run is None:
                messages.error(
                    request, _("That page was out of date: nothing more was done. The audit tells what was.")
                )
                return back_to_list(request)
            return self.go_on(request, run, queryset)
        options: dict[str, Any] = {}
        if "confirmed" in request.POST:
            form = ActForm(name, request.POST, across=is_across(request))
            if not form.is_valid():
                return self.ask(request, name, queryset, None if form.is_outdated else form)
            if is_across(request):
                run = form.run(name, user_of(request))
                run.more = self.told(request, name)
                return self.go_on(request, run, queryset)
            options = form.options()
        elif SET_VERBS[name].danger or is_across(request):
            return self.ask(request, name, queryset, None)
        # Of rows that were ticked each is answered for, even if it has left the list meanwhile.
        tell(request, name, self.act_of(request, name)(ticked(request), actor=user_of(request), **options))
        return back_to_list(request)

    def act_of(self, request: HttpRequest, name: str, *, listed: bool = False) -> Callable[..., operations.Report]:
        """Return the operation, held to what this admin shows to the user and allows; see guarding.py."""
        return guarded(self, request, name, SET_VERBS[name].act, listed=listed)

    def told(self, request: HttpRequest, name: str) -> dict[str, Any]:
        """Return what else a run on the whole set is to be told; see Run.more."""
        return {}

    def go_on(self, request: HttpRequest, run: Run, queryset: QuerySet[Job]) -> HttpResponse:
        """Do a step of a run; show how far it has come, or its report. What one step can do is told in the list."""
        if "stop" in request.POST:
            run.stopped = True
        else:
            verb = SET_VERBS[run.verb]
            act = self.act_of(request, run.verb, listed=True)
            run.step(queryset, partial(act, **verb.arguments(run.more)), actor=user_of(request))
        if run.finished and run.steps == 1:
            _say(request, run.verb, run.changed, run.refusals, run.some)
            return back_to_list(request)
        verb = SET_VERBS[run.verb]
        context = {
            **self.admin_site.each_context(request),
            "title": _title(run, verb),
            "opts": self.opts,
            "media": self.media,
            "verb": verb,
            "run": run,
            "done": verb.done(run.changed),
            "work": span(run.work_seconds),
            "address": f"?{query_of(request)}",
            "list_address": list_address(request),
            "selected": request.POST.getlist(helpers.ACTION_CHECKBOX_NAME)[:1],
            "checkbox": helpers.ACTION_CHECKBOX_NAME,
            "refusals": [(why_not(why), jobs) for why, jobs in sorted(run.refused.items(), key=lambda item: -item[1])],
            "sample": [(job_url(job_id), job_id, why_not(why)) for job_id, why in run.some],
            "audit": user_of(request).has_perm("jobqueue.view_audit"),
        }
        return TemplateResponse(request, "admin/jobqueue/run.html", context)

    def ask(self, request: HttpRequest, name: str, queryset: QuerySet[Job], form: ActForm | None) -> HttpResponse:
        """Show how many jobs of which types and ages would change, and at what cost, before any does."""
        seen = preview(request, queryset, costs=name == "retry")
        across = is_across(request)
        context = {
            **self.admin_site.each_context(request),
            "title": SET_VERBS[name].label,
            "opts": self.opts,
            "media": self.media,
            "verb": SET_VERBS[name],
            "name": name,
            "form": ActForm(name, initial=set_of(seen), across=across) if form is None else form,
            "preview": seen,
            "across": across,
            "address": f"?{query_of(request)}",
            "list_address": list_address(request),
            # With all selected one id stands for the set: Django asks for one, and reads the set from the filters.
            "selected": request.POST.getlist(helpers.ACTION_CHECKBOX_NAME)[: 1 if across else None],
            "checkbox": helpers.ACTION_CHECKBOX_NAME,
        }
        return TemplateResponse(request, "admin/jobqueue/confirm_action.html", context)


def is_across(request: HttpRequest) -> bool:
    """Tell whether the action is on all that match, not on the rows that were ticked."""
    return request.POST.get("select_across") == "1"


def ticked(request: HttpRequest) -> list[int]:
    """Return the ids of the rows that were ticked."""
    numbers = map(number_of, request.POST.getlist(helpers.ACTION_CHECKBOX_NAME))
    return [number for number in numbers if number is not None]


def back_to_list(request: HttpRequest) -> HttpResponse:
    """Go back to the list."""
    return HttpResponseRedirect(list_address(request))


def list_address(request: HttpRequest) -> str:
    """Return the address of the list as it was filtered, but not of a group of errors that is dealt with."""
    without = GROUP_PARAMETERS if "fingerprint" in request.META["QUERY_STRING"] else ()
    rest = _kept(request, (*without, *FLOORS)).urlencode()
    return f"{request.path}?{rest}" if rest else request.path


def query_of(request: HttpRequest) -> str:
    """Return the filters of a list with its search as of this moment: what a run takes does not move with the clock."""
    rest = _kept(request, ())
    for search in request.__dict__.get("_jobqueue_searches", {}).values():
        search.fix(rest)
    return rest.urlencode()


def _kept(request: HttpRequest, without: tuple[str, ...]) -> QueryDict:
    """Return the filters; not the page, which may have no rows left after the first step."""
    rest = request.GET.copy()
    for key in [key for key in rest if key == PAGE_VAR or key.startswith(without)]:
        del rest[key]
    return rest


def _title(run: Run, verb: Verb) -> str:
    if run.stopped:
        return gettext("%(action)s: stopped") % {"action": verb.label}
    if run.finished:
        return gettext("%(action)s: report") % {"action": verb.label}
    if run.percent is None:
        return gettext("%(action)s: under way") % {"action": verb.label}
    return gettext("%(action)s: %(percent)d %% done") % {"action": verb.label, "percent": run.percent}


def may(request: HttpRequest, name: str) -> bool:
    """Tell whether the user has the permission of an action."""
    return user_of(request).has_perm(operations.PERMISSIONS[name])


def tell(request: HttpRequest, name: str, report: operations.Report) -> None:
    """Say how many jobs changed, and why others did not."""
    _say(request, name, len(report.changed), len(report.refused), sorted(report.refused.items()))


def _say(request: HttpRequest, name: str, changed: int, refused: int, reasons: Sequence[Sequence[Any]]) -> None:
    if changed or not refused:
        messages.success(request, SET_VERBS[name].done(changed))
    if refused:
        some = "; ".join(f"#{job_id} {why_not(why)}" for job_id, why in reasons[:SHOWN_REFUSALS])
        more = "; …" if refused > SHOWN_REFUSALS else ""
        said = ngettext("%d job was refused:", "%d jobs were refused:", refused) % refused
        messages.warning(request, f"{said} {some}{more}")


@admin.action(description=_("Retry selected jobs"), permissions=["retry"])
def retry(modeladmin: ActingAdmin, request: HttpRequest, queryset: QuerySet[Job]) -> HttpResponse | None:
    """Put dead letters back."""
    return modeladmin.take(request, "retry", queryset)


@admin.action(description=_("Discard selected jobs"), permissions=["discard"])
def discard(modeladmin: ActingAdmin, request: HttpRequest, queryset: QuerySet[Job]) -> HttpResponse | None:
    """Discard dead letters."""
    return modeladmin.take(request, "discard", queryset)


@admin.action(description=_("Edit a field of selected jobs"), permissions=["edit_field"])
def edit_field(modeladmin: ActingAdmin, request: HttpRequest, queryset: QuerySet[Job]) -> HttpResponse | None:
    """Change one field in the payloads of dead letters."""
    return modeladmin.take(request, "edit_field", queryset)


@admin.action(description=_("Cancel selected jobs"), permissions=["cancel"])
def cancel(modeladmin: ActingAdmin, request: HttpRequest, queryset: QuerySet[Job]) -> HttpResponse | None:
    """Cancel jobs."""
    return modeladmin.take(request, "cancel", queryset)


@admin.action(description=_("Release selected stuck jobs"), permissions=["release"])
def release(modeladmin: ActingAdmin, request: HttpRequest, queryset: QuerySet[Job]) -> HttpResponse | None:
    """Give stuck jobs back."""
    return modeladmin.take(request, "release", queryset)
