"""What the overview of the console shows: each part is read within its time, and unknown (None) beyond it."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

from django.db import InterfaceError, OperationalError

from jobqueue import sql
from jobqueue.managers.querysets import patience
from jobqueue.managers.settling import sqlstate
from jobqueue.models import Job
from jobqueue.states import Status

from . import queue_figures
from .alert_table import Look, firing_and_look
from .budgets import BudgetState, spent_today
from .counts import COUNT_CAP
from .dead_groups import DeadGroups, dead_groups
from .limited import QUERY_CANCELED, Budget
from .queue_figures import QueueFigures, Readings
from .queues import paused_queues
from .snapshot import read_alias
from .trends import Trend, Window, read_trend
from .worker_figures import WorkerFigures, read_workers

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from jobqueue.models import Incident

Part = Literal["status", "alerts", "trend", "queues", "groups", "workers", "costs"]

EACH: Final = timedelta(milliseconds=400)
TOTAL: Final = timedelta(seconds=1.2)
#: Groups are made of so many of the newest dead letters: their own page reaches further back.
REACH: Final = 5_000
GROUPS: Final = 20
FIRING: Final = 10
STUCK: Final = 0  # stands for what is stuck where counts are by status
#: What status has how many jobs, and how many are stuck.
COUNTS: Final = f"{sql.COUNT_JOBS}\nUNION ALL\n{sql.COUNT_STUCK}"
COUNTED: Final = (Status.PENDING, Status.RUNNING, Status.SCHEDULED, Status.DEAD, Status.DONE, Status.CANCELLED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The parts that were asked for. None: unknown, or not asked for."""

    at: datetime | None = None  # None: the database does not answer
    counts: Mapping[int, int] | None = None  # by status, and of STUCK; COUNT_CAP + 1 stands for more than COUNT_CAP
    oldest_sec: float | None = None  # since the oldest due job was due; 0 when nothing is due
    trend: Trend | None = None
    today: Mapping[str, Decimal] | None = None  # what it cost, by unit
    budgets: Sequence[BudgetState] | None = None  # as of maintenance's last tick
    firing: Sequence[Incident] | None = None  # one more than FIRING where there are more
    look: Look | None = None  # when somebody last looked at the rules
    queues: Sequence[QueueFigures] | None = None  # worst first: by their oldest due job
    workers: Sequence[WorkerFigures] | None = None
    groups: DeadGroups | None = None


def read_overview(
    parts: Collection[Part],
    *,
    window: Window = "1h",
    jobs: QuerySet[Any] | None = None,
    dead: QuerySet[Any] | None = None,
) -> Overview:
    """Return some parts of the overview, within a second or so.

    `jobs` counts these jobs only, a statement a status, and leaves out what is known of all together; `dead` are the
    dead letters that groups are made of. Where the database does not answer everything is unknown.
    """
    alias = read_alias(Job.objects)
    budget = Budget(alias, each=EACH, end=time.monotonic() + TOTAL.total_seconds())
    look = _Look(budget, alias)
    try:
        with budget.open():
            look.all(parts, window, jobs, dead)
    except (OperationalError, InterfaceError) as error:
        if sqlstate(error) != QUERY_CANCELED:  # else the end of the transaction took too long: all was read
            return Overview()
    return Overview(at=budget.opened_at, **look.found)


@dataclass(slots=True)
class _Look:
    budget: Budget
    alias: str
    found: dict[str, Any] = field(default_factory=dict)

    def all(
        self, parts: Collection[Part], window: Window, jobs: QuerySet[Any] | None, dead: QuerySet[Any] | None
    ) -> None:
        """Read the parts, those first that nothing can make slow."""
        read, primary = self.budget.read, Job.objects.write_db
        if "alerts" in parts:
            # Also beside living workers: they may all leave maintenance to others, or its evaluations fail.
            firing = read(partial(firing_and_look, self.alias, most=FIRING + 1), of="jobqueue_incident")
            self.found["firing"], self.found["look"] = firing or (None, None)
        if {"workers", "queues"} & {*parts}:
            self.found["workers"] = read(partial(read_workers, primary), of="jobqueue_worker")
        if "status" in parts:
            counts = self._counts if jobs is None else partial(_counts_of, jobs)
            self.found["counts"] = read(counts, of="jobqueue_job")
        if "queues" in parts or ("status" in parts and jobs is None):
            self._queues(whole="queues" in parts, primary=primary)
        if "costs" in parts:
            self._costs()
        if "trend" in parts and jobs is None:
            assert self.budget.opened_at is not None
            self.found["trend"] = read_trend(self.budget, window, self.alias, self.budget.opened_at)
        if "groups" in parts and dead is not None:
            self.found["groups"] = read(partial(dead_groups, dead, reach=REACH, shown=GROUPS), of="jobqueue_job")

    def _counts(self) -> dict[int, int]:
        seconds, patient = patience()
        params = {"cap": COUNT_CAP + 1, "patience": seconds, "patient": json.dumps(patient)}
        # Together: the overview asks for both every few seconds.
        return dict(Job.objects.db_manager(self.alias).run_sql(COUNTS, params))

    def _queues(self, *, whole: bool, primary: str) -> None:
        run = Job.objects.db_manager(self.alias).run_sql
        depths = self.budget.read(partial(queue_figures.read_depths, run, cap=COUNT_CAP), of="jobqueue_job")
        if depths is not None:
            self.found["oldest_sec"] = max((depth.oldest_seconds for depth in depths.values()), default=0.0)
        if not whole:
            return
        paused = self.budget.read(partial(paused_queues, primary), of="jobqueue_queue")
        if depths is None and paused is None:
            return
        readings = Readings(depths, None, None, paused, self.found.get("workers"))
        rows = queue_figures.queue_figures(readings)
        self.found["queues"] = sorted(rows, key=lambda row: (-(row.oldest_sec or 0.0), row.queue))

    def _costs(self) -> None:
        sums = self.budget.read(partial(spent_today, self.alias), of="jobqueue_cost")
        if sums is not None:
            self.found["today"], self.found["budgets"] = sums


def _counts_of(jobs: QuerySet[Any]) -> dict[int, int]:
    """Return the same counts of some jobs only."""
    return {status: jobs.filter(status=status).order_by()[: COUNT_CAP + 1].count() for status in COUNTED}
