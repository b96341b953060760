"""The form of the page that asks before an action: a reason, and how many dead letters are put back how fast."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from django import forms
from django.utils.translation import gettext_lazy as _

from jobqueue import operations

from .running import Run

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser, User

    from .preview import Preview

LONGEST_SPREAD_SECONDS: Final = 7 * 86_400
LARGEST_NUMBER: Final = 2**31 - 1
#: What a set has that nobody could count.
MANY: Final = 1_000_000
#: What puts jobs back, over some time.
SPREAD: Final = frozenset({"retry", "edit_field"})


class ActForm(forms.Form):
    """What a person may say about an action; the hidden fields hold the set as it was counted."""

    newest = forms.IntegerField(widget=forms.HiddenInput, min_value=0)
    moment = forms.DateTimeField(widget=forms.HiddenInput)
    jobs = forms.IntegerField(widget=forms.HiddenInput, min_value=0, required=False)
    reason = forms.CharField(
        label=_("Reason"), required=False, max_length=operations.REASON_CHARACTERS, help_text=_("Kept with the action.")
    )
    most = forms.IntegerField(
        label=_("Only so many"),
        required=False,
        min_value=1,
        max_value=LARGEST_NUMBER,
        help_text=_("The oldest ones. Empty: all of them."),
    )
    a_minute = forms.IntegerField(
        label=_("At most a minute"),
        required=False,
        min_value=1,
        max_value=LARGEST_NUMBER,
        help_text=_("Slowly: so many become due each minute. This takes the place of the time below."),
    )
    spread_seconds = forms.IntegerField(
        label=_("Spread over (seconds)"),
        required=False,
        min_value=0,
        max_value=LONGEST_SPREAD_SECONDS,
        help_text=_("The jobs become due at random within this time, so that they do not come back all at once."),
    )

    def __init__(self, verb: str, *args: Any, across: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Rows that were ticked are the set themselves, so it is not to be held.
        of_sets = () if across else ("newest", "moment", "jobs", "most", "a_minute")
        of_retries = () if verb == "retry" else ("most", "a_minute", "spread_seconds")
        for name in {*of_sets, *of_retries}:
            del self.fields[name]
        for name, field in self.fields.items():
            if field.help_text:
                field.widget.attrs["aria-describedby"] = f"id_{name}_helptext"

    @property
    def is_outdated(self) -> bool:
        """Tell whether the set that was counted cannot be told any more."""
        return any(name in self.errors for name in ("newest", "moment", "jobs"))

    def clean(self) -> dict[str, Any]:
        """Make the time of the spread from the rate."""
        cleaned: dict[str, Any] = self.cleaned_data
        rate, most, jobs = cleaned.get("a_minute"), cleaned.get("most"), cleaned.get("jobs")
        if rate:
            known = [number for number in (most, jobs) if number]
            seconds = min(known, default=0) * 60 // rate
            if not known:
                self.add_error("most", _("Nobody knows how many there are: say how many to retry at this rate."))
            elif seconds > LONGEST_SPREAD_SECONDS:
                self.add_error("a_minute", _("That would take more than seven days: take fewer, or more a minute."))
            cleaned["spread_seconds"] = seconds
        return cleaned

    def options(self) -> dict[str, Any]:
        """Return the arguments for the operation."""
        options: dict[str, Any] = {"reason": self.cleaned_data["reason"]}
        seconds = self.cleaned_data.get("spread_seconds")
        return options if seconds is None else options | {"spread": timedelta(seconds=seconds)}

    def run(self, verb: str, user: User | AnonymousUser) -> Run:
        """Return the run of the action on the set that was counted."""
        said = self.cleaned_data
        seconds = said.get("spread_seconds")
        if verb in SPREAD and seconds is None:
            # By the number of the whole set, not of each step: all steps together have this much time.
            seconds = default_seconds(said.get("most") or said["jobs"])
        return Run(
            verb=verb,
            user=str(user.pk),
            newest=said["newest"],
            moment=said["moment"].isoformat(),
            total=said["jobs"],
            most=said.get("most"),
            reason=said["reason"],
            spread_seconds=seconds,
        )


def set_of(seen: Preview) -> dict[str, Any]:
    """Return what a form begins with: the set as it was counted, and a time to spread it over."""
    jobs = None if seen.capped else seen.jobs
    return {
        "newest": seen.newest,
        "moment": seen.moment.isoformat() if seen.moment else "",
        "jobs": jobs,
        "spread_seconds": default_seconds(jobs),
    }


def default_seconds(jobs: int | None) -> int:
    """Return over how many seconds so many retried jobs are spread when nobody says; None: nobody could count them."""
    return int(operations.default_spread(MANY if jobs is None else jobs).total_seconds())
