"""A group of dead letters as pages show it: its counts, its trend and its times in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from jobqueue.ops.dead_groups import WINDOWS, DeadGroup

from .base import job_url
from .wording import instant, shortened

if TYPE_CHECKING:
    from jobqueue.operations import Group

MESSAGE_CHARACTERS: Final = 200
#: A trend in words; a number goes with those that tell of a pace.
TRENDS: Final[dict[str, Any]] = {
    "new": _("new"),
    "rising": _("rising"),
    "steady": _("steady"),
    "falling": _("falling"),
    "quiet": _("quiet"),
    "unknown": _("unknown"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """A group as the page shows it."""

    group: DeadGroup
    counts: list[str]  # one a window, then of all
    query: str = ""  # what the list is asked to show it alone

    @property
    def jobs(self) -> int:
        """Return the number of its dead letters, as far as they were read."""
        return self.group.jobs

    @property
    def error_class(self) -> str:
        """Return the class of the error."""
        return self.group.error_class or gettext("No error was kept")

    @property
    def message(self) -> str:
        """Return the head of the normalised message."""
        return shortened(self.group.message, MESSAGE_CHARACTERS)

    @property
    def first_died(self) -> str:
        """Return when the first one died; a sign before it says that one may have died earlier."""
        first = instant(self.group.first_at)
        return first if self.group.exact() or self.group.first_at is None else f"≤ {first}"

    @property
    def last_died(self) -> str:
        """Return when the last one died."""
        return instant(self.group.last_at)

    @property
    def trend(self) -> str:
        """Return the trend in a word."""
        return str(TRENDS[self.group.trend])

    @property
    def pace(self) -> str:
        """Return this hour as a multiple of the day's mean, where that tells something."""
        if self.group.trend not in ("rising", "steady", "falling"):
            return ""
        return gettext("%(times)s times the day's mean") % {"times": f"{self.group.pace:.1f}"}

    @property
    def url(self) -> str:
        """Return the address of its page."""
        return group_url(self.group.key)

    @property
    def muted_until(self) -> str:
        """Return until when it is muted."""
        return instant(self.group.note.muted_until if self.group.note else None)

    @property
    def newest_url(self) -> str:
        """Return the address of the newest job of the group."""
        return job_url(self.group.newest)


def counts_of(group: DeadGroup) -> list[str]:
    """Return the counts by window, then of all; one that older dead letters could add to has a sign before it."""
    counts = [(group.within[name], group.exact(span)) for name, span in WINDOWS.items()]
    return [f"{jobs}" if exact else f"≥ {jobs}" for jobs, exact in (*counts, (group.jobs, group.exact()))]


def group_url(group: Group) -> str:
    """Return the address of a group's page."""
    query = urlencode({"job_type": group.job_type, "fingerprint": group.fingerprint})
    return f"{reverse('admin:jobqueue_deadletter_group')}?{query}"
