"""What the audit is looked through by: who, what, whether it was refused, and when."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, time, timedelta
from typing import TYPE_CHECKING, Any, Final

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from .audit_words import ACTIONS, action_label

if TYPE_CHECKING:
    from django.db.models import QuerySet

NAMES: Final = ("who", "what", "refused", "since", "until")
#: Names to choose from are those of so many of the newest rows.
SAMPLE: Final = 1_000
DAY: Final = timedelta(days=1)


class AuditForm(forms.Form):
    """The filters as a form: what is left empty does not matter."""

    who = forms.CharField(
        label=_("Who"), required=False, widget=forms.TextInput({"list": "jobqueue-people", "autocomplete": "off"})
    )
    what = forms.ChoiceField(label=_("Action"), required=False)
    refused = forms.ChoiceField(
        label=_("Done or refused"),
        required=False,
        choices=(("", _("both")), ("0", _("done")), ("1", _("refused"))),
    )
    since = forms.DateField(label=_("From the day"), required=False, widget=forms.DateInput({"type": "date"}))
    until = forms.DateField(label=_("To the day"), required=False, widget=forms.DateInput({"type": "date"}))

    def __init__(self, data: Any, *, actions: set[str]) -> None:
        super().__init__(data)
        known = sorted(((name, str(action_label(name))) for name in actions), key=lambda pair: pair[1].casefold())
        what: Any = self.fields["what"]
        what.choices = [("", _("all")), *known]

    def clean(self) -> dict[str, Any]:
        """Refuse a period that ends before it begins."""
        said = super().clean() or {}
        if said.get("since") and said.get("until") and said["since"] > said["until"]:
            self.add_error("until", _("This is before the first day."))
        return said


class AuditFilter(admin.ListFilter):
    """The form beside the list; a wrong date shows no rows and says why, rather than rows that nobody asked for."""

    title = _("what was done")
    template = "admin/jobqueue/action/filter.html"

    def __init__(self, request: HttpRequest, params: dict[str, Any], model: Any, model_admin: Any) -> None:
        super().__init__(request, params, model, model_admin)
        said = {name: str(params.pop(name)[-1]).replace("\x00", "") for name in NAMES if name in params}
        self.used_parameters = {name: text for name, text in said.items() if text}
        newest = model_admin.get_queryset(request).order_by("-at", "-id").values_list("actor", "action")[:SAMPLE]
        pairs = list(newest)
        self.people = sorted({actor for actor, _action in pairs})
        chosen = {said["what"]} if said.get("what") else set()
        self.form = AuditForm(said, actions={*ACTIONS, *chosen, *(action for _actor, action in pairs)})

    def has_output(self) -> bool:
        """Show the form always."""
        return True

    def expected_parameters(self) -> list[str | None]:
        """Return the names of the query that are this filter's."""
        return list(NAMES)

    def choices(self, changelist: Any) -> Iterator[Any]:
        """Yield what the template of the form needs."""
        others = {key: values for key, values in changelist.filter_params.items() if key not in NAMES}
        others |= {"q": [changelist.query]} if changelist.query else {}
        hidden = [(key, value) for key, values in others.items() for value in values]
        yield {"form": self.form, "people": self.people, "hidden": hidden}

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Return the rows that were asked for; days are those of the current zone."""
        if not self.form.is_valid():
            return queryset.none()
        said = self.form.cleaned_data
        if said["who"]:
            queryset = queryset.filter(actor=said["who"])
        if said["what"]:
            queryset = queryset.filter(action=said["what"])
        if said["refused"]:
            queryset = queryset.filter(refused=said["refused"] == "1")
        if said["since"]:
            queryset = queryset.filter(at__gte=_midnight(said["since"]))
        if said["until"]:
            queryset = queryset.filter(at__lt=_midnight(said["until"] + DAY))
        return queryset


def _midnight(day: Any) -> datetime:
    return timezone.make_aware(datetime.combine(day, time.min))
