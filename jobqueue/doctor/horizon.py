"""Who keeps vacuum from removing dead rows: sessions, prepared transactions, replication slots. No texts of queries."""

from __future__ import annotations

from typing import Final

from .findings import Finding, Told
from .looking import Look, finding

#: As the built-in alert oldest_snapshot_sec.
LONG_SECONDS: Final = 600
LONG_XIDS: Final = 1_000_000

QUERY: Final = """
SELECT extract(epoch FROM statement_timestamp() - query_start)::float8, wait_event_type
  FROM pg_stat_activity WHERE pid = %(pid)s
"""
PREPARED: Final = """
SELECT gid, owner::text, extract(epoch FROM statement_timestamp() - prepared)::float8
  FROM pg_prepared_xacts WHERE database = current_database() ORDER BY prepared LIMIT 20
"""
SLOTS: Final = """
SELECT slot_name::text, age(xmin)
  FROM pg_replication_slots WHERE xmin IS NOT NULL AND NOT active ORDER BY 2 DESC LIMIT 20
"""


def horizon(look: Look) -> Told:
    """Look at the oldest snapshot and its holder, at every prepared transaction, and at slots that nobody uses."""
    figures = look.figures("database.oldest_snapshot").database
    holder, seconds = figures.oldest_snapshot_by, figures.oldest_snapshot_sec
    xids = figures.oldest_snapshot_xids or 0
    found = list[Finding]()
    if holder is not None and holder.kind == "session" and ((seconds or 0) >= LONG_SECONDS or xids >= LONG_XIDS):
        found.append(finding("horizon_session", _session(look), f"pid {holder.pid}"))
    for name, owner, age in look.ask(PREPARED):
        if age >= LONG_SECONDS:
            found.append(finding("horizon_prepared", f"prepared {age:.0f} s ago by {owner}", name))
    for name, age in look.ask(SLOTS):
        found.append(finding("horizon_slot", f"{age} transactions behind, and nobody uses it", name))
    detail = "nobody holds a snapshot" if holder is None else f"oldest snapshot: {_age(seconds)}, by a {holder.kind}"
    return Told(detail, found)


def _session(look: Look) -> str:
    figures = look.snapshot.database
    holder = figures.oldest_snapshot_by
    assert holder is not None
    rows = look.ask(QUERY, pid=holder.pid)
    since, waits = rows[0] if rows else (None, None)
    query = f"; its statement began {since:.0f} s ago" if since is not None else ""
    waiting = f", waits for {waits}" if waits else ""
    return (
        f"{_age(figures.oldest_snapshot_sec)} and {figures.oldest_snapshot_xids} transactions old: user "
        f"{holder.user or '?'}, application {holder.name or '?'}, {holder.state or 'state unknown'}{query}{waiting}"
    )


def _age(seconds: float | None) -> str:
    return "of unknown age" if seconds is None else f"{seconds:.0f} s"
