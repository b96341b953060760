"""The table of guards fits the statements: each text stands once, and nothing that looks like a guard is left out."""

import ast
import re
from pathlib import Path

import pytest

from .guard import ROOT, Guard, loose, without_comments
from .no_guards import NO_GUARDS
from .table import BY_NAME, GUARDS

CHANGES_ROWS = re.compile(r"(?<!KEY )(?<!FOR )\bUPDATE\b|\b(?:DELETE|INSERT|COPY|CALL)\b")
LOOKS_LIKE_A_GUARD = re.compile(
    r"(?<!SET )\bstatus(?: \+ 0)? (?:=|<>|IN\b)|\blease_epoch =|\bworker_id =|\blease_until\b[^=]{0,15} <"
    r"|\bcancel_requested_at (?:IS|=)"
    r"|\b(?:run_after|finished_at|heartbeat_at|at) [<>]|\bspan_seconds [<=]|\bidle_since IS|\bFOR (?:NO KEY )?UPDATE"
    r"|\bSKIP LOCKED|\bMATERIALIZED|\bLIMIT\b|\bORDER BY|\bON CONFLICT"
)
STATEMENTS = {path.stem: path for path in sorted((ROOT / "jobqueue/sql").glob("*.sql"))}
CHANGING = [
    name for name, path in STATEMENTS.items() if CHANGES_ROWS.search(without_comments(path.read_text(encoding="utf-8")))
]


def source_of(guard: Guard) -> str:
    return (ROOT / guard.path).read_text(encoding="utf-8")


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.name)
def test_a_guard_stands_exactly_once_in_its_statement_and_can_be_taken_out(guard: Guard) -> None:
    source = source_of(guard)

    assert len(guard.find(source)) == 1
    assert guard.cut(source) != source


def test_every_guard_has_a_name_of_its_own() -> None:
    assert len(BY_NAME) == len(GUARDS)


@pytest.mark.parametrize("guard", [guard for guard in GUARDS if guard.behind], ids=lambda guard: guard.name)
def test_a_second_line_names_the_first_and_says_why_it_is_one(guard: Guard) -> None:
    first = BY_NAME[f"{guard.statement}: {guard.behind}"]

    assert guard.why
    assert first.cut(guard.cut(source_of(guard)))


def test_the_tests_that_guards_name_exist() -> None:
    named = {test for guard in GUARDS for test in guard.tests.split()}
    missing = [test for test in sorted(named) if not exists(test)]

    assert missing == []


def exists(test: str) -> bool:
    """Tell whether there is such a file below tests/, and such a function in it."""
    path, _, function = test.partition("::")
    file = ROOT / "tests" / path
    return file.is_file() and (not function or function in functions(file))


def functions(file: Path) -> set[str]:
    return {node.name for node in ast.parse(file.read_text()).body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("statement", CHANGING)
def test_whatever_looks_like_a_guard_is_in_the_table_or_listed_as_none(statement: str) -> None:
    """A status, a fence, an expiry, a lock, a limit, an order: taken out by `make mutate`, or a reason not to."""
    source = without_comments(STATEMENTS[statement].read_text(encoding="utf-8"))
    covered = [guard.removed_span(source) for guard in GUARDS if guard.statement == statement]
    covered += [place(statement, text, source) for text, _ in NO_GUARDS.get(statement, [])]

    left_out = [
        f"line {source.count(chr(10), 0, match.start()) + 1}: {source[match.start() : match.start() + 60]!r}"
        for match in LOOKS_LIKE_A_GUARD.finditer(source)
        if not any(start <= match.start() < end for start, end in covered)
    ]

    assert left_out == []


@pytest.mark.parametrize("statement", NO_GUARDS)
def test_what_is_listed_as_no_guard_stands_once_and_has_a_reason(statement: str) -> None:
    source = without_comments(STATEMENTS[statement].read_text(encoding="utf-8"))

    for text, reason in NO_GUARDS[statement]:
        assert place(statement, text, source)
        assert reason


def place(statement: str, text: str, source: str) -> tuple[int, int]:
    """Return where a text stands."""
    found = list(re.finditer(loose(text), source))
    assert len(found) == 1, f"{statement}: {text!r} stands {len(found)} times"
    return found[0].span()
