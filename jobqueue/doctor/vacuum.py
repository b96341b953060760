"""Whether vacuum does its work on our tables: its settings, dead rows, and room that is no longer needed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final

from jobqueue.ops.database import TableFigures, table_names

from .findings import Finding, Told
from .looking import Look, finding

#: Dead rows are told of from so many on, and above twice what lets autovacuum begin.
DEAD_ROWS_LEAST: Final = 20_000
BLOAT_LEAST_BYTES: Final = 100_000_000
BLOAT_TIMES: Final = 4
INDEX_ENTRY_BYTES: Final = 400  # no entry of ours needs more

SERVER: Final = """
SELECT current_setting('autovacuum')::bool, current_setting('track_counts')::bool,
       current_setting('autovacuum_vacuum_scale_factor')::float8, current_setting('autovacuum_vacuum_threshold')::float8
"""
OPTIONS: Final = """
SELECT wanted.name, COALESCE(found.reloptions, '{}')
  FROM unnest(%(tables)s::text[]) AS wanted (name) JOIN pg_class AS found ON found.oid = to_regclass(wanted.name)
"""
# The room that the rows of a table need by the statistics of ANALYZE. One that was never analyzed, or has changed much
# since, is left out.
TABLES: Final = """
SELECT wanted.name, pg_relation_size(found.oid),
       found.reltuples * (28 + COALESCE(row.width, 0)) * 100
       / COALESCE(substring(array_to_string(found.reloptions, ' ') FROM 'fillfactor=([0-9]+)')::int, 100)
  FROM unnest(%(tables)s::text[]) AS wanted (name)
       JOIN pg_class AS found ON found.oid = to_regclass(wanted.name)
       JOIN pg_namespace AS space ON space.oid = found.relnamespace
       CROSS JOIN LATERAL (
            SELECT sum((1 - null_frac) * avg_width) AS width FROM pg_stats
             WHERE schemaname = space.nspname AND tablename = found.relname) AS row
 WHERE (found.reltuples = 0 OR (found.reltuples > 0 AND row.width IS NOT NULL))
   AND pg_stat_get_mod_since_analyze(found.oid) <= 1000 + found.reltuples / 2
"""
INDEXES: Final = """
SELECT index.relname::text, pg_relation_size(index.oid), greatest(index.reltuples, 0) * %(entry)s
  FROM unnest(%(tables)s::text[]) AS wanted (name)
       JOIN pg_index AS link ON link.indrelid = to_regclass(wanted.name)
       JOIN pg_class AS index ON index.oid = link.indexrelid
       JOIN pg_class AS owner ON owner.oid = link.indrelid
 WHERE owner.reltuples >= 0 AND index.reltuples >= 0
   AND pg_stat_get_mod_since_analyze(owner.oid) <= 1000 + owner.reltuples / 2
"""


def vacuum(look: Look) -> Told:
    """Look at autovacuum's settings, the server's and those of each table, and at dead rows."""
    on, counts, scale, threshold = look.ask(SERVER)[0]
    found = [] if on and counts else [finding("autovacuum_off", f"autovacuum {on}, track_counts {counts}")]
    options = {table: dict(each.split("=", 1) for each in given) for table, given in _options(look)}
    found += _storage(options)
    for one in look.figures("database.tables").database.tables:
        found += _dead_rows(one, options.get(one.table, {}), scale, threshold)
    tables = look.snapshot.database.tables
    dead, last = sum(one.dead_rows for one in tables), next((one.last_autovacuum for one in tables), None)
    return Told(
        f"{dead} dead rows; last autovacuum of jobs {last.isoformat(' ', 'seconds') if last else 'never'}", found
    )


def bloat(look: Look) -> Told:
    """Compare the size of tables and indexes with what their rows need, by the statistics: no row is read."""
    found = [
        finding("table_bloat", f"{_mb(size)}, of which its rows need about {_mb(needed)}", name)
        for name, size, needed in look.ask(TABLES, tables=table_names())
        if size - needed > BLOAT_LEAST_BYTES and size > BLOAT_TIMES * needed
    ]
    indexes = look.ask(INDEXES, tables=table_names(), entry=INDEX_ENTRY_BYTES)
    found += [
        finding("index_bloat", f"{_mb(size)} for entries of {_mb(needed)} at most", name)
        for name, size, needed in indexes
        if size > BLOAT_LEAST_BYTES and size > BLOAT_TIMES * needed
    ]
    return Told(f"{len(indexes)} indexes of {_mb(sum(size for _, size, _ in indexes))}", found)


def expected_options() -> dict[str, dict[str, str]]:
    """Return the storage parameters that the migrations give each table: read from their SQL."""
    text = import_module("jobqueue.migrations.0002_storage_parameters").SET
    return {
        table: dict(re.findall(r"(\w+) = ([\d.]+)", options))
        for table, options in re.findall(r"ALTER TABLE (\w+) SET \((.*?)\)", text, re.DOTALL)
    }


def _options(look: Look) -> list[tuple[Any, ...]]:
    return look.ask(OPTIONS, tables=table_names())


def _storage(options: dict[str, dict[str, str]]) -> Iterator[Finding]:
    for table, given in options.items():
        if given.get("autovacuum_enabled", "on").lower() in ("off", "false", "0", "no"):
            yield finding("autovacuum_off", "autovacuum_enabled is off", table)
    for table, wanted in expected_options().items():
        changed = {
            name: value
            for name, value in wanted.items()
            if table in options and float(options[table].get(name, "nan")) != float(value)
        }
        if changed:
            asked = ", ".join(f"{name} = {value}" for name, value in changed.items())
            yield finding("storage_parameters", f"ALTER TABLE {table} SET ({asked})", table)


def _dead_rows(one: TableFigures, options: dict[str, str], scale: float, threshold: float) -> Iterator[Finding]:
    scale = float(options.get("autovacuum_vacuum_scale_factor", scale))
    begins = float(options.get("autovacuum_vacuum_threshold", threshold)) + scale * one.live_rows
    if one.dead_rows > max(DEAD_ROWS_LEAST, 2 * begins):
        last = one.last_autovacuum.isoformat(" ", "seconds") if one.last_autovacuum else "never"
        text = f"{one.dead_rows} dead of {one.live_rows} live rows; autovacuum begins at {begins:.0f}, last was {last}"
        yield finding("dead_rows", text, one.table)


def _mb(size: float) -> str:
    return f"{size / 1e6:.0f} MB"
