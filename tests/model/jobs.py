"""What the model knows: a job, its attempts, and what one transaction has written."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

SECOND = 1_000_000

#: The row of a job that holds its dedupe key.
ACTIVE = (1, 2, 5, 6)
PENDING, RUNNING, DONE, DEAD, SCHEDULED, CANCELLED = 1, 2, 3, 4, 5, 7

#: Which row locks of others keep a statement from a row; all but prune ask for NO KEY UPDATE.
CONFLICTS = {
    "NO KEY UPDATE": {"UPDATE", "NO KEY UPDATE", "SHARE"},
    "UPDATE": {"UPDATE", "NO KEY UPDATE", "SHARE", "KEY SHARE"},
}


class Between(NamedTuple):
    """A time that the server chose during a step, in microseconds; the row tells which, and the model then keeps it."""

    earliest: int
    latest: int


class Opening(str):
    """How a text begins whose end is the server's; the row tells all of it."""

    __slots__ = ()


Time = int | Between | None


class Locked(Exception):
    """The row or the key is in another transaction's hands: the verb waits until its lock_timeout, then gives up."""


class Run(NamedTuple):
    """An attempt as it is written down."""

    lease_epoch: int
    number: int
    worker_id: str
    outcome: int
    error_class: str
    error_text: str
    cost: int  # cents


@dataclass
class ModelJob:
    """A row of jobqueue_job. Times are microseconds since 1970, costs are cents."""

    id: int
    job_type: str
    queue: str
    priority: int
    status: int
    run_after: Time
    max_attempts: int
    created_at: Time
    updated_at: Time
    dedupe_key: str | None = None
    owner: str = ""
    attempts: int = 0
    interruptions: int = 0
    worker_id: str | None = None
    lease_epoch: int = 0
    lease_until: Time = None
    claimed_at: Time = None
    run_started_at: Time = None
    first_started_at: Time = None
    finished_at: Time = None
    cancel_requested_at: Time = None
    unknown_since: Time = None
    progress: Any = None
    result: Any = None
    outcome: int | None = None
    last_error: str | None = None
    error_class: str | None = None
    cost_total: int = 0
    cost_last: int = 0
    open_costs: Any = None
    runs: tuple[Run, ...] = ()

    @property
    def active(self) -> bool:
        return self.status in ACTIVE

    @property
    def key(self) -> tuple[int, Any, int]:
        """Its place in the claim order."""
        return (self.priority, self.run_after, self.id)


TIMES = [name for name, kind in ModelJob.__annotations__.items() if kind == "Time"]


@dataclass
class Written:
    """What is committed, or what one open transaction has written; None stands for a deleted job."""

    jobs: dict[int, ModelJob | None] = field(default_factory=dict)
    counts: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    dead: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    costs: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    actions: list[tuple[str, str, str, tuple[int, ...]]] = field(default_factory=list)
    notices: list[dict[str, Any]] = field(default_factory=list)  # told of, but their rows' ids not yet known
    locks: dict[int, set[str]] = field(default_factory=dict)
    keys: set[str] = field(default_factory=set)  # of which it has written some version that holds them

    def absorb(self, later: Written) -> None:
        """Take over what a transaction wrote that commits into this."""
        for job_id, job in later.jobs.items():
            if job is None:
                self.jobs.pop(job_id, None)
            else:
                self.jobs[job_id] = job
        self.counts += later.counts
        self.dead += later.dead
        self.costs.update(later.costs)  # unlike +=, which forgets refunds
        self.actions += later.actions
