"""What people say of groups of dead letters: in whose hands they are, what is known, for how long they are muted."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from django import forms
from django.contrib.auth import get_user_model
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext_lazy as _

from jobqueue import operations
from jobqueue.ops.limited import read_within

if TYPE_CHECKING:
    from django.contrib.auth.models import User

SEES: Final = "jobqueue.view_job"
BACKEND: Final = "django.contrib.auth.backends.ModelBackend"
LIMIT: Final = timedelta(milliseconds=300)
#: So many names are offered; any other can be typed.
OFFERED: Final = 50
SPANS: Final[dict[str, tuple[timedelta, Any]]] = {
    "1h": (timedelta(hours=1), _("for an hour")),
    "1d": (timedelta(days=1), _("for a day")),
    "7d": (timedelta(days=7), _("for 7 days")),
    "30d": (timedelta(days=30), _("for 30 days")),
}
REASON: Final[dict[str, Any]] = {"required": False, "max_length": operations.REASON_CHARACTERS}


def people() -> list[str]:
    """Return the names of active staff who may see jobs, in one query; none where that cannot be told in time."""
    manager = get_user_model()._default_manager
    if not hasattr(manager, "with_perm"):
        return []
    found = manager.with_perm(SEES, backend=BACKEND)
    name = get_user_model().USERNAME_FIELD
    if hasattr(get_user_model(), "is_staff"):
        found = found.filter(is_staff=True)
    names = found.order_by(name).values_list(name, flat=True)[:OFFERED]
    return [str(one) for one in read_within(names.db, lambda: list(names), LIMIT) or ()]


class HandOverForm(forms.Form):
    """Whose a group is to be; empty: nobody's."""

    to = forms.CharField(label=_("In the hands of"), required=False, max_length=150)
    reason = forms.CharField(label=_("Reason"), **REASON)

    def clean_to(self) -> User | None:
        """Return the user, if there is one who may see jobs."""
        name = self.cleaned_data["to"]
        if not name:
            return None
        model = get_user_model()
        user = model._default_manager.filter(**{model.USERNAME_FIELD: name}).first()
        if user is None or not user.is_active or not getattr(user, "is_staff", True) or not user.has_perm(SEES):
            text = _("Nobody of the active staff who may see jobs is called %(name)s.")
            raise forms.ValidationError(text, params={"name": name})
        return user


class NoteForm(forms.Form):
    """What is known of a group."""

    note = forms.CharField(
        label=_("What is known of it"),
        required=False,
        max_length=operations.NOTE_CHARACTERS,
        widget=forms.Textarea(attrs={"rows": 4}),
    )
    seen = forms.CharField(required=False)

    def clean_seen(self) -> Any:
        """Return when the note was changed that the person read, None for no note."""
        text = self.cleaned_data["seen"]
        try:
            return parse_datetime(text) if text else None
        except ValueError as error:
            raise forms.ValidationError(_("This form is not complete: open it again.")) from error


class MuteForm(forms.Form):
    """For how long a group is not to be looked at."""

    span = forms.ChoiceField(label=_("Mute"), choices=[(key, label) for key, (_span, label) in SPANS.items()])
    doubled = forms.BooleanField(label=_("or until twice as many die in a day as now"), required=False)
    reason = forms.CharField(label=_("Reason"), **REASON)
