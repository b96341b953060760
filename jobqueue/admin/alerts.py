"""Alert rules: how each stands, its value against its threshold, and what people say of it; incidents: incidents.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from django import forms
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.text import capfirst
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_http_methods, require_safe

from jobqueue import operations
from jobqueue.alerting import number
from jobqueue.models import Action, AlertRule, Incident, Job
from jobqueue.ops.alert_rules import rules_in_force
from jobqueue.ops.alert_table import RuleRow, RuleState, read_rules
from jobqueue.ops.alert_words import spoken

from . import live, muting
from .audit_words import action_label
from .badges import Kind, badge
from .base import ReadOnlyAdmin, user_of
from .wording import EMPTY, brief, instant

if TYPE_CHECKING:
    RuleForm = forms.ModelForm[AlertRule]
else:
    RuleForm = forms.ModelForm

CHANGED: Final = ("enabled", "threshold", "for_seconds", "cooldown_seconds", "definition")
LAYERS: Final = {
    "built in": _("built in"),
    "settings": _("settings"),
    "environment": _("environment"),
    "admin": _("this page"),
}
STATES: Final[dict[RuleState, tuple[Kind, Any]]] = {
    "firing": ("bad", _("firing")),
    "pending": ("warn", _("pending")),
    "unknown": ("wait", _("unknown")),
    "calm": ("ok", _("calm")),
    "off": ("off", _("off")),
}
ACTIONS: Final = ("change_alert", "mute_alert", "unmute_alert")
SHOWN: Final = 10


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
    change_form_template = "admin/jobqueue/alertrule/change_form.html"
    fields = ("name", *CHANGED, "reason")

    def get_urls(self) -> list[Any]:
        """Add the address of the live part, and those that ask before a rule is muted or heard again."""
        wrap, both = self.admin_site.admin_view, require_http_methods(["GET", "HEAD", "POST"])
        return [
            path("part/", wrap(require_safe(self.part_view)), name="jobqueue_alertrule_part"),
            path("mute/", wrap(both(self.mute_view)), name="jobqueue_alertrule_mute"),
            path("unmute/", wrap(both(self.unmute_view)), name="jobqueue_alertrule_unmute"),
            *super().get_urls(),
        ]

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
        """Show the rules, those first that somebody has to look at."""
        self._check(request)
        context = {
            **self._context(request),
            **self._table(request),
            "title": capfirst(str(self.opts.verbose_name_plural)),
            "has_add_permission": self.has_add_permission(request),
            **(extra_context or {}),
        }
        return TemplateResponse(request, "admin/jobqueue/alertrule/rules.html", context)

    def part_view(self, request: HttpRequest) -> HttpResponse:
        """Show the rules alone, for the page that is open."""
        self._check(request)
        return live.respond(request, "admin/jobqueue/alertrule/part.html", self._table(request))

    def mute_view(self, request: HttpRequest) -> HttpResponse:
        """Ask until when and why, then mute rules."""
        return muting.answer(request, self._context(request), mute=True)

    def unmute_view(self, request: HttpRequest) -> HttpResponse:
        """Ask why, then have rules heard again."""
        return muting.answer(request, self._context(request), mute=False)

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show one rule with its last incidents and what people did about it."""
        context: dict[str, Any] = dict(extra_context or {})
        if self.has_view_permission(request):
            table = read_rules(Job.objects.write_db)
            row = next((row for row in table.rows if row.rule.name == object_id), None)
            context |= {
                "row": None if row is None else _shown(row, is_manager=may_manage(request)),
                "looked_at": None if table.looked_at is None else brief(table.now - table.looked_at),
                "late": table.is_late,
                "incidents": _incidents_of(object_id) if user_of(request).has_perm("jobqueue.view_incident") else [],
                "deeds": rule_actions(request, object_id),
            }
        return super().change_view(request, object_id, form_url, context)

    def _check(self, request: HttpRequest) -> None:
        if not self.has_view_permission(request):
            raise PermissionDenied

    def _context(self, request: HttpRequest) -> dict[str, Any]:
        return {**self.admin_site.each_context(request), "opts": self.opts, "media": self.media}

    def _table(self, request: HttpRequest) -> dict[str, Any]:
        table, is_manager = read_rules(Job.objects.write_db), may_manage(request)
        sees_incidents = user_of(request).has_perm("jobqueue.view_incident")
        return {
            "rules": [_shown(row, is_manager=is_manager) for row in table.rows],
            "looked_at": None if table.looked_at is None else brief(table.now - table.looked_at),
            "late": table.is_late,
            "incidents": reverse("admin:jobqueue_incident_changelist") if sees_incidents else "",
            "may_manage": is_manager,
        }


def _shown(row: RuleRow, *, is_manager: bool) -> dict[str, Any]:
    rule = row.rule
    return {
        "name": rule.name,
        "url": reverse("admin:jobqueue_alertrule_change", args=[rule.name]),
        "state": badge(*STATES[row.state]),
        "value": EMPTY if row.value is None else number(row.value),
        "subject": row.subject,
        "limit": rule.limit if rule.enabled else _("off"),
        "for": spoken(rule.for_seconds) if rule.for_seconds else EMPTY,
        "cooldown": spoken(rule.cooldown_seconds) if rule.cooldown_seconds else EMPTY,
        "layer": LAYERS[row.layered.layer],
        "muted": instant(rule.muted_until) if row.muted else "",
        "open": row.firing + row.pending,
        "problems": row.layered.problems,
        "mute_url": muting.address("unmute" if row.muted else "mute", rule.name) if is_manager else "",
    }


def rule_actions(request: HttpRequest, rule: str) -> list[tuple[Action, Any, str]]:
    """Return what people did about a rule, newest first, with words and time, for whoever may read the audit."""
    if not user_of(request).has_perm("jobqueue.view_audit"):
        return []
    rows = Action.objects.using(Job.objects.write_db).filter(action__in=ACTIONS, subject=f"alert:{rule}")
    newest = rows.defer("job_ids", "detail").order_by("-at", "-id")[:SHOWN]
    return [(action, action_label(action.action), instant(action.at)) for action in newest]


def _incidents_of(rule: str) -> list[tuple[Incident, str, str]]:
    rows = Incident.objects.using(Job.objects.write_db).filter(rule=rule).order_by("-broken_since")[:SHOWN]
    return [
        (each, instant(each.broken_since), brief(each.resolved_at - each.broken_since if each.resolved_at else None))
        for each in rows
    ]


def may_manage(request: HttpRequest) -> bool:
    """Tell whether the user may change and mute alerts."""
    return user_of(request).has_perm(operations.PERMISSIONS["change_alert"])
