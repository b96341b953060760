"""What is asked before a queue is paused or resumed: until when, why and, of all queues, whether that is meant."""

from __future__ import annotations

from datetime import datetime, time, timedelta
from typing import Any, Final

from django import forms
from django.db import connections
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobqueue import operations
from jobqueue.managers.arriving import LAST_INSTANT
from jobqueue.managers.pausing import ALL_QUEUES
from jobqueue.models import Job

from .wording import instant

HOUR: Final = timedelta(hours=1)
#: When people are back who notice what a queue does that begins to run again.
MORNING: Final = time(8)


def not_too_late(when: datetime) -> None:
    """Refuse a time that could not be read again: west of Greenwich the year 9999 ends in the year 10000."""
    if when > LAST_INSTANT:
        raise forms.ValidationError(_("It must be before the end of the year 9999."))


class _QueueForm(forms.Form):
    """The queue, the reason and, of all queues, the question."""

    queue = forms.CharField(label=gettext_lazy("Queue"), max_length=63)
    reason = forms.CharField(
        label=gettext_lazy("Reason"),
        required=False,
        max_length=operations.REASON_CHARACTERS,
        widget=forms.TextInput({"class": "vTextField"}),
        help_text=gettext_lazy("Kept with the action."),
    )
    sure = forms.BooleanField(label=gettext_lazy("Yes, all queues"))

    def __init__(self, data: Any = None, *, name: str = "") -> None:
        super().__init__(data, initial={"queue": name})
        if name != ALL_QUEUES:
            del self.fields["sure"]
        if name:
            self.fields["queue"].widget = forms.HiddenInput() if name == ALL_QUEUES else forms.TextInput()
            self.fields["queue"].widget.attrs["readonly"] = True


class ResumeForm(_QueueForm):
    """What is asked before all queues are resumed."""


class PauseForm(_QueueForm):
    """What is asked before a queue is paused."""

    until_choice = forms.ChoiceField(label=gettext_lazy("Until"), widget=forms.RadioSelect)
    until_time = forms.DateTimeField(
        label=gettext_lazy("Time"),
        required=False,
        validators=[not_too_late],
        widget=forms.DateTimeInput({"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"),
    )
    field_order = ("queue", "until_choice", "until_time", "reason", "sure")

    def __init__(self, data: Any = None, *, name: str = "", now: datetime) -> None:
        """Take the database's time: an hour is an hour of its clock."""
        super().__init__(data, name=name)
        self._ends = {"hour": now + HOUR, "tomorrow": tomorrow(now)}
        zone = timezone.get_current_timezone_name()
        choice: Any = self.fields["until_choice"]
        choice.initial = "hour"
        choice.choices = [
            ("hour", _("for 1 hour: until %(time)s") % {"time": instant(self._ends["hour"])}),
            ("tomorrow", _("until tomorrow morning: %(time)s") % {"time": instant(self._ends["tomorrow"])}),
            ("time", _("until the time below (%(zone)s)") % {"zone": zone}),
            ("resumed", _("until somebody resumes it")),
        ]

    def clean(self) -> dict[str, Any]:
        """Want a time where one was chosen, and only there: an hour is not what somebody meant who typed a time."""
        values = super().clean() or {}
        chosen, given = values.get("until_choice") == "time", bool(values.get("until_time"))
        if chosen and not given and "until_time" not in self.errors:
            self.add_error("until_time", _("Say until when."))
        if given and values.get("until_choice") and not chosen:
            self.add_error("until_choice", _("A time is given below: choose it, or leave it empty."))
        return values

    def until(self) -> datetime | None:
        """Return the end of the pause that was asked for; None: when somebody resumes it."""
        choice = self.cleaned_data["until_choice"]
        return self.cleaned_data["until_time"] if choice == "time" else self._ends.get(choice)


def tomorrow(now: datetime) -> datetime:
    """Return the morning of the next day in the current zone."""
    zone = timezone.get_current_timezone()
    return datetime.combine(now.astimezone(zone).date() + timedelta(days=1), MORNING, zone)


def database_time() -> datetime:
    """Return the time by the database's clock, which decides when a pause is over."""
    with connections[Job.objects.write_db].cursor() as cursor:
        cursor.execute("SELECT statement_timestamp()")
        now: datetime = cursor.fetchone()[0]
        return now
