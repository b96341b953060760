"""Requests to one host: so many at a time over all workers, and none for a while after failures in a row.

A row of jobqueue_host holds the time-outs of the requests under way: one whose process was killed counts no more
after its own. Both statements commit at once: a row locked for the length of a request would hold up all others.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db import connections, transaction

from jobqueue import sql
from jobqueue.conf import get_settings
from jobqueue.models import Job

# What a request may take beyond its time: its settling and a machine that is busy.
_MARGIN = timedelta(seconds=30)


class Turn(NamedTuple):
    """A token for one request; without one, how long the host is left alone, or 0 where it is only busy."""

    token: datetime | None
    wait: timedelta


def take(host: str) -> Turn:
    """Begin a request, if it is this one's turn."""
    settings = get_settings()
    seconds = settings.WEBHOOK_TOTAL_SECONDS + _MARGIN.total_seconds()
    rows = _run(sql.TAKE_HOST, {"name": host, "most": settings.WEBHOOK_PER_HOST, "seconds": seconds})
    # No row: the host's row was made after this statement had begun, and is full already.
    token, wait = rows[0] if rows else (None, 0.0)
    return Turn(token, timedelta(seconds=wait))


def free(host: str, token: datetime, *, well: bool | None) -> None:
    """End a request; `well` tells whether the host is, None where nothing was learnt of it."""
    _run(sql.FREE_HOST, {"name": host, "token": token, "well": well})


def _run(statement: str, params: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """Run a statement in a transaction of its own where that is possible: in a test's there is none to be had."""
    alias = Job.objects.write_db
    connection = connections[alias]
    if connection.in_atomic_block:
        return Job.objects.run_sql(statement, params)
    with transaction.atomic(using=alias):
        with connection.cursor() as cursor:
            # Under a stricter level two requests to one host at a time would fail with 40001.
            cursor.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
        rows = Job.objects.run_sql(statement, params)
    if not connection.get_autocommit():  # a project without autocommit: the block above has not committed
        connection.commit()
    return rows
