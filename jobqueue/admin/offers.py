"""What the page of a job offers to do to it: simple things by a button, grave ones behind a question that folds out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from jobqueue.models import Job
from jobqueue.ops.reasons import STUCK, Reason
from jobqueue.states import ACTIVE, Status

#: What the page of a job offers, by its status; release and mark_dead only where the job is stuck.
OFFERED: Final[dict[int, tuple[str, ...]]] = {
    **{int(status): ("cancel", "clone") for status in ACTIVE},
    int(Status.RUNNING): ("release", "cancel", "kill", "mark_dead", "clone"),
    int(Status.DEAD): ("retry", "retry_at", "edit", "discard", "clone"),
    int(Status.DONE): ("clone",),
    int(Status.CANCELLED): ("clone",),
}
ONLY_STUCK: Final = frozenset({"release", "mark_dead"})
#: The actions whose permissions each needs; its own where it is not named.
NEEDS: Final[dict[str, tuple[str, ...]]] = {
    "retry_at": ("retry",),
    "edit": ("edit_payload", "retry"),
    "kill": ("kill_job",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One thing that may be done; with a `question` it folds out and asks, with `has_time` it asks for a time, too."""

    name: str
    label: Any
    question: Any = ""
    is_danger: bool = False
    has_time: bool = False
    is_link: bool = False
    url: str = ""


_OFFERS: Final = (
    Offer(name="retry", label=_("Retry now")),
    Offer(name="release", label=_("Release")),
    Offer(name="clone", label=_("Clone")),
    Offer(name="edit", label=_("Edit the payload and retry"), is_link=True),
    Offer(
        name="retry_at",
        label=_("Retry at a time"),
        question=_("It waits as scheduled until then, and starts with a fresh budget of attempts."),
        has_time=True,
    ),
    Offer(
        name="cancel",
        label=_("Cancel"),
        question=_(
            "It will not run. If it runs already its worker is asked to stop it: what it has done outside of the queue"
            " stays done."
        ),
        is_danger=True,
    ),
    Offer(
        name="discard",
        label=_("Discard"),
        question=_("It counts as cancelled for good and is pruned in time. Nobody can retry it afterwards."),
        is_danger=True,
    ),
    Offer(
        name="kill",
        label=_("Kill"),
        question=_(
            "Its worker kills the process that runs it, and all that it started, without asking the handler. The"
            " attempt ends as crashed and is charged: the job is tried again, or is dead after its last attempt."
        ),
        is_danger=True,
    ),
    Offer(
        name="mark_dead",
        label=_("Mark dead"),
        question=_(
            "It becomes a dead letter, and the attempt is charged. What its lost worker still sends is refused, but"
            " what it does outside of the queue cannot be stopped from here."
        ),
        is_danger=True,
    ),
)
#: Those with an address of their own; the others share that of the verbs.
_OWN: Final = frozenset({"clone", "edit", "retry_at", "kill"})


def offers(job: Job, reasons: list[Reason], allowed: Callable[[str], bool]) -> list[Offer]:
    """Return what may be done to a job as it stands, simple things first; `allowed` tells of each action."""
    stuck = bool(STUCK & {reason.code for reason in reasons})
    names = {name for name in OFFERED.get(job.status, ()) if stuck or name not in ONLY_STUCK}
    return [
        _at(offer, job)
        for offer in _OFFERS
        if offer.name in names and all(allowed(action) for action in NEEDS.get(offer.name, (offer.name,)))
    ]


def _at(offer: Offer, job: Job) -> Offer:
    """Return the offer with its address."""
    if offer.name in _OWN:
        return replace(offer, url=reverse(f"admin:jobqueue_job_{offer.name}", args=[job.pk]))
    return replace(offer, url=reverse("admin:jobqueue_job_act", args=[job.pk, offer.name]))
