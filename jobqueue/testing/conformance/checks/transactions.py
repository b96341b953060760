"""Transactions: a task is part of the one it was enqueued in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from django.db import transaction

from jobqueue.testing.conformance import api, tasks
from jobqueue.testing.conformance.registry import check

from .enqueueing import refusal

if TYPE_CHECKING:
    from jobqueue.testing.conformance.bench import Bench

_NEEDS: Final = ("get_result", "database")


class _Rollback(Exception):
    pass


@check(*_NEEDS)
def a_task_is_seen_within_its_transaction(bench: Bench) -> None:
    """enqueue() does not wait for the commit: the result can be read in the same transaction."""
    with transaction.atomic():
        result = tasks.marks.enqueue("x")
        assert bench.get(result).status == api.READY


def _rolled_back(*, within: bool) -> Any:
    """Enqueue a task in a transaction, or in a savepoint of one, that is rolled back."""
    result = None
    try:
        with transaction.atomic():
            if within:
                try:
                    with transaction.atomic():
                        result = tasks.marks.enqueue("x")
                        raise _Rollback
                except _Rollback:
                    return result
            result = tasks.marks.enqueue("x")
            raise _Rollback
    except _Rollback:
        return result


@check(*_NEEDS)
def a_rollback_takes_the_task_away(bench: Bench) -> None:
    """After a rollback there is no such task."""
    result = _rolled_back(within=False)
    refusal(lambda: bench.get(result), api.TaskResultDoesNotExist)


@check(*_NEEDS)
def a_rollback_to_a_savepoint_takes_the_task_away(bench: Bench) -> None:
    """After a rollback to a savepoint there is no such task, though the transaction is committed."""
    result = _rolled_back(within=True)
    refusal(lambda: bench.get(result), api.TaskResultDoesNotExist)


@check(*_NEEDS, "drain")
def a_committed_task_runs(bench: Bench) -> None:
    """After the commit the task runs, once."""
    mark = bench.mark()
    with transaction.atomic():
        result = tasks.marks.enqueue(mark)
    (result,) = bench.drain(result)
    assert (result.status, bench.ran(mark)) == (api.SUCCESSFUL, 1)
