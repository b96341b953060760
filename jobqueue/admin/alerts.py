"""Alerts: the rules in force, which people change and mute here, and the incidents, past and present."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db import connections
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.text import capfirst
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from jobqueue import operations
from jobqueue.alerting import number
from jobqueue.models import AlertRule, Incident, Job
from jobqueue.ops.alert_rules import Layered, rules_in_force
from jobqueue.ops.alert_words import lasting

from .base import ReadOnlyAdmin, text_block, user_of
from .wording import EMPTY, instant, instant_of, span

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django.utils.safestring import SafeString

    RuleForm = forms.ModelForm[AlertRule]
else:
    RuleForm = forms.ModelForm

CHANGED: Final = ("enabled", "threshold", "for_seconds", "cooldown_seconds", "muted_until", "definition")
LAYERS: Final = {
    "built in": _("built in"),
    "settings": _("settings"),
    "environment": _("environment"),
    "admin": _("this page"),
}


class AlertRuleForm(RuleForm):
    """What people say of a rule; what they leave empty is as the settings and the environment say."""

    reason = forms.CharField(
        label=_("Reason"), required=False, max_length=operations.REASON_CHARACTERS, help_text=_("Kept with the action.")
    )

    class Meta:
        model = AlertRule
        fields = ("name", *CHANGED)
        widgets = {"name": forms.TextInput}

    def clean(self) -> dict[str, Any]:
        """Refuse what would be no rule, with the reason."""
        values = super().clean() or {}
        if self.errors:
            return values
        name = values.get("name") or self.instance.name
        for seconds in ("for_seconds", "cooldown_seconds"):
            if (values.get(seconds) or 0) < 0:
                self.add_error(seconds, _("It must be from 0 on."))
        try:
            operations.check_alert(name, definition=values.get("definition"), threshold=values.get("threshold"))
        except ValueError as error:
            self.add_error("definition", str(error))
        return values


@admin.register(AlertRule)
class AlertRuleAdmin(ReadOnlyAdmin):
    """All rules in force, wherever they come from; each can be changed, which makes a row of it."""

    form = AlertRuleForm
    change_form_template = "admin/jobqueue/change_form.html"
    fields = ("name", *CHANGED, "reason")

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Let those who see incidents, and those who manage alerts, read the rules."""
        user = user_of(request)
        return user.has_perm("jobqueue.view_incident") or may_manage(request)

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Tell whether the user may."""
        return may_manage(request)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Tell whether the user may."""
        return may_manage(request)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Return the name of a rule that is there: it is what its incidents are known by."""
        return () if obj is None else ("name",)

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        """Return the row of a rule, or a new one, not stored, of a rule that nobody has changed yet."""
        row = AlertRule.objects.using(Job.objects.write_db).filter(name=object_id).first()
        if row is not None:
            return row
        known = {each.rule.name: each.rule for each in rules_in_force(Job.objects.write_db)}
        return AlertRule(name=object_id, enabled=known[object_id].enabled) if object_id in known else None

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Change the rule through operations, which checks the permission and keeps who did it."""
        changes = {name: form.cleaned_data[name] for name in CHANGED if name in form.cleaned_data}
        operations.change_alert(obj.name, actor=user_of(request), reason=form.cleaned_data.get("reason", ""), **changes)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Show the rules with their levels and how many incidents of each are open."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        alias = Job.objects.write_db
        open_rules = Incident.objects.using(alias).filter(state__in=(Incident.State.PENDING, Incident.State.FIRING))
        firing: dict[str, int] = {}
        for rule, state in open_rules.values_list("rule", "state"):
            firing[rule] = firing.get(rule, 0) + (state == Incident.State.FIRING)
        context = {
            **self.admin_site.each_context(request),
            "title": capfirst(str(self.opts.verbose_name_plural)),
            "opts": self.opts,
            "media": self.media,
            "rules": [_shown(each, firing.get(each.rule.name, 0)) for each in rules_in_force(alias)],
            "incidents": reverse("admin:jobqueue_incident_changelist"),
            "has_add_permission": self.has_add_permission(request),
            **(extra_context or {}),
        }
        return TemplateResponse(request, "admin/jobqueue/alertrule/rules.html", context)


def _shown(layered: Layered, firing: int) -> dict[str, Any]:
    rule = layered.rule
    muted = rule.muted_until is not None and rule.muted_until > timezone.now()
    return {
        "name": rule.name,
        "url": reverse("admin:jobqueue_alertrule_change", args=[rule.name]),
        "limit": rule.limit if rule.enabled else _("off"),
        "for": lasting(rule.for_seconds) if rule.for_seconds else EMPTY,
        "cooldown": lasting(rule.cooldown_seconds) if rule.cooldown_seconds else EMPTY,
        "layer": LAYERS[layered.layer],
        "muted": instant(rule.muted_until) if muted else EMPTY,
        "firing": firing,
        "problems": layered.problems,
    }


@admin.register(Incident)
class IncidentAdmin(ReadOnlyAdmin):
    """What fired and fires, newest first."""

    view_permission = "jobqueue.view_incident"
    list_display = ("state", "rule", "subject", "last_value", "since", "fired", "resolved", "text")
    list_display_links = ("state", "rule")
    list_filter = ("state", "rule")
    fields = (
        *("state", "rule_link", "subject", "told_text", "last_value", "worst_value", "level", "since", "fired"),
        *("resolved", "lasted", "fired_told", "resolved_told"),
    )
    readonly_fields = fields
    ordering = ("-broken_since",)
    since = instant_of("broken_since", _("broken since"))
    fired = instant_of("fired_at", _("fired"))
    resolved = instant_of("resolved_at", _("resolved"))
    fired_told = instant_of("fired_told_at", _("firing told"))
    resolved_told = instant_of("resolved_told_at", _("resolved told"))
    actions: Any = ("mute_for_an_hour", "mute_for_a_day")

    def has_mute_permission(self, request: HttpRequest) -> bool:
        """Tell whether the user may mute rules."""
        return may_manage(request)

    @admin.action(description=_("Mute their rules for an hour"), permissions=["mute"])
    def mute_for_an_hour(self, request: HttpRequest, queryset: QuerySet[Incident]) -> HttpResponse:
        """Keep the rules of the chosen incidents quiet for an hour."""
        return _mute(request, queryset, timedelta(hours=1))

    @admin.action(description=_("Mute their rules for a day"), permissions=["mute"])
    def mute_for_a_day(self, request: HttpRequest, queryset: QuerySet[Incident]) -> HttpResponse:
        """Keep the rules of the chosen incidents quiet for a day."""
        return _mute(request, queryset, timedelta(days=1))

    @admin.display(description=_("rule"))
    def rule_link(self, incident: Incident) -> SafeString:
        """Return a link to its rule."""
        return format_html(
            '<a href="{}">{}</a>', reverse("admin:jobqueue_alertrule_change", args=[incident.rule]), incident.rule
        )

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
    def lasted(self, incident: Incident) -> str:
        """Return how long it lasted."""
        return span(None if incident.resolved_at is None else incident.resolved_at - incident.broken_since)


def may_manage(request: HttpRequest) -> bool:
    """Tell whether the user may change and mute alerts."""
    return user_of(request).has_perm(operations.PERMISSIONS["change_alert"])


def _mute(request: HttpRequest, incidents: QuerySet[Incident], time: timedelta) -> HttpResponse:
    operations.check_permission(user_of(request), "change_alert")
    rules = sorted(set(incidents.values_list("rule", flat=True)))
    known = {each.rule.name: each.rule for each in rules_in_force(Job.objects.write_db)}
    until, muted = _database_time() + time, 0
    for name in rules:
        if name in known:
            # A row has the last word on everything, so it says of the rule what already holds.
            changes = {"muted_until": until, "enabled": known[name].enabled}
            muted += operations.change_alert(name, actor=user_of(request), **changes) is not None
    text = ngettext("%d rule is muted.", "%d rules are muted.", muted) % muted
    messages.success(request, text)
    return HttpResponseRedirect(request.get_full_path())


def _database_time() -> Any:
    with connections[Job.objects.write_db].cursor() as cursor:
        cursor.execute("SELECT statement_timestamp()")
        return cursor.fetchone()[0]
