"""What a handler is given besides its payload: who it is, and what it may report."""

from __future__ import annotations

import time
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Protocol

from django.db import connections

from jobqueue import sql
from jobqueue.conf import get_settings
from jobqueue.errors import clean_text
from jobqueue.exceptions import JobQueueError, LeaseLost
from jobqueue.managers import CostLine
from jobqueue.managers.rows import cost_lines_json, total_cost
from jobqueue.models import Job
from jobqueue.payloads import encode_result

if TYPE_CHECKING:
    from .protocol import Work

LARGEST_AMOUNT = Decimal(10) ** 12
PLACES = Decimal("0.00000001")


class Reporter(Protocol):
    """Where a context's reports go: to the supervisor, or to a test."""

    def cost(self, work: Work, line: CostLine) -> None:
        """Keep an amount, whatever becomes of the attempt."""

    def progress(self, work: Work, value: dict[str, Any]) -> None:
        """Keep how far the handler is."""

    def cancelled(self, work: Work) -> bool:
        """Tell whether somebody asked to cancel the job."""


class Context:
    """The handler's first argument.

    `job_id` is also the correlation id in every log line of the run; `attempt` counts from 1 within the budget
    `max_attempts`; `lease_epoch` grows with every run over the whole life of the job.
    """

    __slots__ = ("_completed", "_cpu_seconds", "_reporter", "_started", "_work", "_worker_id", "costs")

    def __init__(
        self, work: Work, worker_id: str, reporter: Reporter, *, cpu_seconds: Callable[[], float] = lambda: 0.0
    ) -> None:
        self._work, self._worker_id, self._reporter, self._cpu_seconds = work, worker_id, reporter, cpu_seconds
        self._started = time.monotonic()
        self._completed: str | None = None
        self.costs: list[CostLine] = []

    @property
    def job_id(self) -> int:
        """The job's id."""
        return self._work.id

    @property
    def job_type(self) -> str:
        """The job's type, as it was enqueued (an alias stays one)."""
        return self._work.job_type

    @property
    def queue(self) -> str:
        """The job's queue."""
        return self._work.queue

    @property
    def attempt(self) -> int:
        """Which attempt of the present budget this is, from 1."""
        return self._work.attempt

    @property
    def max_attempts(self) -> int:
        """How many attempts the budget has."""
        return self._work.max_attempts

    @property
    def lease_epoch(self) -> int:
        """Which run of the job this is, over its whole life."""
        return self._work.lease_epoch

    @property
    def cancelled(self) -> bool:
        """Whether somebody asked to cancel the job: a loop that looks now and then ends in its own good order."""
        return self._reporter.cancelled(self._work)

    @property
    def completed(self) -> str | None:
        """The encoded result given to complete(), None before."""
        return self._completed

    def progress(self, percent: float, message: str = "") -> None:
        """Report how far the work is, 0 to 100, with a short text; stored about once a second, the last one wins.

        Raises ValueError for a percentage outside 0 to 100.
        """
        if isinstance(percent, bool) or not isinstance(percent, int | float) or not 0 <= percent <= 100:
            msg = f"progress is a number from 0 to 100, not {percent!r}"
            raise ValueError(msg)
        text = str(message)[:500].replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode()
        self._reporter.progress(self._work, {"percent": percent, "message": text})

    def add_cost(self, component: str, amount: Decimal | int, unit: str = "USD") -> None:
        """Record what something cost; it counts even if the attempt fails or is killed afterwards.

        Raises TypeError for a float (its cents are not exact) and ValueError for an amount that is not finite, is
        negative or is 10^12 and more, for a unit that JOBQUEUE["COST_UNITS"] does not name, or a component that is
        empty or over 63 bytes.
        """
        line = cost_line(component, amount, unit)
        if self._spent(line) >= LARGEST_AMOUNT:
            msg = f"the costs of an attempt are below 10^12 in all, not {self._spent(line)}"
            raise ValueError(msg)
        self.costs.append(line)
        self._reporter.cost(self._work, line)

    def _spent(self, line: CostLine) -> Decimal:
        return sum((each.amount for each in self.costs if each.unit == line.unit), line.amount)

    def add_result_cost(self, result: Any) -> None:
        """Record the cost that a result carries at JOBQUEUE["COST_PATH"], if it does."""
        line = cost_in_result(result)
        if line is not None and self._spent(line) < LARGEST_AMOUNT:
            self.add_cost(line.component, line.amount, line.unit)

    def complete(self, result: Any = None) -> None:
        """Finish the job inside the handler's own transaction: its database effects then happen exactly once.

        Call it last, once, in an open transaction.atomic() on the jobs' alias. Raises JobQueueError outside of one or
        when called twice, LeaseLost when another worker owns the job now (let it roll the block back), ResultError for
        a result that cannot be stored. Under REPEATABLE READ the server may raise 40001: the attempt is then retried.
        """
        alias = Job.objects.write_db
        connection = connections[alias]
        if not connection.in_atomic_block:
            msg = f"context.complete() needs an open transaction.atomic(using={alias!r}): its effects belong together"
            raise JobQueueError(msg)
        if self._completed is not None:
            msg = "context.complete() was called twice: call it once, last"
            raise JobQueueError(msg)
        text = encode_result(result, max_bytes=get_settings().RESULT_MAX_BYTES).text
        self.add_result_cost(result)
        with connection.cursor() as cursor:
            cursor.execute(
                sql.COMPLETE_JOB,
                {
                    "id": self._work.id,
                    "worker_id": self._worker_id,
                    "lease_epoch": self._work.lease_epoch,
                    "result": text,
                    "run_seconds": time.monotonic() - self._started,
                    "cpu_seconds": self._cpu_seconds(),
                    "cost": str(total_cost(self.costs)),
                    "cost_lines": cost_lines_json(self.costs),
                },
            )
            if cursor.fetchone() is None:
                raise LeaseLost(self._work.id, self._work.lease_epoch)
        self._completed = text


def cost_line(component: str, amount: Any, unit: str) -> CostLine:
    """Return a checked cost. Errors as in Context.add_cost()."""
    if isinstance(amount, bool) or not isinstance(amount, Decimal | int):
        msg = f"a cost is a Decimal or an int, not {type(amount).__name__} {amount!r}: a float's cents are not exact"
        raise TypeError(msg)
    value = Decimal(amount)
    if not value.is_finite() or not 0 <= value < LARGEST_AMOUNT:
        msg = f"a cost is from 0 to below 10^12, not {amount}"
        raise ValueError(msg)
    units = get_settings().COST_UNITS
    if unit not in units:
        msg = f"cost unit {unit!r} is not one of JOBQUEUE['COST_UNITS'] {tuple(units)!r}"
        raise ValueError(msg)
    if not isinstance(component, str) or not component or len(component.encode("utf-8", "replace")) > 63:
        msg = f"a cost's component is a text of 1 to 63 bytes, not {component!r}"
        raise ValueError(msg)
    return CostLine(clean_text(component), unit, value.quantize(PLACES))


def cost_in_result(result: Any) -> CostLine | None:
    """Return the cost that a result carries at JOBQUEUE["COST_PATH"], or None; a value that is no amount is ignored."""
    settings = get_settings()
    value = result
    for step in settings.COST_PATH.split("."):
        if not isinstance(value, dict) or step not in value:
            return None
        value = value[step]
    try:
        return cost_line("result", value if isinstance(value, int) else Decimal(str(value)), settings.COST_UNITS[0])
    except (InvalidOperation, TypeError, ValueError):
        return None
