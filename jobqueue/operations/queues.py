"""What people do with queues: pause and resume."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial

from django.db import connections, transaction

from jobqueue.managers import pausing
from jobqueue.managers.waking import wake_after_commit
from jobqueue.models import Action
from jobqueue.payloads import check_name

from .acting import User, check_permission, check_time, clean, logger, manager_of, name_of


def pause_queue(
    name: str, *, actor: User | str, reason: str = "", until: datetime | None = None, using: str | None = None
) -> None:
    """Pause a queue, or all with "*", until an instant or until it is resumed: no job of it is claimed from then on.

    Jobs claimed before go on. "*" leaves out the package's own queue, jobqueue: alarms are sent all the same. A queue
    that nobody knows yet can be paused; one that is paused is from now on paused by this actor.

    Raises PermissionDenied, InvalidName, and ValueError for an `until` that is naive or past.
    """
    if until is not None:
        check_time(until, "until", future=True)
    why, who = clean(reason), name_of(actor)
    pause = partial(pausing.pause, name=name, paused_by=who, reason=why, until=until)
    detail = None if until is None else {"until": until.isoformat()}
    _act_on_queue("pause_queue", name, actor, why, using, pause, detail)


def resume_queue(name: str, *, actor: User | str, reason: str = "", using: str | None = None) -> bool:
    """Resume a queue, or take back the pause of all with "*", and wake workers. Returns whether it was paused.

    A queue named here stays paused while "*" is. What a budget had paused stays resumed until its next window. Raises
    PermissionDenied and InvalidName.
    """
    why = clean(reason)
    resumed = _act_on_queue("resume_queue", name, actor, why, using, partial(pausing.resume, name=name))
    if resumed:
        manager = manager_of(using)
        wake_after_commit(connections[manager.write_db], pausing.woken_by(manager.run_sql, name))
    return resumed


def _act_on_queue(
    action: str,
    name: str,
    actor: User | str,
    reason: str,
    using: str | None,
    act: Callable[..., object],
    detail: dict[str, str] | None = None,
) -> bool:
    """Change one queue and write the audit row of it; nothing changed leaves none. Returns whether it changed."""
    check_permission(actor, action, subject=f"queue:{name}")
    if name != pausing.ALL_QUEUES:
        check_name("queue", name)
    manager = manager_of(using)
    with transaction.atomic(using=manager.write_db):
        changed = bool(act(manager.run_sql))
        if changed:
            Action.objects.using(manager.write_db).create(
                actor=name_of(actor), action=action, reason=reason, job_ids=[], subject=f"queue:{name}", detail=detail
            )
    logger.info("action done action=%s actor=%s queue=%s changed=%s", action, name_of(actor), name, changed)
    return changed
