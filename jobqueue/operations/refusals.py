"""What people were refused, written down so that neither a rollback loses it nor a script floods the audit with it.

A refusal ends in PermissionDenied, which rolls back the transaction of the request it came in. Within asked_from() it
is therefore kept in memory and written when the request is over, outside of that transaction; elsewhere it is written
at once, and is lost with the caller's transaction. The log line stays in any case.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from django.db import DatabaseError, InterfaceError, connections, transaction

from jobqueue.models import Action, Job
from jobqueue.models.action import request_address
from jobqueue.models.expressions import StatementTimestamp

logger = logging.getLogger("jobqueue.operations")

#: The same refusal of the same person is written down once in so long, and of all their refusals so many.
APART: Final = timedelta(minutes=1)
MOST: Final = 30
SUBJECT_CHARACTERS: Final = 200
LOCK: Final = """
SELECT pg_advisory_xact_lock(hashtextextended(concat_ws('/', 'jobqueue refusal', current_schema(), %s::text), 0))
"""


@dataclass(slots=True, kw_only=True)
class Refusal:
    """Who was refused what, and the permission that they do not have."""

    actor: str
    action: str
    permission: str
    subject: str = ""


@dataclass(slots=True)
class Asked:
    """A request that is being answered: what was refused in it, and what else is known of it for the audit."""

    refusals: list[Refusal] = field(default_factory=list)
    job_ids: list[int] = field(default_factory=list)
    detail: dict[str, Any] = field(default_factory=dict)


_asked: ContextVar[Asked | None] = ContextVar("asked", default=None)


@contextmanager
def asked_from(address: str) -> Iterator[Asked]:
    """Answer a request from an address: the audit rows within have it, and refusals are written at the end.

    To be put around the transaction of the request, not into it. Take the address from REMOTE_ADDR, or from a header
    only where a proxy of your own sets it.
    """
    asked = Asked()
    tokens = request_address.set(address), _asked.set(asked)
    try:
        yield asked
    finally:
        try:
            for refusal in asked.refusals:
                _write(refusal, asked)
        finally:
            _asked.reset(tokens[1])
            request_address.reset(tokens[0])


def note(refusal: Refusal) -> None:
    """Write a refusal down: at the end of the request that it came in, else at once."""
    asked = _asked.get()
    if asked is None:
        _write(refusal, Asked())
    elif refusal not in asked.refusals:
        asked.refusals.append(refusal)


def _write(refusal: Refusal, asked: Asked) -> None:
    """Insert the row, unless enough is written down. A database that fails must not turn a refusal into an error."""
    alias = Job.objects.write_db
    subject = refusal.subject[:SUBJECT_CHARACTERS]
    try:
        with transaction.atomic(using=alias):
            with connections[alias].cursor() as cursor:
                # Requests of one person at the same time do not see each other's rows.
                cursor.execute(LOCK, [refusal.actor])
            since = StatementTimestamp() - APART
            recent = Action.objects.using(alias).filter(refused=True, at__gt=since, actor=refusal.actor)
            seen = list(recent.values_list("action", "subject")[:MOST])
            if (refusal.action, subject) in seen or len(seen) >= MOST:
                return
            Action.objects.using(alias).create(
                actor=refusal.actor,
                action=refusal.action,
                subject=subject,
                refused=True,
                job_ids=asked.job_ids,
                detail={"permission": refusal.permission, **asked.detail},
            )
    except (DatabaseError, InterfaceError):
        logger.exception("refusal not written down action=%s actor=%s", refusal.action, refusal.actor)
