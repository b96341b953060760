"""What is asked before a queue is paused or resumed: until when, why and, of all queues, whether that is meant."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobqueue import operations
from jobqueue.managers.pausing import ALL_QUEUES

from .until import UntilForm


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


class PauseForm(UntilForm, _QueueForm):
    """What is asked before a queue is paused."""

    field_order = ("queue", "until_choice", "until_time", "reason", "sure")

    def __init__(self, data: Any = None, *, name: str = "", now: datetime) -> None:
        """Take the database's time: an hour is an hour of its clock."""
        super().__init__(data, name=name)
        self.offer(now, resumed=(None, _("until somebody resumes it")))
