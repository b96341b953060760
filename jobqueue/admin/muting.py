"""Muting alert rules: until when and why is asked first, for one rule or several, from the rules and the incidents."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import urlencode

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from jobqueue import operations
from jobqueue.models import Job
from jobqueue.ops.alert_rules import rules_in_force

from .base import user_of
from .until import UntilForm, database_time
from .wording import instant

DAY: Final = timedelta(days=1)
WEEK: Final = timedelta(days=7)
RULES: Final = 100


class UnmuteForm(forms.Form):
    """What is asked before rules are heard again."""

    reason = forms.CharField(
        label=gettext_lazy("Reason"),
        required=False,
        max_length=operations.REASON_CHARACTERS,
        widget=forms.TextInput({"class": "vTextField", "aria-describedby": "id_reason_helptext"}),
        help_text=gettext_lazy("Kept with the action."),
    )

    def __init__(self, data: Any, *, now: datetime) -> None:
        super().__init__(data)
        self.now = now

    def until(self) -> datetime | None:
        """Return None: they are heard from now on."""
        return None


class MuteForm(UntilForm, UnmuteForm):
    """What is asked before rules are muted."""

    field_order = ("until_choice", "until_time", "reason")

    def __init__(self, data: Any, *, now: datetime) -> None:
        super().__init__(data, now=now)
        day, week = now + DAY, now + WEEK
        self.offer(
            now,
            day=(day, _("for a day: until %(time)s") % {"time": instant(day)}),
            week=(week, _("for a week: until %(time)s") % {"time": instant(week)}),
        )

    def clean(self) -> dict[str, Any]:
        """Want a time in the future, too: a pause that is over is refused by the operation, a mute is not."""
        said = super().clean()
        given = said.get("until_time")
        if said.get("until_choice") == "time" and given and given <= self.now:
            self.add_error("until_time", _("It must be in the future."))
        return said


def address(name: str, *rules: str) -> str:
    """Return the address that asks before rules are muted ("mute") or heard again ("unmute")."""
    query = urlencode([("rule", rule) for rule in rules])
    return f"{reverse(f'admin:jobqueue_alertrule_{name}')}{f'?{query}' if query else ''}"


def answer(request: HttpRequest, context: dict[str, Any], *, mute: bool) -> HttpResponse:
    """Ask until when and why, then mute the rules that the address names, or have them heard again."""
    operations.check_permission(user_of(request), "mute_alert" if mute else "unmute_alert")
    known = {each.rule.name: each.rule for each in rules_in_force(Job.objects.write_db)}
    rules = [known[name] for name in dict.fromkeys(request.GET.getlist("rule")[:RULES]) if name in known]
    back = reverse("admin:jobqueue_alertrule_changelist")
    if not rules:
        messages.error(request, _("There is no such rule."))
        return HttpResponseRedirect(back)
    form = (MuteForm if mute else UnmuteForm)(request.POST if request.method == "POST" else None, now=database_time())
    if not form.is_valid():
        title = _("Mute alert rules") if mute else _("Unmute alert rules")
        context |= {"title": title, "form": form, "rules": rules, "mute": mute}
        return TemplateResponse(request, "admin/jobqueue/alertrule/ask.html", context)
    until, changed = form.until(), 0
    for rule in rules:
        said = {"reason": form.cleaned_data["reason"], "enabled": rule.enabled}
        changed += operations.mute_alert(rule.name, until=until, actor=user_of(request), **said)
    messages.success(request, _told(changed, until))
    return HttpResponseRedirect(back)


def _told(changed: int, until: datetime | None) -> str:
    if until is None:
        return ngettext("%d rule is heard again.", "%d rules are heard again.", changed) % changed
    text = ngettext("%(rules)d rule is muted until %(time)s.", "%(rules)d rules are muted until %(time)s.", changed)
    return text % {"rules": changed, "time": instant(until)}
