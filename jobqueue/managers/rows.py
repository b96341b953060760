"""What goes into the SQL verbs and what comes out: plain tuples, light on the hot path."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, NamedTuple, Protocol

from django.db import DataError

from jobqueue.conf import get_settings
from jobqueue.outcomes import Outcome

Run = Callable[[str, Mapping[str, Any]], list[tuple[Any, ...]]]
"""Runs one statement on one connection and returns its rows."""

# What numeric(20, 8) holds. Folded sums have ten more digits (models/figures.py).
COST_PLACES = Decimal("1E-8")
COST_BOUND = Decimal(10**12)

FIRST_KEY = (-32768, "-infinity", 0)
LAST_PRIORITY = 32767


class Fence(NamedTuple):
    """What identifies one attempt. A change that finds another worker or epoch in the row is refused."""

    id: int
    worker_id: str
    lease_epoch: int


class Span(NamedTuple):
    """One range of the claim index: of a queue, behind (priority, run_after, id), up to (top, until), `take` rows."""

    queue: str
    take: int
    priority: int = FIRST_KEY[0]
    run_after: datetime | str = FIRST_KEY[1]
    id: int = FIRST_KEY[2]
    top: int = LAST_PRIORITY
    until: datetime | str = "infinity"


class ClaimedJob(NamedTuple):
    """One claimed row. The payload stays encoded JSON text: the supervisor never reads it."""

    id: int
    lease_epoch: int
    job_type: str
    queue: str
    priority: int
    run_after_us: int  # microseconds since 1970: a datetime would cost more than the rest of the row
    attempts: int
    max_attempts: int
    interruptions: int
    owner: str
    payload_bytes: int
    payload: str
    unknown_seconds: float | None
    last_outcome: int | None  # how its last attempt ended
    trace_context: str | None = None
    task_backend: str | None = None  # of a django.tasks task: the alias it was enqueued by

    @property
    def key(self) -> tuple[int, int, int]:
        """Its place in the claim order."""
        return (self.priority, self.run_after_us, self.id)


class CostLine(NamedTuple):
    """One amount that an attempt reported."""

    component: str
    unit: str
    amount: Decimal


class Done(NamedTuple):
    """A job that went well, ready to be settled. `result` is encoded JSON text; seconds and bytes as measured."""

    id: int
    lease_epoch: int
    result: str = "null"
    run_seconds: float = 0.0
    cpu_seconds: float | None = None
    peak_memory: int | None = None
    costs: Sequence[CostLine] = ()


@dataclass(slots=True)
class Ending:
    """An attempt that did not end well, ready to be settled.

    `step` is what follows: 'retry' (while attempts are left, after `delay`), 'dead', 'cancel', or 'interrupt'
    (uncharged until the interruption budget is spent). A requested cancel wins over all of them.
    """

    id: int
    lease_epoch: int
    outcome: Outcome
    step: str = "retry"
    delay: timedelta = timedelta(0)
    error_class: str | None = None
    error_text: str | None = None
    traceback: str | None = None
    fingerprint: str | None = None
    exit_code: int | None = None
    run_seconds: float = 0.0
    cpu_seconds: float | None = None
    peak_memory: int | None = None
    costs: Sequence[CostLine] = field(default_factory=tuple)
    limit_hit: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the object that settle_ended.sql reads."""
        return {
            "id": self.id,
            "lease_epoch": self.lease_epoch,
            "outcome": int(self.outcome),
            "step": self.step,
            "delay_seconds": self.delay.total_seconds(),
            "error_class": self.error_class,
            "error_text": self.error_text,
            "traceback": self.traceback,
            "fingerprint": self.fingerprint,
            "exit_code": self.exit_code,
            "run_seconds": self.run_seconds,
            "cpu_seconds": self.cpu_seconds,
            "peak_memory": self.peak_memory,
            "cost": str(total_cost(self.costs)),
            "limit_hit": self.limit_hit,
        }


class Release(NamedTuple):
    """A leased job to give back uncharged: at once, or after a delay (a snooze, or a type unknown here)."""

    id: int
    lease_epoch: int
    delay: timedelta | None = None
    unknown: bool = False
    costs: Sequence[CostLine] = ()


class Renewal(NamedTuple):
    """What a renewal answered for one job: 'renewed', 'locked' (still ours) or 'lost'."""

    id: int
    verdict: str
    cancel: bool


@dataclass(slots=True)
class Moved:
    """What an action on many jobs did: the status of each changed one, and why each refused one was refused."""

    changed: dict[int, int] = field(default_factory=dict)
    refused: dict[int, str] = field(default_factory=dict)


class PayloadEdit(Protocol):
    """What an edit of many payloads makes of each."""

    before: dict[int, str | None]  # the field's JSON before, by job; None where there was none

    def judge(self, job_id: int, job_type: str, payload: str, fresh: dict[int, str | None]) -> str | None:
        """Put the JSON of the field's new value (None: it goes, or moves) into `fresh`, or return why there is none."""


def stored_amount(amount: Decimal) -> Decimal:
    """Return the amount as the database stores it, so that totals equal the sums of their lines.

    Raises DataError, as the server does for what it cannot store, for NaN and for a million million or more.
    """
    if not amount.is_finite() or abs(amount) >= COST_BOUND:
        raise DataError(f"a cost of {amount} cannot be stored: it must be finite and below {COST_BOUND}")
    return amount.quantize(COST_PLACES, rounding=ROUND_HALF_UP)


def total_cost(costs: Sequence[CostLine]) -> Decimal:
    """Return the sum of the amounts in the first of JOBQUEUE["COST_UNITS"]: units are not added to one another."""
    if not costs:
        return Decimal(0)
    unit = get_settings().COST_UNITS[0]
    return sum((stored_amount(line.amount) for line in costs if line.unit == unit), Decimal(0))


def cost_lines(endings: Sequence[Done | Ending | Release]) -> str:
    """Return the JSON array of cost lines that the settle statements read; amounts as text, never as floats."""
    return json.dumps([_cost_object(line) | {"id": ending.id} for ending in endings for line in ending.costs])


def cost_lines_json(costs: Sequence[CostLine]) -> str:
    """Return the JSON array of one job's cost lines."""
    return json.dumps([_cost_object(line) for line in costs])


def open_costs_json(costs: Sequence[CostLine]) -> str:
    """Return what stands in job.open_costs: a JSON array of [component, unit, amount as text]."""
    return json.dumps([[line.component, line.unit, f"{stored_amount(line.amount):f}"] for line in costs])


def _cost_object(line: CostLine) -> dict[str, Any]:
    return {"component": line.component, "unit": line.unit, "amount": str(stored_amount(line.amount))}
