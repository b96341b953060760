"""What all operations share: who may, what is written down of it, and how a set of any size is walked through."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Protocol

from django.core.exceptions import PermissionDenied
from django.db import models, transaction
from django.utils import timezone

from jobqueue.managers.arriving import FIRST_INSTANT, LAST_INSTANT
from jobqueue.models import Action, Job

from .refusals import Refusal, note

if TYPE_CHECKING:
    from jobqueue.managers import JobManager, Moved

logger = logging.getLogger("jobqueue.operations")

BATCH: Final = 1_000
#: Ids are read this many at a time: sorting a large filtered set again for every batch would cost more than the work.
CHUNK: Final = 50_000
LARGEST_ID: Final = 2**63 - 1
REASON_CHARACTERS: Final = 500

#: The permission that a user needs for each action.
PERMISSIONS: Final = {
    **{name: f"jobqueue.{name}_job" for name in ("retry", "discard", "cancel", "release")},
    **dict.fromkeys(("pause_queue", "resume_queue"), "jobqueue.manage_queue"),
    **dict.fromkeys(("ask_stack", "kill_job", "drain_worker", "stop_worker"), "jobqueue.manage_worker"),
    "mark_dead": "jobqueue.release_job",
    **dict.fromkeys(("change_alert", "mute_alert", "unmute_alert"), "jobqueue.manage_alert"),
    "edit_payload": "jobqueue.edit_payload",
    "edit_field": "jobqueue.edit_payload",
    **dict.fromkeys(("hand_over", "note_group", "mute_group", "clone"), "jobqueue.retry_job"),
    "unmask": "jobqueue.view_payload",
    "export_audit": "jobqueue.view_audit",
}


class User(Protocol):
    """What is asked of the user who acts; django.contrib.auth's users answer it."""

    def has_perm(self, perm: str) -> bool:
        """Tell whether the user may."""

    def get_username(self) -> str:
        """Return the name for the audit."""


@dataclass(slots=True)
class Report:
    """What an action did: the ids that changed (so does a running job asked to stop), and why others did not."""

    changed: list[int] = field(default_factory=list)
    refused: dict[int, str] = field(default_factory=dict)


Targets = int | Iterable[int] | models.QuerySet[Any]


def check_permission(actor: User | str, action: str, *, subject: str = "") -> None:
    """Let a command (a str) and a user with the permission pass; raise PermissionDenied for others.

    What is refused is logged and written down (refusals.py), with the `subject` it was asked for: "queue:mail".
    """
    if isinstance(actor, str) or actor.has_perm(PERMISSIONS[action]):
        return
    raise refused(actor, action, PERMISSIONS[action], subject=subject)


def refused(actor: User | str, action: str, permission: str, *, subject: str = "") -> PermissionDenied:
    """Log a refusal and write it down; return the error to raise."""
    logger.warning("action refused action=%s actor=%s permission=%s", action, name_of(actor), permission)
    note(Refusal(actor=name_of(actor), action=action, permission=permission, subject=clean(subject)))
    return PermissionDenied(permission)


def name_of(actor: User | str) -> str:
    """Return the actor's name as the audit keeps it."""
    return clean(actor if isinstance(actor, str) else actor.get_username() or "anonymous")


def act_on_jobs(
    action: str,
    targets: Targets,
    actor: User | str,
    reason: str,
    using: str | None,
    move: Callable[[JobManager, list[int], int], Moved],
    *,
    subject: str = "",
) -> Report:
    """Check, and have `move(manager, ids, jobs found so far)` change each batch, with its audit."""
    check_permission(actor, action)
    manager = manager_of(using)
    alias, report = manager.write_db, Report()
    audit = Action(actor=name_of(actor), action=action, reason=reason, subject=clean(subject))
    for ids, seen in batches(targets, manager, report):
        with transaction.atomic(using=alias):
            moved = move(manager, ids, seen)
            _write_audit(audit, moved, alias)
        report.changed += sorted(moved.changed)
        report.refused |= moved.refused
    logger.info(
        "action done action=%s actor=%s changed=%s refused=%s",
        *(action, audit.actor, len(report.changed), len(report.refused)),
    )
    return report


def manager_of(using: str | None) -> JobManager:
    """Return the manager of the jobs on an alias, None: on their own."""
    return Job.objects.db_manager(using) if using else Job.objects


def _write_audit(audit: Action, moved: Moved, alias: str) -> None:
    """Keep who did what to which jobs, in the transaction of the batch; a batch that changed nothing leaves no row."""
    if moved.changed:
        ids = sorted(moved.changed)
        told = {"actor": audit.actor, "action": audit.action, "reason": audit.reason, "subject": audit.subject}
        Action.objects.using(alias).create(**told, job_ids=ids)


def batches(targets: Targets, manager: JobManager, report: Report) -> Iterator[tuple[list[int], int]]:
    """Yield (ids of a batch, ascending, how many jobs were found so far), each id once."""
    seen = 0
    for chunk in _chunks(targets, manager):
        outside = [job_id for job_id in chunk if not 0 < job_id <= LARGEST_ID]
        report.refused |= dict.fromkeys(outside, "no such job")
        inside = [job_id for job_id in chunk if 0 < job_id <= LARGEST_ID] if outside else chunk
        seen += len(inside)
        for start in range(0, len(inside), BATCH):
            yield inside[start : start + BATCH], seen


def _chunks(targets: Targets, manager: JobManager) -> Iterator[list[int]]:
    if isinstance(targets, int):
        yield [targets]
    elif isinstance(targets, models.QuerySet):
        # Read from the primary: a replica may not know yet which jobs have died.
        yield from _walk(targets.using(manager.write_db), manager)
    else:
        yield sorted({int(job_id) for job_id in targets})


def _walk(rows: models.QuerySet[Any], manager: JobManager) -> Iterator[list[int]]:
    if rows.query.is_sliced or rows.query.combinator:  # neither can be filtered further
        yield sorted(set(rows.values_list("pk", flat=True)))
        return
    newest = manager.using(manager.write_db).order_by("-pk").values_list("pk", flat=True).first() or 0
    ids, last = rows.order_by("pk").values_list("pk", flat=True), 0
    while chunk := list(ids.filter(pk__gt=last, pk__lte=newest)[:CHUNK]):
        yield chunk
        last = chunk[-1]


def check_time(when: datetime, name: str = "the time", *, future: bool = False) -> None:
    """Raise ValueError for a time that is naive or that nobody could read again; with `future` for a past one, too."""
    if timezone.is_naive(when) or (future and when <= timezone.now()):
        raise ValueError(f"{name} must be {'an aware time in the future' if future else 'aware'}, not {when}")
    if not FIRST_INSTANT <= when <= LAST_INSTANT:
        raise ValueError(f"{name} must be from the year 1 to the year 9999 in every time zone, not {when}")


def clean(text: str) -> str:
    """Return what the database can store of a text that a person typed."""
    cut = text if len(text) <= REASON_CHARACTERS else text[: REASON_CHARACTERS - 1] + "…"
    return cut.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode()
