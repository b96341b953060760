"""The plan that the server really ran for a statement, prepared as a worker prepares it."""

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import psycopg
from django.db import connection, transaction

from jobqueue import sql

Kind = Literal["custom", "generic"]


@dataclass(frozen=True, repr=False)
class Plan:
    """What the server did: its tree of nodes, flattened."""

    nodes: list[dict[str, Any]]

    def __repr__(self) -> str:
        """Return a line a node, for the message of a test that fails."""
        lines = []
        for node in self.nodes:
            found = [str(node[name]) for name in ("Node Type", "Relation Name", "Index Name") if name in node]
            removed = node.get("Rows Removed by Filter", 0)
            counts = f"rows={node['Actual Rows']} loops={node['Actual Loops']} removed={removed}"
            conditions = [f"{name}: {node[name]}" for name in ("Index Cond", "Filter", "CTE Name") if name in node]
            lines.append(f"{' '.join(found)} {counts} {'; '.join(conditions)}")
        return "\n" + "\n".join(lines)

    @property
    def indexes(self) -> set[str]:
        """The indexes used, by name."""
        return {node["Index Name"] for node in self.nodes if "Index Name" in node}

    @property
    def scanned_whole(self) -> set[str]:
        """The tables that were read from end to end."""
        return {node["Relation Name"] for node in self.nodes if node["Node Type"].endswith("Seq Scan")}

    @property
    def touched(self) -> int:
        """How many rows of the tables were read, those thrown away by a filter included."""
        scans = [node for node in self.nodes if "Relation Name" in node and "Scan" in node["Node Type"]]
        filtered = ("Rows Removed by Filter", "Rows Removed by Index Recheck")
        return sum(
            int(node["Actual Loops"] * (node["Actual Rows"] + sum(node.get(name, 0) for name in filtered)))
            for node in scans
        )

    @property
    def milliseconds(self) -> float:
        """How long the statement took, without being planned."""
        return float(self.nodes[0]["Execution Time"])

    @property
    def blocks(self) -> int:
        """How many blocks were asked for, all nodes together."""
        return int(self.nodes[0]["Shared Hit Blocks"] + self.nodes[0]["Shared Read Blocks"])


def flat(node: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a node of a plan and all below it."""
    return [node, *(inner for child in node.get("Plans", []) for inner in flat(child))]


def explain(
    kind: Kind, statement: str, params: Mapping[str, Any], *, meanwhile: Callable[[], object] | None = None
) -> Plan:
    """Run a statement within the caller's transaction, take it back, and return its plan.

    A prepared statement may get a plan made for these parameters (custom), or one made for any (generic). `meanwhile`
    is done after a generic plan was made and before it is run.
    """
    names: list[str] = []

    def number(found: re.Match[str]) -> str:
        if found[1] not in names:
            names.append(found[1])
        return f"${names.index(found[1]) + 1}"

    # The comments go: a "%%" in them is psycopg's, not PostgreSQL's.
    text = re.sub(r"%\((\w+)\)s", number, re.sub(r"--[^\n]*", "", statement)).replace("%%", "%")
    values = [params[name] for name in names]
    arguments = f"({', '.join(['%s'] * len(values))})" if values else ""
    with transaction.atomic(), psycopg.ClientCursor(connection.connection) as cursor:
        cursor.execute(f"SET LOCAL plan_cache_mode = force_{kind}_plan")
        cursor.execute(f"PREPARE planned AS {text}".encode())
        if meanwhile is not None:
            cursor.execute(f"EXPLAIN EXECUTE planned{arguments}".encode(), values)
            meanwhile()
        cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE planned{arguments}".encode(), values)
        row = cursor.fetchone()
        cursor.execute("DEALLOCATE planned")
        transaction.set_rollback(True)
    assert row is not None
    plan = row[0] if isinstance(row[0], list) else json.loads(row[0])
    first, *others = flat(plan[0]["Plan"])
    found = Plan([first | {"Execution Time": plan[0]["Execution Time"]}, *others])
    if kept := os.environ.get("JOBQUEUE_KEEP_PLANS"):
        keep(Path(kept), statement, found)
    return found


def keep(file: Path, statement: str, plan: Plan) -> None:
    """Add the indexes that a statement of the package was seen to use to a file, a line of JSON each: docs/sql.md."""
    name = next((name for name in dir(sql) if getattr(sql, name) == statement), "")
    if name:
        with file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps([name.lower(), sorted(plan.indexes)]) + "\n")


def planned(
    run: Callable[..., Plan], verb: Callable[..., Any], *args: Any, rows: tuple[Any, ...] = (), **named: Any
) -> Plan:
    """Return the plan of the statement that a verb runs, whatever it makes of the answer."""
    plans: list[Plan] = []

    def explained(statement: str, params: dict[str, Any]) -> list[Any]:
        plans.append(run(statement, params))
        return [rows] if rows else []

    verb(explained, *args, **named)
    return plans[0]
