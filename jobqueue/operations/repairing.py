"""What people do with one job that went wrong: edit its payload, retry it later, run it anew, look behind the masks."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from django.db import transaction
from django.db.models import JSONField, Value
from django.db.models.functions import Cast

from jobqueue.exceptions import InputLimitExceeded, InvalidTransition
from jobqueue.limits import check_input
from jobqueue.managers.arriving import Arrival, arrive
from jobqueue.models import Action, Job
from jobqueue.registry import registry
from jobqueue.states import Status

from .acting import Report, Targets, User, act_on_jobs, check_permission, check_time, clean, logger, manager_of, name_of

if TYPE_CHECKING:
    from jobqueue.managers import JobManager


class Seen(NamedTuple):
    """The job as somebody saw it who decides on what they saw; any change of its row makes another one."""

    updated_at: datetime
    lease_epoch: int


def retry_at(
    targets: Targets, when: datetime, *, actor: User | str, reason: str = "", using: str | None = None
) -> Report:
    """Put dead letters back with a fresh budget of attempts, due at an aware time; a past one makes them due at once.

    Refused as in retry(). Raises PermissionDenied, and ValueError for a naive time.
    """
    check_time(when)
    return act_on_jobs(
        "retry", targets, actor, clean(reason), using, lambda manager, ids, _: manager.redrive(ids, not_before=when)
    )


def check_payload(job_type: str, payload: Mapping[str, Any]) -> Arrival:
    """Check a payload as an enqueue does, and by the limits on what it holds, which a worker would check otherwise.

    Raises UnknownJobType, HandlerImportError, PayloadError and InputLimitExceeded.
    """
    handler = registry.resolve(job_type, payload)  # first: a task may be in no module imported so far
    arrival = arrive(job_type, payload)
    broken = check_input(handler.limits, handler.bounded(payload), arrival.payload_bytes)
    if broken is not None:
        raise InputLimitExceeded(broken)
    return arrival


def edit_and_retry(
    job_id: int,
    payload: Mapping[str, Any],
    *,
    seen: Seen,
    actor: User | str,
    reason: str = "",
    when: datetime | None = None,
    using: str | None = None,
) -> None:
    """Give a dead letter another payload and put it back, at once or at an aware time; both or nothing.

    The payload before is kept with the action (Action.detail). Raises PermissionDenied (it needs the permissions to
    edit and to retry), InvalidTransition where the job is no longer as it was seen or another holds its key, ValueError
    for a naive time, and what check_payload() raises.
    """
    check_permission(actor, "edit_payload")
    check_permission(actor, "retry")
    if when is not None:
        check_time(when)
    manager = manager_of(using)
    with transaction.atomic(using=manager.write_db):
        job = _read(manager, job_id, "edit")
        arrival = check_payload(job.job_type, payload)
        before = manager.edit_payload(job_id, arrival.payload, arrival.payload_bytes, **seen._asdict())
        if before is None:
            raise _moved_on(manager, job_id)
        manager.redrive(job_id, not_before=when)
        # As texts: Python would round what jsonb keeps to the last digit.
        detail = f'{{"payload": {{"from": {before}, "to": {arrival.payload}}}}}'
        _write(manager, actor, "edit_payload", reason, [job_id], Cast(Value(detail), JSONField()))
    logger.info("action done action=edit_payload actor=%s job_id=%s", name_of(actor), job_id)


def clone(job_id: int, *, actor: User | str, reason: str = "", using: str | None = None) -> Job:
    """Enqueue a new job like this one, whatever its status: type, queue, payload, priority, owner, attempts allowed.

    It has no dedupe key: the first may hold it still. Raises PermissionDenied, InvalidTransition where there is no such
    job, and what check_payload() and Job.objects.enqueue() raise: the handler may be gone, or a budget be spent.
    """
    check_permission(actor, "clone")
    manager = manager_of(using)
    with transaction.atomic(using=manager.write_db):
        job = _read(manager, job_id, "clone")
        check_payload(job.job_type, job.payload)
        arrival = arrive(
            job.job_type,
            job.payload,
            queue=job.queue,
            priority=job.priority,
            max_attempts=job.max_attempts,
            owner=job.owner,
        )
        new = manager.enqueue_arrival(arrival._replace(task_backend=job.task_backend))
        assert new is not None  # only a key that is held gives None
        _write(manager, actor, "clone", reason, [job_id, new.pk], {"of": job_id, "clone": new.pk})
    logger.info("action done action=clone actor=%s job_id=%s clone=%s", name_of(actor), job_id, new.pk)
    return new


def unmask(job_id: int, *, actor: User | str, what: str = "", using: str | None = None) -> None:
    """Write down that somebody looks at the hidden values of a job, before they are shown. Raises PermissionDenied."""
    check_permission(actor, "unmask")
    _write(manager_of(using), actor, "unmask", what, [job_id], None)
    logger.info("action done action=unmask actor=%s job_id=%s", name_of(actor), job_id)


def _read(manager: JobManager, job_id: int, wanted: str) -> Job:
    job = manager.using(manager.write_db).filter(pk=job_id).first()
    if job is None:
        raise InvalidTransition(job_id, None, wanted)
    return job


def _moved_on(manager: JobManager, job_id: int) -> InvalidTransition:
    job = _read(manager, job_id, "edit")
    known = Status(job.status) if job.status in Status.values else None
    return InvalidTransition(job_id, known, "edit", "it has changed since it was read" if known == Status.DEAD else "")


def _write(manager: JobManager, actor: User | str, action: str, reason: str, ids: list[int], detail: Any) -> None:
    Action.objects.using(manager.write_db).create(
        actor=name_of(actor), action=action, reason=clean(reason), job_ids=ids, detail=detail
    )
