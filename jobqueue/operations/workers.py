"""What people ask of workers: where a handler is, to kill one, to drain or stop a worker; and to give up stuck jobs.

What is asked is a row (models.Order) that the worker reads within about a second, obeys and answers. The row names the
worker and, for a job, its attempt: a worker that has gone on to another attempt refuses. Nobody waits for the answer
here: read the row again. A worker that is gone never answers; after SILENT_AFTER people should be told so.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from django.db import connections, transaction
from django.db.models import Q

from jobqueue.exceptions import InvalidTransition, UnknownWorker
from jobqueue.managers.waking import tell_workers
from jobqueue.models import Action, Order, Worker
from jobqueue.models.expressions import StatementTimestamp
from jobqueue.states import Status

from .acting import Report, Targets, User, act_on_jobs, check_permission, clean, logger, manager_of, name_of, refused

if TYPE_CHECKING:
    from jobqueue.managers import JobManager

#: A living worker has answered by then.
SILENT_AFTER: Final = timedelta(seconds=10)


def ask_stack(job_id: int, *, actor: User | str, using: str | None = None) -> Order:
    """Ask where the handler of a running job is. The answer is its stack: files, lines and functions, no values.

    Whoever asks again before the answer has come gets the same order. Raises PermissionDenied (it needs the permission
    to view jobs, too), and InvalidTransition where no worker runs the job.
    """
    check_permission(actor, "ask_stack", subject=f"job:{job_id}")
    if not isinstance(actor, str) and not actor.has_perm("jobqueue.view_job"):
        raise refused(actor, "ask_stack", "jobqueue.view_job", subject=f"job:{job_id}")
    return _order_about_job(Order.Kind.STACK, "ask_stack", job_id, actor, "", using)


def kill_job(
    job_id: int, *, actor: User | str, reason: str = "", lease_epoch: int | None = None, using: str | None = None
) -> Order:
    """Have the process that runs a job killed, unasked, with all that it started.

    `lease_epoch` is that of the run that is meant, as the actor saw it; None: whichever runs now.

    The attempt ends as crashed, "killed by NAME", and is charged: the job is tried again after its backoff, or dead
    when it was the last attempt. Other jobs of the same process (--threads) are given back uncharged. Raises
    PermissionDenied, and InvalidTransition where no worker runs the job, or another run of it than was meant.
    """
    check_permission(actor, "kill_job", subject=f"job:{job_id}")
    return _order_about_job(Order.Kind.KILL, "kill_job", job_id, actor, reason, using, meant=lease_epoch)


def drain_worker(worker_id: str, *, actor: User | str, reason: str = "", using: str | None = None) -> Order:
    """Have a worker finish what runs, claim nothing more, and end: as SIGTERM does, with its SHUTDOWN_TIMEOUT.

    Raises PermissionDenied, and UnknownWorker where there is no such worker.
    """
    return _order_to_worker(Order.Kind.DRAIN, "drain_worker", worker_id, actor, reason, using)


def stop_worker(worker_id: str, *, actor: User | str, reason: str = "", using: str | None = None) -> Order:
    """Have a worker cut off what runs, uncharged, and end at once: as a second SIGTERM does.

    Raises PermissionDenied, and UnknownWorker where there is no such worker.
    """
    return _order_to_worker(Order.Kind.STOP, "stop_worker", worker_id, actor, reason, using)


def mark_dead(targets: Targets, *, actor: User | str, reason: str = "", using: str | None = None) -> Report:
    """Make dead letters of stuck running jobs, charged; what their old workers still send is refused.

    Refused: jobs that are not stuck (QuerySet.stuck()). One with a request to cancel becomes CANCELLED instead. Raises
    PermissionDenied.
    """
    why = clean(reason)
    return act_on_jobs(
        "mark_dead", targets, actor, why, using, lambda manager, ids, _: manager.mark_dead(ids, reason=why)
    )


def _order_about_job(
    kind: Order.Kind,
    action: str,
    job_id: int,
    actor: User | str,
    reason: str,
    using: str | None,
    *,
    meant: int | None = None,
) -> Order:
    manager = manager_of(using)
    with transaction.atomic(using=manager.write_db):
        job = manager.using(manager.write_db).filter(pk=job_id).values("status", "worker_id", "lease_epoch").first()
        if job is None or job["status"] != Status.RUNNING or not job["worker_id"]:
            status = None if job is None or job["status"] not in Status.values else Status(job["status"])
            raise InvalidTransition(job_id, status, action.replace("_", " "))
        if meant is not None and job["lease_epoch"] != meant:
            raise InvalidTransition(job_id, Status.RUNNING, action.replace("_", " "), "another run of it has begun")
        order = Order(
            kind=kind,
            worker_id=job["worker_id"],
            job_id=job_id,
            lease_epoch=job["lease_epoch"],
            asked_by=name_of(actor),
        )
        return _write(manager, order, action, reason)


def _order_to_worker(
    kind: Order.Kind, action: str, worker_id: str, actor: User | str, reason: str, using: str | None
) -> Order:
    check_permission(actor, action, subject=f"worker:{worker_id}")
    manager = manager_of(using)
    with transaction.atomic(using=manager.write_db):
        if not Worker.objects.using(manager.write_db).filter(pk=clean(worker_id)).exists():
            raise UnknownWorker(worker_id)
        order = Order(kind=kind, worker_id=worker_id, asked_by=name_of(actor))
        return _write(manager, order, action, reason)


def _write(manager: JobManager, order: Order, action: str, reason: str) -> Order:
    """Insert the order and its audit row, and tell the worker; where the same was asked just now, return that order."""
    alias = manager.write_db
    same = Order.objects.using(alias).filter(
        Q(asked_at__gt=StatementTimestamp() - SILENT_AFTER),
        worker_id=order.worker_id,
        kind=order.kind,
        job_id=order.job_id,
        lease_epoch=order.lease_epoch,
        answered_at=None,
    )
    found = same.order_by("id").first()
    if found is not None:
        return found
    order.save(using=alias, force_insert=True)
    Action.objects.using(alias).create(
        actor=order.asked_by,
        action=action,
        reason=clean(reason),
        job_ids=[] if order.job_id is None else [order.job_id],
        subject=f"worker:{order.worker_id}",
    )
    tell_workers(connections[alias], [order.worker_id])
    logger.info(
        "action done action=%s actor=%s worker=%s job_id=%s", action, order.asked_by, order.worker_id, order.job_id
    )
    return order
