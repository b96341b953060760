"""What people note of groups of dead letters: whose they are, what is known of them, that they are not to be looked at.

A group is one fingerprint of one job type. Its note outlives its dead letters: when the error comes back, so does what
is known of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from django.db import transaction
from django.db.models import Q

from jobqueue.exceptions import JobQueueError
from jobqueue.models import Action, GroupNote
from jobqueue.models.expressions import StatementTimestamp
from jobqueue.states import Status

from .acting import User, check_permission, check_time, clean, logger, manager_of, name_of

if TYPE_CHECKING:
    from jobqueue.managers import JobManager

NOTE_CHARACTERS: Final = 5_000
#: So many groups are changed at once.
GROUPS: Final = 100
DAY: Final = timedelta(hours=24)
#: Nobody needs to know more exactly how often a group dies that is muted until it does so twice as often.
RATE_CAP: Final = 10_000


class Group(NamedTuple):
    """One fingerprint ("": jobs that died without an error) of one job type."""

    fingerprint: str
    job_type: str

    @property
    def subject(self) -> str:
        """What the audit calls it."""
        return clean(f"group:{self.fingerprint or '-'}/{self.job_type}")


class NoteChanged(JobQueueError):
    """Somebody else has changed the note since it was read."""

    def __init__(self, by: str) -> None:
        super().__init__(f"{by} has changed it meanwhile")
        self.by = by


def hand_over(
    groups: Iterable[Group], to: User | None, *, actor: User | str, reason: str = "", using: str | None = None
) -> int:
    """Put groups into the hands of a user who may see jobs, or of nobody (None). Returns how many changed.

    Raises PermissionDenied for an actor who may not retry jobs, and ValueError for a user who may not see any.
    """
    if to is not None and not (getattr(to, "is_active", True) and to.has_perm("jobqueue.view_job")):
        raise ValueError(f"{name_of(to)} may not see jobs")
    name = "" if to is None else name_of(to)
    return _change("hand_over", groups, actor, reason, using, lambda _group: {"assignee": name})


def note_group(
    group: Group, note: str, *, actor: User | str, seen: datetime | None = None, using: str | None = None
) -> bool:
    """Write what is known of a group. Returns whether that changed.

    `seen` is the `updated_at` of the note that the actor read, None: they read none. Raises NoteChanged where it is no
    longer the one, and PermissionDenied for an actor who may not retry jobs.
    """
    text = note.replace("\x00", "").encode("utf-8", "backslashreplace").decode()[:NOTE_CHARACTERS]

    def written(row: GroupNote) -> dict[str, Any]:
        if row.note and row.note != text and row.updated_at != seen:
            raise NoteChanged(row.updated_by)
        return {"note": text}

    return bool(_change("note_group", [group], actor, "", using, lambda _group: {}, written))


def mute_groups(
    groups: Iterable[Group],
    until: datetime | None,
    *,
    actor: User | str,
    reason: str = "",
    doubled: bool = False,
    using: str | None = None,
) -> int:
    """Fold groups away until an aware time, or show them again (None). Returns how many changed.

    `doubled` shows a group earlier when twice as many die in 24 hours as did now. Raises PermissionDenied for an actor
    who may not retry jobs, and ValueError for a time that is naive or past.
    """
    if until is not None:
        check_time(until, "until", future=True)
    manager = manager_of(using)

    def muted(group: Group) -> dict[str, Any]:
        return {"muted_until": until, "muted_rate": _rate(manager, group) if doubled and until else None}

    return _change("mute_group", groups, actor, reason, using, muted)


def _rate(manager: JobManager, group: Group) -> int:
    """Return how many of a group died within the last 24 hours, the cap at most."""
    rows = manager.using(manager.write_db).filter(
        of_group(group), status=Status.DEAD, finished_at__gt=StatementTimestamp() - DAY
    )
    return rows.order_by().values("pk")[:RATE_CAP].count()


def of_group(group: Group) -> Q:
    """Return the condition of the jobs of a group."""
    print_ = Q(fingerprint=group.fingerprint) if group.fingerprint else Q(fingerprint__isnull=True)
    return print_ & Q(job_type=group.job_type)


def _change(
    action: str,
    groups: Iterable[Group],
    actor: User | str,
    reason: str,
    using: str | None,
    values: Callable[[Group], dict[str, Any]],
    more: Callable[[GroupNote], dict[str, Any]] = lambda _row: {},
) -> int:
    """Change the notes of groups, each with an audit row of its own in the same transaction."""
    wanted = sorted(set(groups))[:GROUPS]
    check_permission(actor, action, subject=wanted[0].subject if len(wanted) == 1 else "")
    alias, changed = manager_of(using).write_db, 0
    told = {group: values(group) for group in wanted}
    with transaction.atomic(using=alias):
        notes = GroupNote.objects.using(alias)
        notes.bulk_create([GroupNote(**group._asdict()) for group in wanted], ignore_conflicts=True)
        for group in wanted:  # in their order, so that two people cannot wait for each other
            row = notes.select_for_update().get(**group._asdict())
            changed += _write(row, group, told[group] | more(row), Action(actor=name_of(actor), action=action), reason)
    logger.info("action done action=%s actor=%s groups=%s", action, name_of(actor), changed)
    return changed


def _write(row: GroupNote, group: Group, values: dict[str, Any], audit: Action, reason: str) -> bool:
    detail = {
        name: {"from": _plain(getattr(row, name)), "to": _plain(value)}
        for name, value in values.items()
        if getattr(row, name) != value
    }
    if not detail:
        return False
    alias = row._state.db
    for name, value in values.items():
        setattr(row, name, value)
    row.updated_by, row.updated_at = audit.actor, StatementTimestamp()
    row.save(using=alias)
    audit.reason, audit.job_ids, audit.subject, audit.detail = clean(reason), [], group.subject, detail
    audit.save(using=alias)
    return True


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value
