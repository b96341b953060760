"""Run reads under a short time limit, so that looking at the queue never becomes the queue's problem."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

from django.db import DatabaseError, InterfaceError, OperationalError, connections, transaction

from jobqueue.logs import Quietly
from jobqueue.managers.settling import sqlstate

logger = logging.getLogger("jobqueue.ops")

T = TypeVar("T")

QUERY_CANCELED: Final = "57014"
LOCK_NOT_AVAILABLE: Final = "55P03"
LOCK_MILLISECONDS: Final = 40
LEAST_MILLISECONDS: Final = 10  # the limit is that of the transaction's end, too

# A partial index in its own order reads what is asked for and stops; the planner may expect that of a sequential scan,
# too, and then walk millions of rows of another status first. Both settings end with the transaction or savepoint.
SETTINGS: Final = """
SELECT current_setting('statement_timeout'), current_setting('enable_seqscan'), set_config('enable_seqscan', %s, true),
       set_config('statement_timeout', %s, true)
"""
RESTORE: Final = "SELECT set_config('statement_timeout', %s, true), set_config('enable_seqscan', %s, true)"

# Nor is anything compiled: that takes longer than these reads, and is chosen by costs that "off" makes up.
BEGIN: Final = """
SELECT statement_timestamp(), current_setting('statement_timeout'), current_setting('enable_seqscan'),
       current_setting('lock_timeout'), current_setting('jit'), set_config('enable_seqscan', 'off', true),
       set_config('jit', 'off', true), set_config('lock_timeout', %s, true), set_config('statement_timeout', %s, true)
"""
END: Final = (
    "SELECT set_config('statement_timeout', %s, true), set_config('enable_seqscan', %s, true),"
    " set_config('lock_timeout', %s, true), set_config('jit', %s, true)"
)
LIMIT: Final = "SELECT set_config('statement_timeout', %s, true)"

_quietly = Quietly(logger)


class Budget:
    """Time for several reads of one database: each has its own limit, and all of them together another.

    They share one transaction, which saves most of the round trips; one that fails ends it, and the next begins
    another. Sequential scans are avoided.
    """

    def __init__(self, alias: str, *, each: timedelta, end: float) -> None:
        """Take the alias, the limit of a single read, and the end of all by time.monotonic()."""
        self._alias, self._each, self._end = alias, _milliseconds(each.total_seconds()), end
        self.opened_at: datetime | None = None  # by the database's clock
        self._transaction = ExitStack()
        self._limit: int | None = None  # None: no transaction
        self._before: list[str] = []
        self._locked: set[str] = set()

    @contextmanager
    def open(self) -> Iterator[None]:
        """Read within: at the end the transaction, or savepoint in the caller's, is over and its settings as before.

        Raises OperationalError or InterfaceError when the database is away, and where even the end takes too long.
        """
        with self._transaction:
            self._begin()
            yield
            if self._limit is not None and self._within:
                self._run(END, self._before)

    def read(self, query: Callable[[], T], *, of: str, part: float = 1.0) -> T | None:
        """Return what a query of one of our tables (or "") returns, or None where it cannot be told in time.

        `part` is how much of the limit of a single read this one may have. A table that somebody holds a lock on is
        waited for once, for all reads of it. Other errors of the statement are logged. Raises OperationalError or
        InterfaceError when the connection is lost.
        """
        left = min(int(self._each * part), _milliseconds(self._end - time.monotonic()))
        if left < LEAST_MILLISECONDS or of in self._locked:
            return None
        try:
            if self._limit is None:
                self._begin()
            if left != self._limit:
                self._run(LIMIT, [str(left)])
                self._limit = left
            return query()
        except (DatabaseError, InterfaceError) as error:
            raw = connections[self._alias].connection
            lost = raw is None or raw.closed
            self._limit = None
            self._transaction.__exit__(type(error), error, error.__traceback__)  # rolls back, and may connect again
            if lost:
                raise
            self._judge(error, of)
            return None

    def _begin(self) -> None:
        self._within = connections[self._alias].in_atomic_block
        self._transaction.enter_context(transaction.atomic(using=self._alias))
        at, *before = self._run(BEGIN, [f"{LOCK_MILLISECONDS}ms", str(self._each)])[:5]
        self.opened_at, self._before, self._limit = self.opened_at or at, before, self._each

    def _judge(self, error: DatabaseError | InterfaceError, of: str) -> None:
        """Note a lock; tell of anything but a lack of time."""
        code = sqlstate(error)
        if code == LOCK_NOT_AVAILABLE and of:
            self._locked.add(of)
        if code not in (LOCK_NOT_AVAILABLE, QUERY_CANCELED):
            _quietly.warning("figures left out of=%s error=%s", of, str(error).strip().split("\n")[0])

    def _run(self, statement: str, params: list[str]) -> tuple[Any, ...]:
        with connections[self._alias].cursor() as cursor:
            cursor.execute(statement, params)
            row: tuple[Any, ...] = cursor.fetchone()
            return row


def read_within(alias: str, query: Callable[[], T], limit: timedelta, *, by_index: bool = False) -> T | None:
    """Return what the query returns, or None where it takes longer; `by_index` avoids sequential scans.

    A lock that somebody holds on the table counts as taking too long. Other database errors are raised.
    """
    milliseconds = max(1, _milliseconds(limit.total_seconds()))
    try:
        # In a caller's transaction this is a savepoint: rolling back to it restores the settings as well.
        with transaction.atomic(using=alias), connections[alias].cursor() as cursor:
            cursor.execute(SETTINGS, ["off" if by_index else "on", str(milliseconds)])
            timeout, seqscan = cursor.fetchone()[:2]
            answer = query()
            cursor.execute(RESTORE, [timeout, seqscan])
            return answer
    except OperationalError as error:
        # A worker's own connection has a limit on waiting for locks, too.
        if sqlstate(error) not in (QUERY_CANCELED, LOCK_NOT_AVAILABLE):
            raise
        return None


def _milliseconds(seconds: float) -> int:
    return int(seconds * 1000)
