"""Handlers that use Django's connection well, badly, and together with the end of their job."""

import os
import signal
import socket
from decimal import Decimal
from typing import Any

from django.contrib.auth.models import Group
from django.db import connection, transaction

from jobqueue import Backoff, job
from jobqueue.models import Job

from .effects import record


@job("probe.touch", max_attempts=1)
def touch(context: Any, *, name: str) -> str:
    """Find a row that was written by the transaction that enqueued the job."""
    return Group.objects.get(name=name).name


@job("probe.orm")
def orm(context: Any) -> int:
    """Ask the database something."""
    return Group.objects.count()


@job("probe.breaks_connection", max_attempts=1)
def breaks_connection(context: Any, *, how: str) -> str:
    """Leave the connection in a state that would spoil the next job."""
    Group.objects.count()
    if how == "swallowed":
        with transaction.atomic():
            Group.objects.create(name="twice")
            try:
                with connection.cursor() as cursor:
                    cursor.execute("SELECT 1/0")
            except Exception:
                pass
    elif how == "open":
        transaction.set_autocommit(False)
        Group.objects.create(name="never committed")
    elif how == "atomic":
        transaction.atomic().__enter__()
        Group.objects.create(name="never committed")
    elif how == "closed":
        connection.close()
    elif how == "closed_inside":
        transaction.atomic().__enter__()
        connection.close()
    elif how == "socket":
        socket.socket(fileno=os.dup(connection.connection.fileno())).shutdown(socket.SHUT_RDWR)
    elif how == "session":
        with connection.cursor() as cursor:
            cursor.execute("BEGIN")
    return how


@job("probe.on_commit", max_attempts=1)
def on_commit(context: Any) -> str:
    """Register a commit hook that raises."""
    with transaction.atomic():
        transaction.on_commit(_raise)
    return "unreachable"


def _raise() -> None:
    raise RuntimeError("on_commit boom")


@job("probe.complete", max_attempts=2, backoff=Backoff(base=0.1, cap=0.2))
def complete(context: Any, *, name: str, then: str = "") -> str:
    """Finish the job together with an effect; `then` says what goes wrong afterwards."""
    if then == "outside":
        context.complete()
    with transaction.atomic():
        Group.objects.create(name=f"{name}-{Group.objects.count()}")
        context.add_cost("work", Decimal("0.25"))
        if then == "lost":
            record(context, "start")
            _wait_for_another_owner(context.job_id, context.lease_epoch)
        context.complete({"by": "complete"})
        if then == "twice":
            context.complete()
        if then == "raise_inside":
            raise RuntimeError("inside")
    if then == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if then == "raise_after":
        raise RuntimeError("after")
    return "ignored"


def _wait_for_another_owner(job_id: int, lease_epoch: int) -> None:
    while Job.objects.filter(pk=job_id, lease_epoch=lease_epoch).exists():
        pass


@job("probe.enqueues")
def enqueues(context: Any) -> None:
    """Enqueue another job and fail: it is committed, the handler is not in a transaction."""
    Job.objects.enqueue("probe.ok")


@job("probe.costs", max_attempts=3, backoff=Backoff(base=0.1, cap=0.2))
def costs(context: Any) -> dict[str, Any]:
    """Spend 0.10 and fail; spend 0.05 and die; then return a cost of 0.20."""
    if context.attempt == 1:
        context.add_cost("tokens", Decimal("0.10"))
        raise RuntimeError("after spending")
    if context.attempt == 2:
        context.add_cost("tokens", Decimal("0.05"))
        os.kill(os.getpid(), signal.SIGKILL)
    return {"metrics": {"cost": {"total_usd": 0.2}}}


@job("probe.progress", max_attempts=1)
def progress(context: Any, *, seconds: float) -> None:
    """Report progress, wait, and die."""
    import time

    context.progress(40, "nearly half")
    time.sleep(seconds)
    os.kill(os.getpid(), signal.SIGKILL)


@job("probe.queries_remembered")
def queries_remembered(context: Any) -> int:
    """Ask one thing, and count the queries that Django remembers."""
    Group.objects.count()
    return len(connection.queries_log)
