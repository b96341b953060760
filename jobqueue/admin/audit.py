"""The audit: who did what to how many, from what to what, why and from where; refusals too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.core.exceptions import PermissionDenied
from django.db.models import Case, F, Func, IntegerField, JSONField, Q, When
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, HttpResponseBase
from django.template.loader import render_to_string
from django.urls import path, reverse
from django.utils import timezone
from django.utils.formats import number_format
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST

from jobqueue import operations
from jobqueue.models import Action

from . import audit_export
from .audit_filter import NAMES, AuditFilter
from .audit_words import action_label, changes
from .badges import badge
from .base import ReadOnlyAdmin, job_url, number_of, user_of
from .downloads import streamed_csv, streamed_json
from .wording import EMPTY, instant_of, shortened

if TYPE_CHECKING:
    from django.db.models import QuerySet

SHOWN: Final = 200
#: A list reads no more of a row's detail: that of an edit may have two payloads.
SMALL_BYTES: Final = 1_500
CHANGES: Final = 3
CHANGE_CHARACTERS: Final = 60
#: Of actions on jobs, so many for one job, the newest: there are never so many.
OF_A_JOB: Final = 1_000
SEARCHED: Final = 100_000


@admin.register(Action)
class ActionAdmin(ReadOnlyAdmin):
    """What people did and were refused, newest first."""

    view_permission = "jobqueue.view_audit"
    counted_as = _("actions")
    change_list_template = "admin/jobqueue/action/change_list.html"
    change_form_template = "admin/jobqueue/change_form.html"
    list_display = ("time", "who", "done", "of_what", "change", "why")
    list_filter = (AuditFilter,)
    lookups = frozenset({*NAMES, "at__lte"})
    fields = ("time", "actor", "done", "verdict", "reason", "subject_link", "address", "jobs", "targets", "changed")
    readonly_fields = fields
    time = instant_of("at", _("time"))
    ordering = ("-at",)
    search_fields = ("actor",)
    search_help_text = _(
        "A number finds what was done to that job; other text is looked for in who did it, of what and why."
    )

    def get_urls(self) -> list[Any]:
        """Add the address of the download."""
        view = self.admin_site.admin_view(require_POST(self.export_view))
        return [path("export/", view, name="jobqueue_action_export"), *super().get_urls()]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the actions with the number of their jobs, not the thousands of ids."""
        jobs = Func("job_ids", function="cardinality", output_field=IntegerField())
        rows: QuerySet[Any] = super().get_queryset(request).defer("job_ids", "detail").annotate(number=jobs)
        return rows

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Find by a job's id, or by a text in the newest rows."""
        term = search_term.strip().removeprefix("#").replace("\x00", "")
        rows = Action.objects.using(queryset.db)
        if (number := number_of(term)) is not None:
            # By themselves: in the order of the list the planner would rather walk all rows than use the index of jobs.
            of_job = rows.filter(job_ids__contains=[number]).order_by(F("id") + 0)
            return queryset.filter(pk__in=list(of_job.values_list("pk", flat=True).reverse()[:OF_A_JOB])), False
        if not term:
            return queryset, False
        newest = rows.order_by("-pk").values_list("pk", flat=True).first() or 0
        found = Q(actor__icontains=term) | Q(subject__icontains=term) | Q(reason__icontains=term)
        return queryset.filter(found, pk__gt=newest - SEARCHED), False

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Show the list, with what it takes to download it."""
        context = {
            "export_url": reverse("admin:jobqueue_action_export"),
            "most": number_format(audit_export.MOST, force_grouping=True),
        }
        return super().changelist_view(request, context | (extra_context or {}))

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        """Return the list with what is small enough of the details."""
        shown = super().get_changelist_instance(request)
        ids = [row.pk for row in shown.result_list]
        small = Func("detail", function="pg_column_size", output_field=IntegerField())
        cut = Case(When(bytes__lte=SMALL_BYTES, then=F("detail")), output_field=JSONField())
        rows = Action.objects.using(shown.queryset.db).filter(pk__in=ids).annotate(bytes=small)
        told = {pk: (size, detail) for pk, size, detail in rows.values_list("pk", "bytes", cut)}
        for row in shown.result_list:
            row.bytes, row.small = told.get(row.pk, (None, None))
        return shown

    def export_view(self, request: HttpRequest) -> HttpResponseBase:
        """Send the rows that the list shows as a file, once it is written down who takes them."""
        form = request.POST.get("format", "")
        if not self.has_view_permission(request):
            raise PermissionDenied
        if form not in ("csv", "json"):
            return HttpResponseBadRequest()
        try:
            rows = super().get_changelist_instance(request).queryset.defer(None)
        except IncorrectLookupParameters:
            return HttpResponseBadRequest()
        filters = {name: request.GET[name] for name in (*NAMES, "q") if request.GET.get(name)}
        operations.export_audit(actor=user_of(request), filters=filters, form=form)
        name = f"jobqueue-audit-{timezone.localtime():%Y%m%d-%H%M%S}.{form}"
        found = audit_export.newest_first(rows)
        if form == "json":
            return streamed_json(name, audit_export.json_lines(found))
        return streamed_csv(name, audit_export.COLUMNS, (audit_export.cells(action) for action in found))

    @admin.display(description=_("who"))
    def who(self, action: Action) -> SafeString:
        """Return who did it, and from where."""
        where = format_html('<div class="jobqueue-quiet">{}</div>', action.address) if action.address else ""
        return format_html("{}{}", action.actor, where)

    @admin.display(description=_("of what"))
    def of_what(self, action: Any) -> SafeString | str:
        """Return the subject, and how many jobs."""
        jobs = ngettext("%d job", "%d jobs", action.number) % action.number if action.number else ""
        parts = [(part,) for part in (action.subject, jobs) if part]
        return format_html_join("", "<div>{}</div>", parts) or EMPTY

    @admin.display(description=_("action"))
    def done(self, action: Action) -> Any:
        """Return what was done, in words, marked where it was refused."""
        label = action_label(action.action)
        return format_html("{} {}", label, badge("bad", _("refused"))) if action.refused else label

    @admin.display(description=_("outcome"))
    def verdict(self, action: Action) -> SafeString:
        """Return whether it was done."""
        return badge("bad", _("refused")) if action.refused else badge("ok", _("done"))

    @admin.display(description=_("number of jobs"))
    def jobs(self, action: Any) -> int:
        """Return how many jobs it changed, or was refused for."""
        return int(action.number)

    @admin.display(description=_("from → to"))
    def change(self, action: Any) -> SafeString | str:
        """Return the first few things that changed, each cut to a line."""
        found = changes(action.action, action.refused, action.small)
        lines = [
            (one.what, _line(one.now) if one.before is None else f"{_line(one.before)} → {_line(one.now)}")
            for one in found[:CHANGES]
        ]
        more = len(found) > CHANGES or (action.bytes is not None and action.bytes > SMALL_BYTES)
        text = format_html_join("", '<div><span class="jobqueue-quiet">{}:</span> {}</div>', lines)
        return text + (format_html("<div>{}</div>", _("… on its page")) if more else SafeString("")) or EMPTY

    @admin.display(description=_("reason"))
    def why(self, action: Action) -> str:
        """Return the reason, cut to a line."""
        return shortened(action.reason)

    @admin.display(description=_("of what"))
    def subject_link(self, action: Action) -> SafeString | str:
        """Return the subject, linked where it has a page."""
        kind, _colon, name = action.subject.partition(":")
        if kind == "alert":
            url = reverse("admin:jobqueue_alertrule_change", args=[name])
            return format_html('<a href="{}">{}</a>', url, action.subject)
        return action.subject or EMPTY

    @admin.display(description=_("jobs"))
    def targets(self, action: Action) -> str:
        """Return links to the jobs."""
        links = format_html_join(", ", '<a href="{}">{}</a>', ((job_url(pk), pk) for pk in action.job_ids[:SHOWN]))
        return format_html("{}, …", links) if len(action.job_ids) > SHOWN else links or EMPTY

    @admin.display(description=_("from → to"))
    def changed(self, action: Action) -> str:
        """Return all that is kept of it, the payloads of an edit for example, its secrets hidden."""
        found = changes(action.action, action.refused, action.detail)
        return render_to_string("admin/jobqueue/action/changes.html", {"changes": found}) if found else EMPTY


def _line(text: str) -> str:
    """Return a text in one line, cut."""
    return shortened(" ".join(text.split()), CHANGE_CHARACTERS)
