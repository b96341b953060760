"""Settle: the verbs that end attempts, fenced, in batches that one bad value cannot poison."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from django.db import DatabaseError, DataError

from jobqueue import sql
from jobqueue.conf import get_settings
from jobqueue.states import Status

from .arrays import number_array, seconds_array, text_array
from .rows import Done, Ending, Release, Run, cost_lines, total_cost

T = TypeVar("T", Done, Ending, Release)

LOCK_NOT_AVAILABLE, QUERY_CANCELED = "55P03", "57014"
# What one row may be guilty of: bad data, a constraint, a value too long for an index, a trigger of the project's, a
# lock. All else is the batch's.
OF_A_ROW = ("22", "23", "54", "P0", LOCK_NOT_AVAILABLE)
MOST_TIMEOUTS = 24  # one locked row costs a batch of 1,000 eleven of them, two 21
DEADLOCK_DETECTED = "40P01"


def settle_done(run: Run, *, worker_id: str, jobs: Sequence[Done]) -> dict[int, int]:
    """Finish jobs as DONE. Returns {id: DONE} of those that were still this worker's attempt."""
    rows = run(
        sql.SETTLE_DONE,
        {
            "worker_id": worker_id,
            "ids": number_array([job.id for job in jobs]),
            "epochs": number_array([job.lease_epoch for job in jobs]),
            "results": text_array([job.result for job in jobs]),
            "run_seconds": seconds_array([job.run_seconds for job in jobs]),
            "cpu_seconds": seconds_array([job.cpu_seconds for job in jobs]),
            "peak_memory": number_array([job.peak_memory for job in jobs]),
            "costs": text_array([str(total_cost(job.costs)) if job.costs else "0" for job in jobs]),
            "cost_lines": cost_lines(jobs),
        },
    )
    return dict.fromkeys([row[0] for row in rows], int(Status.DONE))


def settle_ended(run: Run, *, worker_id: str, endings: Sequence[Ending]) -> dict[int, int]:
    """End attempts that did not end well. Returns {id: status after} of those that were still this worker's attempt."""
    settings = get_settings()
    rows = run(
        sql.SETTLE_ENDED,
        {
            "worker_id": worker_id,
            "budget": settings.INTERRUPTION_BUDGET,
            "notices": bool(settings.NOTIFIERS),
            "endings": json.dumps([ending.to_json() for ending in endings]),
            "cost_lines": cost_lines(endings),
        },
    )
    return {row[0]: row[1] for row in rows}


def settle_split(
    settle: Callable[[Sequence[T]], dict[int, int]],
    items: Sequence[T],
    *,
    refuse: Callable[[T, Exception], dict[int, int]],
    into: dict[int, int] | None = None,
) -> dict[int, int]:
    """Settle a batch; where the database refuses a row or one stays locked, halve it until the culprit is alone.

    `refuse` gets the single item that cannot be stored and answers for it. Returns the merged {id: status}, which
    `into` takes part by part: it is committed so, and where an error goes to the caller, that is what was done. After
    more lock time-outs than one or two rows explain, the table may be locked, or many rows: no part is halved any more,
    and the last time-out goes to the caller.
    """
    timeouts, settled = 0, {} if into is None else into
    given_up: DatabaseError | None = None

    def halve(part: Sequence[T]) -> None:
        nonlocal timeouts, given_up
        try:
            settled.update(settle(part))
            return
        except DatabaseError as error:
            if not is_of_a_row(error):
                raise
            locked = sqlstate(error) == LOCK_NOT_AVAILABLE
            timeouts += locked
            if locked and timeouts > MOST_TIMEOUTS:
                given_up = error  # of this part alone: the other halves, ten at most, are tried once each
                return
            if len(part) == 1:
                settled.update(refuse(part[0], error))
                return
        middle = len(part) // 2
        halve(part[:middle])
        halve(part[middle:])

    halve(items)
    if given_up is not None:
        raise given_up
    return settled


def accepted_before(run: Run, *, worker_id: str, items: Sequence[tuple[int, int]]) -> dict[int, int]:
    """Tell which refused settles had in fact been accepted: the answer to their COMMIT was lost.

    `items` are (id, lease_epoch). A settle keeps worker and epoch in the row, and every other way out of RUNNING clears
    the worker, so a row that still shows both and is not RUNNING was settled by this very attempt.
    Returns {id: status}.
    """
    epochs = dict(items)
    rows = run(sql.FENCE_STATE, {"ids": list(epochs)})
    return {
        row[0]: row[1] for row in rows if row[1] != Status.RUNNING and row[2] == worker_id and row[3] == epochs[row[0]]
    }


def is_of_a_row(error: BaseException) -> bool:
    """Tell whether an error is the fault of one row of the statement, so that the others can be had without it."""
    return isinstance(error, DataError) or (sqlstate(error) or "").startswith(OF_A_ROW)


def is_timeout(error: BaseException) -> bool:
    """Tell whether a statement ended because it, or a lock that it waited for, took too long: the server is there."""
    return sqlstate(error) in (LOCK_NOT_AVAILABLE, QUERY_CANCELED)


def sqlstate(error: BaseException) -> str | None:
    """Return the five-character code that PostgreSQL gave for an error, or None."""
    cause: Any = error
    while cause is not None:
        code = getattr(cause, "sqlstate", None)
        if code:
            return str(code)
        cause = cause.__cause__
    return None
