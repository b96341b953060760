"""How the database bears it: who holds old snapshots, dead rows and vacuum, sizes, connections, NOTIFY.

An old snapshot and dead rows are what slows any queue in PostgreSQL down, long before anything else shows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from django.apps import apps

from jobqueue import sql
from jobqueue.managers.rows import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotHolder:
    """Who holds the oldest snapshot: a session, a prepared transaction or a replication slot."""

    kind: str  # "session", "prepared" or "slot"
    name: str  # application_name, transaction's or slot's name
    pid: int | None
    user: str
    state: str  # of a session: "active", "idle in transaction" …


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFigures:
    """One of our tables: rows by the statistics collector, bytes of the table with TOAST, and of its indexes."""

    table: str
    live_rows: int
    dead_rows: int
    last_autovacuum: datetime | None
    last_vacuum: datetime | None
    table_bytes: int | None  # None: somebody holds a lock on it
    index_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseFigures:
    """How the primary stands. None: could not be read, and named in the snapshot's `unknown`."""

    oldest_snapshot_sec: float | None = None  # since its transaction began; 0 where nobody holds one
    oldest_snapshot_xids: int | None = None  # transactions begun since: all that is known of some replication slots
    oldest_snapshot_by: SnapshotHolder | None = None
    sees_all_sessions: bool | None = None  # else only those of our own user: grant pg_read_all_stats
    tables: tuple[TableFigures, ...] = ()
    connections: Mapping[str, int] = field(default_factory=dict)  # ours by role: "dispatch", "lease" …
    connections_used: int | None = None  # of all clients of the server
    connections_max: int | None = None
    clock_skew_sec: Mapping[str, float] = field(default_factory=dict)  # by living worker
    notify: bool | None = None  # NOTIFY is on and a living worker listens
    notify_queue_usage: float | None = None  # share of the server's queue of notifications in use: 0 to 1


def table_names() -> list[str]:
    """Return the names of the app's tables, the one of jobs first."""
    names = [model._meta.db_table for model in apps.get_app_config("jobqueue").get_models(include_auto_created=True)]
    own = sorted({name for name in names if name.startswith("jobqueue_")})
    return sorted(own, key=lambda name: name != JOBS)


JOBS: Final = "jobqueue_job"


def read_oldest_snapshot(run: Run) -> dict[str, Any]:
    """Return the fields of DatabaseFigures that tell of the oldest snapshot."""
    rows = run(sql.OLDEST_SNAPSHOT, {})
    if not rows:
        return {"oldest_snapshot_sec": 0.0, "oldest_snapshot_xids": 0}
    kind, name, pid, user, state, xids, seconds = rows[0]
    holder = SnapshotHolder(kind=kind, name=name or "", pid=pid, user=user or "", state=state)
    return {"oldest_snapshot_sec": seconds, "oldest_snapshot_xids": xids, "oldest_snapshot_by": holder}


def read_load(run: Run) -> dict[str, Any]:
    """Return the fields of DatabaseFigures that tell of connections and notifications."""
    rows = run(sql.SERVER_LOAD, {})
    roles = {role: connections for role, connections, *_ in rows}
    _, _, most, sees_all, usage = rows[0]
    return {
        "connections_used": roles.pop("", 0),
        "connections": dict(sorted(roles.items())),
        "connections_max": most,
        "sees_all_sessions": sees_all,
        "notify_queue_usage": usage,
    }


def read_tables(run: Run) -> list[tuple[Any, ...]]:
    """Return (table, live rows, dead rows, last autovacuum, last vacuum) of each of our tables."""
    return run(sql.TABLE_ROWS, {"tables": table_names()})


def read_sizes(run: Run) -> dict[str, tuple[int, int]]:
    """Return the bytes of each of our tables, and of its indexes. Waits where one is locked as a whole."""
    return {table: (own, indexes) for table, own, indexes in run(sql.TABLE_SIZES, {"tables": table_names()})}


def table_figures(
    rows: list[tuple[Any, ...]] | None, sizes: Mapping[str, tuple[int, int]] | None
) -> tuple[TableFigures, ...]:
    """Return the tables with what could be read of them."""
    found = []
    for table, live, dead, last_autovacuum, last_vacuum in rows or ():
        own, indexes = (sizes or {}).get(table, (None, None))
        found.append(
            TableFigures(
                table=table,
                live_rows=live,
                dead_rows=dead,
                last_autovacuum=last_autovacuum,
                last_vacuum=last_vacuum,
                table_bytes=own,
                index_bytes=indexes,
            )
        )
    return tuple(found)
