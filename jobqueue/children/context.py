"""What a handler is given besides its payload: who it is, and what it may report."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Protocol

from django.db import connections

from jobqueue import sql
from jobqueue.conf import get_settings
from jobqueue.exceptions import JobQueueError, LeaseLost
from jobqueue.managers import CostLine
from jobqueue.managers.rows import cost_lines_json, total_cost
from jobqueue.models import Job
from jobqueue.payloads import encode_result
from jobqueue.registry import registry

from .costs import Costs, cost_line, costs_in_result, leave_out, priced
from .processes import resident_bytes

if TYPE_CHECKING:
    from .protocol import Work

# A handler's threads may add at the same time. Reentrant: so may a signal's handler of its own, in between.
_adding = threading.RLock()


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

    __slots__ = ("_completed", "_costs", "_cpu_seconds", "_reporter", "_started", "_work", "_worker_id")

    def __init__(
        self, work: Work, worker_id: str, reporter: Reporter, *, cpu_seconds: Callable[[], float] = lambda: 0.0
    ) -> None:
        self._work, self._worker_id, self._reporter, self._cpu_seconds = work, worker_id, reporter, cpu_seconds
        self._started = time.monotonic()
        self._completed: str | None = None
        self._costs: Costs | None = None  # most jobs report none

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
    def worker_id(self) -> str:
        """The worker that runs this attempt."""
        return self._worker_id

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

    @property
    def costs(self) -> tuple[CostLine, ...]:
        """What the attempt has cost so far: a line for each component and unit."""
        return () if self._costs is None else self._costs.lines()

    def add_cost(self, component: str, amount: Decimal | int, unit: str = "USD") -> None:
        """Record what something cost; it counts even if the attempt fails or is killed afterwards.

        Call it as often as there is something to add: what has one component and unit is added up. A negative amount
        is a refund. Raises TypeError for a float (its cents are not exact), and ValueError for an amount that is not
        finite or is 10^12 and more, a refund above JOBQUEUE["COST_REFUND_MAX"] (0: none is taken), a unit that
        JOBQUEUE["COST_UNITS"] does not name, a component that is empty or over 63 bytes, and for the 101st component.
        """
        self._add(cost_line(component, amount, unit))

    def _add(self, line: CostLine) -> None:
        with _adding:
            if self._costs is None:
                self._costs = Costs()
            self._costs.add(line)
        self._reporter.cost(self._work, line)

    def add_result_cost(self, result: Any) -> None:
        """Record the costs that a result carries at JOBQUEUE["COST_PATH"], if it does."""
        lines = costs_in_result(result, self.job_type) if isinstance(result, Mapping) else []
        if not lines:
            return
        if (self._costs or Costs()).takes(lines):
            for line in lines:
                self._add(line)
        else:
            leave_out(lines, self.job_type)

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
        run_seconds, cpu_seconds = time.monotonic() - self._started, self._cpu_seconds()
        costs = self.costs or self._priced(run_seconds, cpu_seconds)
        with connection.cursor() as cursor:
            cursor.execute(
                sql.COMPLETE_JOB,
                {
                    "id": self._work.id,
                    "worker_id": self._worker_id,
                    "lease_epoch": self._work.lease_epoch,
                    "result": text,
                    "run_seconds": run_seconds,
                    "cpu_seconds": cpu_seconds,
                    "cost": str(total_cost(costs)),
                    "cost_lines": cost_lines_json(costs),
                },
            )
            if cursor.fetchone() is None:
                raise LeaseLost(self._work.id, self._work.lease_epoch)
        self._completed = text

    def _priced(self, run_seconds: float, cpu_seconds: float) -> tuple[CostLine, ...]:
        """Return what the price list charges: the memory is that of the moment, a peak only the supervisor knows."""
        if not get_settings().RATES:
            return ()
        return priced(
            registry.get(self.job_type).name,
            run_seconds=run_seconds,
            cpu_seconds=cpu_seconds,
            memory_bytes=resident_bytes(os.getpid()),
        )
