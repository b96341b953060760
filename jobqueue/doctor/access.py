"""What the server lets us have: connections for all slots, and privileges on the tables."""

from __future__ import annotations

from typing import Final

from jobqueue.ops.database import table_names

from .findings import Told
from .looking import Look, finding

OWN_CONNECTIONS: Final = 5  # of a worker: docs/worker.md, Connections
PRIVILEGES: Final = ("SELECT", "INSERT", "UPDATE", "DELETE")

LIMITS: Final = """
SELECT current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
       - COALESCE(current_setting('reserved_connections', true)::int, 0),
       CASE WHEN role.rolsuper OR role.rolconnlimit < 0 THEN NULL ELSE role.rolconnlimit END,
       (SELECT CASE WHEN role.rolsuper OR datconnlimit < 0 THEN NULL ELSE datconnlimit END
          FROM pg_database WHERE datname = current_database()),
       role.rolname::text
  FROM pg_roles AS role WHERE role.rolname = current_user
"""
# The sequence of the jobs as well, since ids are reserved for a bulk; an INSERT alone needs no grant on an identity's.
MAY: Final = """
SELECT wanted.name,
       array(SELECT asked FROM unnest(%(privileges)s::text[]) AS asked WHERE NOT has_table_privilege(found.oid, asked))
       || array(SELECT 'USAGE on ' || sequence.relname
                  FROM pg_depend AS link JOIN pg_class AS sequence ON sequence.oid = link.objid
                 WHERE link.refobjid = found.oid AND wanted.name = 'jobqueue_job'
                   AND CASE WHEN sequence.relkind = 'S' THEN NOT has_sequence_privilege(sequence.oid, 'USAGE') END)
  FROM unnest(%(tables)s::text[]) AS wanted (name) JOIN pg_class AS found ON found.oid = to_regclass(wanted.name)
"""


def connections_left(look: Look) -> Told:
    """Compare what the living workers need by the formula of docs/worker.md with what the server has left for them."""
    figures = look.figures("database.load", "workers")
    most, of_role, of_database, role = look.ask(LIMITS)[0]
    limit = min(each for each in (most, of_role, of_database) if each is not None)
    needed = sum(OWN_CONNECTIONS + worker.slots + 1 for worker in figures.workers if worker.alive)
    ours = sum(figures.database.connections.values())
    others = max(0, (figures.database.connections_used or 0) - ours)
    text = f"{others} in use by others, up to {needed} needed by workers, {limit} to be had by {role}"
    short = others + needed > limit and not look.behind_pooler
    return Told(text, [finding("connections_short", text)] if short else [])


def privileges(look: Look) -> Told:
    """Look whether this role may read and write every table, and what it sees of others."""
    rows = look.ask(MAY, tables=table_names(), privileges=list(PRIVILEGES))
    found = [finding("privilege_missing", f"lacks {', '.join(missing)}", table) for table, missing in rows if missing]
    if not look.figures("database.load").database.sees_all_sessions:
        found.append(finding("sees_less", "is no member of pg_read_all_stats"))
    return Told(f"looked at {len(rows)} tables", found)
