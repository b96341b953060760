"""The figures of the moment: nine reads, each by an index, each up to a cap, each under a time limit.

Counting all rows of a big table is what made other queues' dashboards the database's main work. Here a count stops at
COUNT_CAP and says so (`capped`: show it as "at least"), and a read that takes too long, because somebody holds a lock
or a long transaction keeps dead rows in an index, leaves its own figure unknown and the others standing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from django.db import connections, router
from django.db.models import QuerySet

from jobqueue.conf import get_settings
from jobqueue.managers import counting
from jobqueue.models import Attempt
from jobqueue.models.expressions import StatementTimestamp
from jobqueue.outcomes import Outcome
from jobqueue.states import Status

from .costs import total_cost
from .limited import Budget

if TYPE_CHECKING:
    from jobqueue.managers import JobManager

COUNT_CAP: Final = 10_000
EACH: Final = timedelta(milliseconds=150)
TOTAL: Final = timedelta(milliseconds=280)
HOUR: Final = timedelta(hours=1)
UNIT: Final = "USD"


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """How the queue stands. A figure named in `unknown` is None; one named in `capped` is a lower bound."""

    pending: int | None  # due, waiting for a worker
    running: int | None
    done: int | None  # as many as retention leaves
    dead: int | None  # dead letters nobody has dealt with
    dead_1h: int | None  # of these, the ones that died within the last hour
    stuck_running: int | None
    oldest_pending_sec: float | None  # since it was due, not since it was enqueued; 0 when nothing is due
    deadline_1h: int | None  # attempts that ran into their deadline within the last hour
    cost_1h_usd: Decimal | None
    at: datetime
    capped: frozenset[str] = frozenset()
    unknown: frozenset[str] = frozenset()

    def to_json(self) -> dict[str, Any]:
        """Return the snapshot as JSON holds it: the cost as text, since its cents are exact, the time as ISO 8601."""
        values: dict[str, Any] = {name: getattr(self, name) for name in FIGURES}
        cost = self.cost_1h_usd
        values["cost_1h_usd"] = None if cost is None else format(cost, "f")
        return values | {
            "at": self.at.isoformat(),
            "capped": sorted(self.capped),
            "unknown": sorted(self.unknown),
        }


#: The nine figures, in the order in which people read them.
FIGURES: Final = tuple(one.name for one in fields(Snapshot) if one.name not in ("at", "capped", "unknown"))


def take_snapshot(manager: JobManager) -> Snapshot:
    """Return the figures of the manager's database; it may be a replica, where the router reads from one.

    Raises OperationalError where the database is away, never because a figure takes too long.
    """
    alias = read_alias(manager)
    # Before the time begins to count: the first connection of a process, and its first look at the handlers.
    connections[alias].ensure_connection()
    reads = _reads(manager.using(alias), partial(_run, manager, alias), alias)
    budget = Budget(alias, each=EACH, total=TOTAL)
    values: dict[str, Any] = {}
    capped: set[str] = set()
    for name, read in reads.items():
        values[name] = budget.read(read, by_index=True)
        if name in COUNTED and values[name] is not None and values[name] > COUNT_CAP:
            values[name] = COUNT_CAP
            capped.add(name)
    unknown = frozenset(name for name in FIGURES if values[name] is None)
    return Snapshot(**values, at=datetime.now(UTC), capped=frozenset(capped), unknown=unknown)


def read_alias(manager: JobManager) -> str:
    """Return the alias that lists and figures are read from: by using(), JOBQUEUE["DATABASE"] or the router."""
    return manager._db or get_settings().DATABASE or router.db_for_read(manager.model)


#: Figures that are counts and so may stop at the cap.
COUNTED: Final = frozenset({"pending", "running", "done", "dead", "dead_1h", "stuck_running", "deadline_1h"})


def _reads(jobs: Any, run: Any, alias: str) -> dict[str, Callable[[], Any]]:
    since = StatementTimestamp() - HOUR
    late = Attempt.objects.using(alias).filter(outcome=Outcome.DEADLINE, finished_at__gt=since)
    # What a long transaction elsewhere makes slow, the indexes that every job passes through, comes last: it may use up
    # the time of all.
    counts = {
        "done": jobs.filter(status=Status.DONE),
        "dead": jobs.filter(status=Status.DEAD),
        "dead_1h": jobs.filter(status=Status.DEAD, finished_at__gt=since),
        "deadline_1h": late,
    }
    passing = {
        "pending": jobs.filter(status=Status.PENDING),
        "running": jobs.filter(status=Status.RUNNING),
        "stuck_running": jobs.stuck(),
    }
    return {
        **{name: partial(_count, rows) for name, rows in counts.items()},
        "cost_1h_usd": lambda: total_cost(since, unit=UNIT, using=alias),
        **{name: partial(_count, rows) for name, rows in passing.items()},
        "oldest_pending_sec": lambda: max(counting.oldest_pending_seconds(run) or 0.0, 0.0),
    }


def _count(rows: QuerySet[Any]) -> int:
    """Count up to one above the cap: so it can be told whether there are more."""
    return rows.order_by()[: COUNT_CAP + 1].count()


def _run(manager: JobManager, alias: str, statement: str, params: Any) -> list[tuple[Any, ...]]:
    return manager.db_manager(alias).run_sql(statement, params)
