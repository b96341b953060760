"""The page of one group of dead letters, and what people say of groups: whose, what is known, muted."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db.models import Case, TextField, When
from django.db.models.functions import Cast, Left
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_GET, require_POST

from jobqueue import operations
from jobqueue.models import Attempt, GroupNote, Job
from jobqueue.ops.dead_group import GroupFigures, group_actions, group_figures, worker_versions
from jobqueue.ops.dead_groups import REACH
from jobqueue.ops.limited import read_within
from jobqueue.redaction import mask_text
from jobqueue.states import Status

from .acting import SET_VERBS, may
from .audit_words import action_label
from .base import job_url, user_of
from .charts import Chart, Value, bar_chart
from .detail import shorten
from .field_editing import FieldEditingAdmin
from .group_forms import SPANS, HandOverForm, MuteForm, NoteForm, people
from .group_rows import GroupRow, counts_of, group_url
from .history import ERROR_CHARACTERS, TRACEBACK_CHARACTERS
from .shapes import shape
from .wording import instant

if TYPE_CHECKING:
    from django import forms
    from django.db.models import QuerySet

LIMIT: Final = timedelta(seconds=2)
#: Each part of a page besides its figures.
PART: Final = timedelta(milliseconds=400)
SHAPED_BYTES: Final = 65_536
OPERATIONS: Final = {"hand_over": "hand_over", "note": "note_group", "mute": "mute_group", "unmute": "mute_group"}
OFFERED: Final = ("retry", "edit_field", "discard")
FORMS: Final[dict[str, type[forms.Form]]] = {"hand_over": HandOverForm, "note": NoteForm, "mute": MuteForm}


def chosen_group(params: Any) -> operations.Group | None:
    """Return the group that the parameters of a list choose, None where they choose none."""
    job_type, fingerprint = params.get("job_type__exact"), params.get("fingerprint__exact")
    if job_type is None or (fingerprint is None and params.get("fingerprint__isnull") not in ("True", "1")):
        return None
    return operations.Group(fingerprint or "", job_type)


def list_query(group: operations.Group) -> dict[str, str]:
    """Return the parameters with which the list of dead letters shows a group."""
    one = {"fingerprint__exact": group.fingerprint} if group.fingerprint else {"fingerprint__isnull": "True"}
    return {"job_type__exact": group.job_type, **one}


class GroupsAdmin(FieldEditingAdmin):
    """Dead letters whose groups have pages of their own."""

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the dead letters."""
        return super().get_queryset(request).filter(status=Status.DEAD)

    def get_urls(self) -> list[Any]:
        """Add the pages of groups."""
        wrap = self.admin_site.admin_view
        return [
            path("group/", wrap(require_GET(self.group_view)), name="jobqueue_deadletter_group"),
            path("group/<slug:what>/", wrap(require_POST(self.note_view)), name="jobqueue_deadletter_note"),
            *super().get_urls(),
        ]

    def told(self, request: HttpRequest, name: str) -> dict[str, Any]:
        """Name the group, so that its page can tell what was done to it."""
        group = chosen_group(request.GET)
        return super().told(request, name) | ({} if group is None else {"subject": group.subject})

    def group_view(self, request: HttpRequest) -> HttpResponse:
        """Show one group: how it came about, a sample, what people said of it and did about it."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        group = _group(request.GET.get("fingerprint", ""), request.GET.get("job_type", ""))
        rows, alias = self.get_queryset(request).using(Job.objects.write_db), Job.objects.write_db
        read = read_within(alias, lambda: (group_figures(rows, group),), LIMIT, by_index=True)
        figures = read[0] if read else None
        note = figures.group.note if figures else self._note_of(group, alias)
        if read and figures is None and note is None:
            raise Http404
        newest = figures.group.newest if figures else 0
        sample = read_within(alias, lambda: (self._sample(request, rows, newest),), PART) if figures else (None,)
        versions = read_within(alias, lambda: worker_versions([newest], using=alias), PART) if figures else []
        deeds = read_within(alias, lambda: list(group_actions(group, using=alias)), PART)
        context = {
            **self.admin_site.each_context(request),
            "title": _("A group of dead letters"),
            "opts": self.opts,
            "media": self.media,
            "group": group,
            "known": read is not None,
            "figures": figures,
            "only_newest": REACH if figures and not figures.group.exact() else 0,
            "row": figures and GroupRow(group=figures.group, counts=counts_of(figures.group)),
            "note": note,
            "muted_until": note and note.muted_until and instant(note.muted_until),
            "list_query": urlencode(list_query(group)),
            "chart": figures and _chart(figures),
            "hours": [(instant(at), jobs) for at, jobs in reversed(figures.hours)] if figures else [],
            "releases": [(name, instant(at), jobs) for name, at, jobs in figures.releases] if figures else [],
            "sample": sample and sample[0],
            "sample_unknown": sample is None,
            "versions": versions,
            "deeds": [(instant(one.at), action_label(one.action), one) for one in deeds or ()],
            "deeds_unknown": deeds is None,
            "verbs": [(name, SET_VERBS[name]) for name in OFFERED if self._offers(request, name)],
            "says": [group],
            "note_seen": note.updated_at.isoformat() if note else "",
            "note_at": note and instant(note.updated_at),
            "may_edit": self.has_edit_field_permission(request),
            "may_note": may(request, "note_group"),
            "people": people() if may(request, "hand_over") else [],
            "spans": [(key, label) for key, (_span, label) in SPANS.items()],
            "me": user_of(request).get_username(),
        }
        return TemplateResponse(request, "admin/jobqueue/deadletter/group.html", context)

    def note_view(self, request: HttpRequest, what: str) -> HttpResponse:
        """Hand groups over, note something of one, mute or unmute them; then go back to where that was said."""
        if what not in OPERATIONS:
            raise Http404
        operations.check_permission(user_of(request), OPERATIONS[what])
        if not self.has_view_permission(request):
            raise PermissionDenied
        groups = self._groups_of(request)
        form = FORMS[what](request.POST) if what in FORMS else None
        if form is not None and not form.is_valid():
            for errors in form.errors.values():
                messages.error(request, " ".join(str(error) for error in errors))
        else:
            try:
                say(request, what, groups, form.cleaned_data if form else {})
            except operations.NoteChanged as error:
                text = _("The note was not saved: %(name)s has changed it meanwhile. Yours was: %(note)s")
                messages.error(request, text % {"name": error.by, "note": form.cleaned_data["note"] if form else ""})
        if "list" in request.POST or len(groups) != 1:
            query = request.GET.urlencode()
            address = reverse("admin:jobqueue_deadletter_changelist")
            return HttpResponseRedirect(f"{address}?{query}" if query else address)
        return HttpResponseRedirect(group_url(groups[0]))

    def _groups_of(self, request: HttpRequest) -> list[operations.Group]:
        """Return the groups that a form names, if the user may see all of them."""
        prints, types = request.POST.getlist("fingerprint"), request.POST.getlist("job_type")
        if not prints or len(prints) != len(types) or len(prints) > operations.groups.GROUPS:
            raise Http404
        found = [_group(*pair) for pair in zip(prints, types, strict=True)]
        rows = self.get_queryset(request).using(Job.objects.write_db)
        for group in found:
            if not rows.filter(operations.of_group(group)).exists() and not self._note_of(group, rows.db):
                raise Http404
        return found

    def _note_of(self, group: operations.Group, alias: str) -> GroupNote | None:
        """Return the note on a group without dead letters; to those who see some jobs only, nobody tells it."""
        if type(self).get_queryset is not GroupsAdmin.get_queryset:
            return None
        return GroupNote.objects.using(alias).filter(**group._asdict()).first()

    def _offers(self, request: HttpRequest, name: str) -> bool:
        allowed: Callable[[HttpRequest], bool] = getattr(self, f"has_{name}_permission")
        return allowed(request)

    def _sample(self, request: HttpRequest, rows: QuerySet[Any], job_id: int) -> dict[str, Any] | None:
        """Return the newest job of the group as the page shows it, its secrets hidden."""
        job = rows.filter(pk=job_id).first()
        if job is None or not self.has_view_permission(request, job):
            return None
        small = When(payload_bytes__lte=SHAPED_BYTES, then=Cast("payload", TextField()))
        error, payload = (
            rows.filter(pk=job_id)
            .values_list(Left("last_error", ERROR_CHARACTERS * 8), Case(small, output_field=TextField()))
            .first()
        ) or ("", None)
        traces = Attempt.objects.using(rows.db).filter(job_id=job_id).exclude(traceback="").order_by("-lease_epoch")
        trace = traces.values_list(Left("traceback", TRACEBACK_CHARACTERS + 1), flat=True).first()
        fields, more = shape(payload) if payload is not None else ([], True)
        return {
            "job": job,
            "url": job_url(job_id),
            "error": shorten(mask_text(error or ""), ERROR_CHARACTERS),
            "traceback": shorten(mask_text(trace or ""), TRACEBACK_CHARACTERS),
            "fields": fields,
            "more_fields": more,
        }


def _group(fingerprint: str, job_type: str) -> operations.Group:
    """Return the group that a request names; no name holds NUL."""
    if "\x00" in fingerprint + job_type:
        raise Http404
    return operations.Group(fingerprint, job_type)


def say(request: HttpRequest, what: str, groups: list[operations.Group], said: dict[str, Any]) -> None:
    """Do what the form of groups says, and tell it. Raises NoteChanged."""
    actor = user_of(request)
    if what == "note":
        operations.note_group(groups[0], said["note"], seen=said["seen"], actor=actor)
        messages.success(request, _("The note was saved."))
        return
    if what == "hand_over":
        number = operations.hand_over(groups, said["to"], actor=actor, reason=said["reason"])
        text = ngettext("%d group was handed over.", "%d groups were handed over.", number)
    elif what == "mute":
        until = timezone.now() + SPANS[said["span"]][0]
        number = operations.mute_groups(groups, until, actor=actor, reason=said["reason"], doubled=said["doubled"])
        text = ngettext("%d group was muted.", "%d groups were muted.", number)
    else:
        number = operations.mute_groups(groups, None, actor=actor)
        text = ngettext("%d group is shown again.", "%d groups are shown again.", number)
    messages.success(request, text % number)


def _chart(figures: GroupFigures) -> Chart:
    """Return the chart of the last 24 hours."""
    values = [
        Value(
            f"{timezone.localtime(at):%H:%M}",
            ngettext("%(jobs)d in the hour before %(time)s", "%(jobs)d in the hour before %(time)s", jobs)
            % {"jobs": jobs, "time": instant(at)},
            Decimal(jobs),
        )
        for at, jobs in figures.hours
    ]
    return bar_chart(
        "jobqueue-hours",
        title=_("Died in the last 24 hours, by hour"),
        description=_("One bar for each of the last 24 hours; the table below has the same numbers."),
        values=values,
    )
