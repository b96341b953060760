"""The states of a job and the changes between them that are allowed."""

from __future__ import annotations

from typing import Final

from django.db.models.enums import IntegerChoices
from django.utils.translation import gettext_lazy as _


class Status(IntegerChoices):
    """Where a job stands; the numbers are what the database stores and what SQL files spell out."""

    PENDING = 1, _("pending")
    RUNNING = 2, _("running")
    DONE = 3, _("done")
    DEAD = 4, _("dead")
    SCHEDULED = 5, _("scheduled")
    WAITING = 6, _("waiting")
    CANCELLED = 7, _("cancelled")


#: A job in one of these states still has something to do, and holds its dedupe key.
ACTIVE: Final = (Status.PENDING, Status.RUNNING, Status.SCHEDULED, Status.WAITING)

#: Nothing happens to a job in one of these states by itself.
FINISHED: Final = (Status.DONE, Status.DEAD, Status.CANCELLED)

#: Every allowed change; WAITING is reserved for dependencies and has none yet.
TRANSITIONS: Final[dict[Status, frozenset[Status]]] = {
    Status.PENDING: frozenset({Status.RUNNING, Status.SCHEDULED, Status.CANCELLED}),
    Status.RUNNING: frozenset({Status.DONE, Status.PENDING, Status.SCHEDULED, Status.DEAD, Status.CANCELLED}),
    Status.DONE: frozenset(),
    Status.DEAD: frozenset({Status.PENDING, Status.SCHEDULED, Status.CANCELLED}),
    Status.SCHEDULED: frozenset({Status.PENDING, Status.SCHEDULED, Status.CANCELLED}),
    Status.WAITING: frozenset(),
    Status.CANCELLED: frozenset(),
}


def status_name(value: int) -> str:
    """Return the name of a status; of a number that is none, which only a row written by hand has, the number."""
    return Status(value).name if value in Status.values else str(value)


def can_change(current: Status, wanted: Status) -> bool:
    """Tell whether a job may go from one state to the other."""
    return wanted in TRANSITIONS[current]
