"""Write docs/sql.md: every statement by its header, every index by the catalogue, and which reads which.

The indexes that a statement uses are those that the server really used in the tests of plans, kept in plans.json
beside this module. See reference.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from django.apps import apps
from django.db import connection

from tests.docs.pages import ROOT

PLANS = Path(__file__).with_name("plans.json")
STATEMENTS = ROOT / "jobqueue" / "sql"
PARTS = ("Params", "Returns", "Locks", "Index")

SQL_HEAD = """\
# SQL statements and indexes

Every statement that changes or reads jobs is a file in `jobqueue/sql/`, one statement each, which can be pasted into
psql. This page is made from their headers, from the catalogue of a migrated database and from the plans that the
server really ran, by `make reference`; a test compares. Lists and filters of the admin are built by Django and are
not among them.

"In plans" are the indexes that were used in `tests/plans`, on tables with 20,000 due, 20,000 scheduled and 20,000
finished jobs. Each statement is planned twice there: for its parameters, and for any. "–" in the first table: it
only inserts, its table has a row a worker, queue, host or budget, or it reads the server's own views. "–" in the
second: the index holds a rule (a unique key), or serves lists of the admin.

How the states change by them stands in [states.md](states.md#who-changes-what), and why so in
[decisions.md](decisions.md).
"""


class Statement(NamedTuple):
    """The header of a file: what it is for, and its parts."""

    name: str
    purpose: str
    parts: dict[str, str]


def statement(path: Path) -> Statement:
    """Read the header of a file."""
    lines = [line[2:].strip() for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("--")]
    purpose: list[str] = []
    parts: dict[str, str] = {}
    for line in lines:
        word, colon, rest = line.partition(":")
        if colon and word in PARTS:
            parts[word] = rest.strip()
        elif not parts:
            purpose.append(line)
    return Statement(path.stem, " ".join(purpose).replace("%%", "%"), parts)


def statements() -> list[Statement]:
    """Return all headers, by name."""
    return [statement(path) for path in sorted(STATEMENTS.glob("*.sql"))]


def planned() -> dict[str, list[str]]:
    """Return the indexes that each statement was seen to use."""
    found: dict[str, list[str]] = json.loads(PLANS.read_text(encoding="utf-8"))
    return found


def keep_plans(seen: Path) -> None:
    """Keep what the tests of plans have written, one line each, as plans.json."""
    found: dict[str, set[str]] = {}
    for line in seen.read_text(encoding="utf-8").splitlines():
        name, indexes = json.loads(line)
        found.setdefault(name, set()).update(indexes)
    text = json.dumps({name: sorted(found[name]) for name in sorted(found)}, indent=1)
    PLANS.write_text(f"{text}\n", encoding="utf-8")


def indexes() -> list[tuple[str, str, str]]:
    """Return (table, name, definition) of every index of our tables, out of the catalogue."""
    models = apps.get_app_config("jobqueue").get_models()
    tables = sorted({model._meta.db_table for model in models if model._meta.managed})
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT tablename, indexname, indexdef FROM pg_indexes"
            " WHERE schemaname = current_schema() AND tablename = ANY(%s) ORDER BY tablename, indexname",
            [tables],
        )
        return [(table, name, brief(text)) for table, name, text in cursor.fetchall()]


def brief(definition: str) -> str:
    """Return an index's definition without its name and table."""
    unique, using = "UNIQUE" in definition.split(" INDEX ", maxsplit=1)[0], definition.partition(" USING ")[2]
    return ("unique, " if unique else "") + using.removeprefix("btree ").replace("|", "\\|")


def sql_page() -> str:
    """Return docs/sql.md."""
    seen = planned()
    read_by: dict[str, list[str]] = {}
    for name, used in sorted(seen.items()):
        for index in used:
            read_by.setdefault(index, []).append(name)
    of_statements = [
        [
            code(each.name),
            *(cell(text) for text in (each.purpose, each.parts["Locks"], each.parts["Index"])),
            codes(seen.get(each.name)),
        ]
        for each in statements()
    ]
    of_indexes = [
        [code(name), code(table), code(columns), codes(read_by.get(name))] for table, name, columns in indexes()
    ]
    return "\n".join(
        [
            f"{SQL_HEAD}\n## Statements\n",
            *table_of(["statement", "purpose", "locks", "index, by its header", "in plans"], of_statements),
            "\n## Indexes\n",
            *table_of(["index", "table", "columns and condition", "statements in plans"], of_indexes),
            "",
        ]
    )


def table_of(head: list[str], lines: list[list[str]]) -> Iterator[str]:
    """Yield a table."""
    for each in (head, ["---"] * len(head), *lines):
        yield f"| {' | '.join(each)} |".replace(" --- ", "---")


def codes(names: list[str] | None) -> str:
    """Return names in a cell."""
    return ", ".join(code(name) for name in names or []) or "–"


def cell(text: str) -> str:
    """Return text that may stand in a cell."""
    return text.replace("|", "\\|").replace("*", "\\*")


def code(text: str) -> str:
    """Return text as code in a cell."""
    return f"`{text}`"
