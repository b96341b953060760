"""Run reads under a short time limit, so that looking at the queue never becomes the queue's problem."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Final, TypeVar

from django.db import OperationalError, connections, transaction

from jobqueue.managers.settling import sqlstate

T = TypeVar("T")

QUERY_CANCELED: Final = "57014"

# A partial index in its own order reads what is asked for and stops; the planner may expect that of a sequential scan,
# too, and then walk millions of rows of another status first. Both settings end with the transaction or savepoint.
SETTINGS: Final = """
SELECT current_setting('statement_timeout'), current_setting('enable_seqscan'), set_config('enable_seqscan', %s, true),
       set_config('statement_timeout', %s, true)
"""
RESTORE: Final = "SELECT set_config('statement_timeout', %s, true), set_config('enable_seqscan', %s, true)"


class Budget:
    """Time for several reads: each has its own limit, and all of them together another."""

    def __init__(self, alias: str, *, each: timedelta, total: timedelta) -> None:
        self._alias, self._each = alias, each.total_seconds()
        self._end = time.monotonic() + total.total_seconds()

    def read(self, query: Callable[[], T], *, by_index: bool = False) -> T | None:
        """Return what the query returns, or None where it takes too long; `by_index` avoids sequential scans.

        A lock that somebody holds on the table counts as taking too long. Other database errors are raised.
        """
        left = min(self._each, self._end - time.monotonic())
        return read_within(self._alias, query, timedelta(seconds=left), by_index=by_index) if left > 0 else None


def read_within(alias: str, query: Callable[[], T], limit: timedelta, *, by_index: bool = False) -> T | None:
    """Return what the query returns, or None where it takes longer; see Budget.read()."""
    milliseconds = max(1, int(limit.total_seconds() * 1000))
    try:
        # In a caller's transaction this is a savepoint: rolling back to it restores the settings as well.
        with transaction.atomic(using=alias), connections[alias].cursor() as cursor:
            cursor.execute(SETTINGS, ["off" if by_index else "on", str(milliseconds)])
            timeout, seqscan = cursor.fetchone()[:2]
            answer = query()
            cursor.execute(RESTORE, [timeout, seqscan])
            return answer
    except OperationalError as error:
        if sqlstate(error) != QUERY_CANCELED:
            raise
        return None
