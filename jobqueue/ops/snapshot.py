"""The figures of the moment: of all queues together, by queue, by worker, and of the database that bears them.

Counting all rows of a big table is what made other queues' dashboards the database's main work. Here each read goes by
a small index, a count stops at COUNT_CAP and says so (`capped`: show it as "at least"; `estimates` says about how many
there are), and all of them together have less than a third of a second. A read that takes too long, because somebody
holds a lock or a long transaction keeps dead rows in an index, leaves its own figures unknown and the others standing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from django.db import connections, router

from jobqueue.conf import get_settings

from .database import DatabaseFigures
from .queue_figures import QueueFigures
from .reading import read_all
from .sharing import Shared
from .worker_figures import WorkerFigures

if TYPE_CHECKING:
    from jobqueue.managers import JobManager


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """How all stands at a moment. A figure named in `unknown` is None; one named in `capped` is a lower bound.

    `unknown` also names what of the parts could not be read: "queues.depth", "queues.arrivals", "queues.statistics",
    "queues.times" (the percentiles), "queues.paused", "workers", "database.oldest_snapshot", "database.load",
    "database.tables", "database.sizes".
    """

    pending: int | None  # due, waiting for a worker
    running: int | None
    scheduled: int | None  # not due yet
    waiting: int | None  # for other jobs: 0, before there are dependencies
    done: int | None  # in the last 24 hours, by the statistics: exact to a quarter of an hour
    dead: int | None  # dead letters nobody has dealt with, without those of the package's own queue
    dead_1h: int | None  # of these, the ones that died within the last hour
    deadline_1h: int | None  # attempts that ran into their deadline within the last hour
    cost_1h_usd: Decimal | None
    stuck_running: int | None
    oldest_pending_sec: float | None  # since it was due, not since it was enqueued; 0 when nothing is due
    at: datetime  # when it was read
    queues: tuple[QueueFigures, ...] = ()
    workers: tuple[WorkerFigures, ...] = ()
    database: DatabaseFigures = field(default_factory=DatabaseFigures)
    estimates: Mapping[str, int] = field(default_factory=dict)  # of capped figures, where an index knows
    capped: frozenset[str] = frozenset()
    unknown: frozenset[str] = frozenset()
    error: str = ""  # why the database could not be asked, or not to the end; not in the JSON form

    def to_json(self) -> dict[str, Any]:
        """Return the snapshot as JSON holds it: costs as text, since their cents are exact, times as ISO 8601."""
        values = {one.name: _plain(getattr(self, one.name)) for one in fields(self) if one.name != "error"}
        return values | {"reachable": not self.error}


#: The figures of all queues together, in the order in which people read them.
FIGURES: Final = tuple(one.name for one in fields(Snapshot))[: tuple(one.name for one in fields(Snapshot)).index("at")]

_shared: Final = Shared[Snapshot]()


def take_snapshot(manager: JobManager, *, fresh: bool = False, patience: float = 1.0) -> Snapshot:
    """Return the figures of the manager's database, at most a second old; `fresh` ones are read now.

    With a patience of 4 all reads may take four times as long: for a person who waits, on a connection that is new.

    The figures of jobs may come from a replica, where the router reads from one; those of workers, pauses and the
    database are of the primary. Within the caller's own transaction they are always read now, and not shared: it may
    have changed rows that nobody else sees. Where the database does not answer, everything is unknown and `error` says
    why: it raises nothing of the database's. Raises ConfigurationError for wrong settings.
    """
    alias, primary = read_alias(manager), manager.write_db
    if any(connections[each].in_atomic_block for each in (alias, primary)):
        return Snapshot(**read_all(manager, alias, primary, patience=patience))
    return _shared.get(
        (alias, primary), lambda: Snapshot(**read_all(manager, alias, primary, patience=patience)), fresh=fresh
    )


def forget() -> None:
    """Have the next snapshot read anew: for tests, which change rows more often than once a second."""
    _shared.forget()


def read_alias(manager: JobManager) -> str:
    """Return the alias that lists and figures are read from: by using(), JOBQUEUE["DATABASE"] or the router."""
    return manager._db or get_settings().DATABASE or router.db_for_read(manager.model)


def _plain(value: Any) -> Any:
    """Return a value as JSON holds it."""
    if dataclasses.is_dataclass(value):
        return {one.name: _plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    if isinstance(value, Decimal):
        return format(value, "f")
    return value.isoformat() if isinstance(value, datetime) else value
