"""Incidents: what fires now, and every time that a rule was broken, with its course."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path, reverse
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe

from jobqueue import operations
from jobqueue.alerting import number
from jobqueue.models import Incident, Job
from jobqueue.models.expressions import StatementTimestamp
from jobqueue.ops.alert_rules import rules_in_force
from jobqueue.ops.alert_table import OPEN, last_look

from . import live, muting
from .alerts import may_manage, rule_actions
from .badges import Kind, badge
from .base import ReadOnlyAdmin, text_block, user_of
from .wording import EMPTY, brief, instant, instant_of, span

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django.utils.safestring import SafeString

KINDS: Final[dict[int, Kind]] = {
    Incident.State.PENDING: "warn",
    Incident.State.FIRING: "bad",
    Incident.State.RESOLVED: "ok",
}
#: Open ones that the page shows on top; a rule has never more than twenty.
SHOWN: Final = 100


class RuleFilter(admin.SimpleListFilter):
    """Chooses a rule: of those in force, and the chosen one; all that ever were would take a look at every row."""

    title = _("rule")
    parameter_name = "rule"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Return the names of the rules."""
        names, chosen = {each.rule.name for each in rules_in_force(Job.objects.write_db)}, self.value()
        return [(name, name) for name in sorted(names | ({chosen} if chosen else set()))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Return the incidents of the chosen rule."""
        value = self.value()
        return queryset if value is None else queryset.filter(rule=value.replace("\x00", ""))


@admin.register(Incident)
class IncidentAdmin(ReadOnlyAdmin):
    """What fires now, on top, and below it what fired, newest first."""

    view_permission = "jobqueue.view_incident"
    change_list_template = "admin/jobqueue/incident/change_list.html"
    change_form_template = "admin/jobqueue/incident/change_form.html"
    list_display = ("standing", "rule", "subject", "last_value", "since", "lasted", "text")
    list_display_links = ("standing", "rule")
    list_filter = ("state", RuleFilter)
    lookups = frozenset({"state__exact", "rule", "broken_since__lte"})
    fields = ("standing", "rule_link", "subject", "told_text", "last_value", "worst_value", "level", "lasted")
    readonly_fields = fields
    ordering = ("-broken_since",)
    since = instant_of("broken_since", _("broken since"))
    actions: Any = ("mute",)

    def get_urls(self) -> list[Any]:
        """Add the address of the live part."""
        view = self.admin_site.admin_view(require_safe(self.part_view))
        return [path("part/", view, name="jobqueue_incident_part"), *super().get_urls()]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the incidents with how long they last by the database's clock."""
        rows: QuerySet[Any] = super().get_queryset(request).annotate(now=StatementTimestamp())
        return rows

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Show what fires now above the list."""
        self._check(request)
        context = {**self._open(request), "part_url": reverse("admin:jobqueue_incident_part")}
        if request.method == "POST" and request.POST.get("action") == "mute":
            operations.check_permission(user_of(request), "mute_alert")
        return super().changelist_view(request, context | (extra_context or {}))

    def part_view(self, request: HttpRequest) -> HttpResponse:
        """Show what fires now alone, for the page that is open."""
        self._check(request)
        return live.respond(request, "admin/jobqueue/incident/part.html", self._open(request))

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show one incident with its course, and what people did about its rule."""
        context: dict[str, Any] = dict(extra_context or {})
        incident = self.get_object(request, object_id) if self.has_view_permission(request) else None
        if incident is not None:
            context |= {
                "course": course(incident),
                "deeds": rule_actions(request, incident.rule),
                "mute_url": muting.address("mute", incident.rule) if may_manage(request) else "",
                "title": str(incident),
                "subtitle": None,
            }
        return super().change_view(request, object_id, form_url, context)

    def has_mute_permission(self, request: HttpRequest) -> bool:
        """Tell whether the user may mute rules."""
        return may_manage(request)

    @admin.action(description=_("Mute their rules…"), permissions=["mute"])
    def mute(self, request: HttpRequest, queryset: QuerySet[Incident]) -> HttpResponse:
        """Go and ask until when the rules of the chosen incidents are to be quiet."""
        rules = queryset.order_by("rule").values_list("rule", flat=True).distinct()[: muting.RULES]
        return HttpResponseRedirect(muting.address("mute", *rules))

    def _check(self, request: HttpRequest) -> None:
        if not self.has_view_permission(request):
            raise PermissionDenied

    def _open(self, request: HttpRequest) -> dict[str, Any]:
        rows = self.get_queryset(request).using(Job.objects.write_db).filter(state__in=OPEN)
        found = list(rows.order_by("-state", "-broken_since")[: SHOWN + 1])
        is_manager = may_manage(request)
        shown = [
            {
                "incident": each,
                "standing": self.standing(each),
                "url": reverse("admin:jobqueue_incident_change", args=[each.pk]),
                "value": self.last_value(each),
                "level": self.level(each),
                "since": instant(each.broken_since),
                "lasts": brief(each.now - each.broken_since),
                "mute_url": muting.address("mute", each.rule) if is_manager else "",
            }
            for each in found[:SHOWN]
        ]
        look = last_look(Job.objects.write_db)
        late = {"late": look.late, "looked_at": look.age and brief(look.age)}
        return {"open": shown, "more_open": len(found) > SHOWN, "may_manage": is_manager, **late}

    @admin.display(description=_("state"))
    def standing(self, incident: Incident) -> SafeString:
        """Return its state as a badge."""
        return badge(KINDS.get(incident.state, "off"), incident.get_state_display())

    @admin.display(description=_("rule"))
    def rule_link(self, incident: Incident) -> SafeString:
        """Return a link to its rule."""
        url = reverse("admin:jobqueue_alertrule_change", args=[incident.rule])
        return format_html('<a href="{}">{}</a>', url, incident.rule)

    @admin.display(description=_("text"))
    def told_text(self, incident: Incident) -> SafeString | str:
        """Return what was told."""
        return text_block(_("text"), incident.text)

    @admin.display(description=_("last value"))
    def last_value(self, incident: Incident) -> str:
        """Return its value when it was last looked at."""
        return EMPTY if incident.value is None else number(incident.value)

    @admin.display(description=_("worst value"))
    def worst_value(self, incident: Incident) -> str:
        """Return the worst value of its time."""
        return EMPTY if incident.worst is None else number(incident.worst)

    @admin.display(description=_("threshold"))
    def level(self, incident: Incident) -> str:
        """Return the threshold that it reached."""
        return EMPTY if incident.threshold is None else number(incident.threshold)

    @admin.display(description=_("lasted"))
    def lasted(self, incident: Any) -> str:
        """Return how long it lasted, or lasts."""
        return brief((incident.resolved_at or incident.now) - incident.broken_since)


def course(incident: Incident) -> list[tuple[str, Any, str]]:
    """Return what happened in an incident: when, what, and how long after it began."""
    steps: list[tuple[datetime | None, Any]] = [
        (incident.broken_since, _("The rule was broken.")),
        (incident.fired_at, _("It had lasted long enough: the alert fired.")),
        (incident.fired_told_at, _("That it fires was told by mail or webhook.")),
        (incident.calm_since, _("The value was good again.")),
        (incident.resolved_at, _("It was over.")),
        (incident.resolved_told_at, _("That it is over was told by mail or webhook.")),
    ]
    happened = sorted(((at, what) for at, what in steps if at is not None), key=lambda step: step[0])
    return [(instant(at), what, span(at - incident.broken_since)) for at, what in happened]
