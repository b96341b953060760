"""Handlers that use the test's own database connection, registered for the length of a test only."""

from decimal import Decimal
from typing import Any

from django.contrib.auth.models import Group
from django.db import IntegrityError, connection, transaction

from jobqueue import Retry, Snooze
from jobqueue.models import Job


def writes(context: Any, *, name: str) -> str:
    """Write a row."""
    Group.objects.create(name=name)
    return name


def breaks(context: Any, *, name: str, swallow: bool = False) -> str:
    """Write a row, then have a statement fail, perhaps without telling."""
    Group.objects.create(name=name)
    try:
        Group.objects.create(name=name)
    except IntegrityError:
        if not swallow:
            raise
    return "swallowed"


def fails_after(context: Any, *, name: str) -> None:
    """Write a row, spend something, then fail for a reason of its own."""
    Group.objects.create(name=name)
    context.add_cost("tokens", Decimal("0.25"))
    raise RuntimeError("after writing")


def completes(context: Any, *, name: str) -> None:
    """Finish together with an effect."""
    with transaction.atomic():
        Group.objects.create(name=name)
        context.add_cost("tokens", Decimal("0.50"))
        context.complete({"by": name})


def chains(context: Any, *, left: int) -> None:
    """Enqueue the next of a chain."""
    if left:
        Job.objects.enqueue("inside.chains", {"left": left - 1})


def reports(context: Any) -> list[Any]:
    """Report progress and see a cancel request that comes while it runs."""
    before = context.cancelled
    context.progress(40, "nearly half")
    Job.objects.cancel(context.job_id)
    return [before, context.cancelled, Job.objects.get(pk=context.job_id).progress]


async def waits(context: Any, *, name: str) -> int:
    """Use the ORM in a coroutine: on the connection of whoever waits for it."""
    await Group.objects.acreate(name=name)
    return await Group.objects.acount()


def asks(context: Any) -> int | None:
    """Return the server process of its connection."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return int(cursor.fetchone()[0])


def notes(context: Any, *, text: str) -> int:
    """Enqueue a job and tell how many have ended before it returns itself: none may run within it."""
    with transaction.atomic():
        Job.objects.enqueue("inside.writes", {"name": text})
    return Group.objects.filter(name=text).count()


def recovers(context: Any, *, at: int) -> int:
    """Fail until a given attempt."""
    if context.attempt < at:
        raise LookupError(f"attempt {context.attempt}")
    return int(context.attempt)


def snoozes(context: Any) -> None:
    """Come again later, without being charged."""
    raise Snooze(60)


def quits(context: Any) -> None:
    """Leave Python."""
    raise SystemExit(3)


def asks_again(context: Any) -> None:
    """Ask for another attempt, which is no error."""
    raise Retry(60)


HANDLERS = (
    *(writes, breaks, fails_after, completes, chains, reports, waits, asks),
    *(notes, recovers, snoozes, quits, asks_again),
)
