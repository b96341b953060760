"""Until when: what is asked wherever something ends by itself, a pause or a mute, and by whose clock."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, time, timedelta
from typing import Any, Final

from django import forms
from django.db import connections
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobqueue.managers.arriving import LAST_INSTANT
from jobqueue.models import Job

from .wording import instant

HOUR: Final = timedelta(hours=1)
#: When people are back who notice what a queue does that begins to run again.
MORNING: Final = time(8)


def not_too_late(when: datetime) -> None:
    """Refuse a time that could not be read again: west of Greenwich the year 9999 ends in the year 10000."""
    if when > LAST_INSTANT:
        raise forms.ValidationError(_("It must be before the end of the year 9999."))


class UntilForm(forms.Form):
    """Asks for one of some ends, or for a time."""

    until_choice = forms.ChoiceField(label=gettext_lazy("Until"), widget=forms.RadioSelect)
    until_time = forms.DateTimeField(
        label=gettext_lazy("Time"),
        required=False,
        validators=[not_too_late],
        widget=forms.DateTimeInput({"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"),
    )
    _ends: Mapping[str, datetime] = {}

    def offer(self, now: datetime, **further: tuple[datetime | None, str]) -> None:
        """Offer an hour, tomorrow morning and these (end, words) to choose from; no end: it has none."""
        ends = {"hour": now + HOUR, "tomorrow": tomorrow(now)}
        self._ends = {**ends, **{name: end for name, (end, _words) in further.items() if end is not None}}
        zone = timezone.get_current_timezone_name()
        choice: Any = self.fields["until_choice"]
        choice.initial = "hour"
        choice.choices = [
            ("hour", _("for 1 hour: until %(time)s") % {"time": instant(ends["hour"])}),
            ("tomorrow", _("until tomorrow morning: %(time)s") % {"time": instant(ends["tomorrow"])}),
            *((name, words) for name, (end, words) in further.items() if end is not None),
            ("time", _("until the time below (%(zone)s)") % {"zone": zone}),
            *((name, words) for name, (end, words) in further.items() if end is None),
        ]

    def clean(self) -> dict[str, Any]:
        """Want a time where one was chosen, and only there: an hour is not what somebody meant who typed a time."""
        said = super().clean() or {}
        chosen, given = said.get("until_choice") == "time", bool(said.get("until_time"))
        if chosen and not given and "until_time" not in self.errors:
            self.add_error("until_time", _("Say until when."))
        if given and said.get("until_choice") and not chosen:
            self.add_error("until_choice", _("A time is given below: choose it, or leave it empty."))
        return said

    def until(self) -> datetime | None:
        """Return the instant that was asked for; None: it has no end."""
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
