"""Write docs/faults.md: each case and fault, the tests that show it, what the fault suite measured.

`python -m tests.faults.report` makes the page from the docstrings of all tests and from measured.json, which
`make test-faults` writes; tests/docs compares the page with what this module would write.
"""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from .cases import CASES
from .measured import FILE

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "faults.md"
NAMES = 3
CASE = re.compile(r"\bC\d{2,3}\b")
HEAD = """# Faults

<!-- Written by `python -m tests.faults.report`: change docstrings of tests or tests/faults/cases.py, not this page. -->

What production does to a queue, and the tests that do it to this one: real servers, real `runworker` processes, real
kills. `make test-faults` runs all of `tests/faults/` and writes the measured times here; after each scenario it checks
that no lease stays expired, no two overlapping runs are both accepted, every job's state is that of its accepted
attempt, no process is left, nobody is idle in a transaction, logs are quiet, attempts are within their budget,
connections within their formula, and ten further jobs are done within five seconds. What the bounds are made of stands
in [guarantees.md](guarantees.md); they have slack for a noisy machine.
"""


class Shown(NamedTuple):
    """One test: where it is, what it says of itself, which cases it names."""

    file: str
    name: str
    title: str
    cases: frozenset[str]

    @property
    def nodeid(self) -> str:
        """The start of its pytest ids: those of its parameters follow."""
        return f"{self.file}::{self.name}"


def tests() -> list[Shown]:
    """Return every test of tests/, in the order of files and lines."""
    return [shown for path in sorted((ROOT / "tests").rglob("test_*.py")) for shown in _tests_of(path)]


def _tests_of(path: Path) -> Iterator[Shown]:
    module = ast.parse(path.read_text())
    file = str(path.relative_to(ROOT))
    of_module = frozenset(CASE.findall(ast.get_docstring(module) or ""))
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            text = " ".join((ast.get_docstring(node) or "").split())
            cases = frozenset(CASE.findall(text)) or of_module
            yield Shown(file, node.name, text or node.name.removeprefix("test_").replace("_", " "), cases)


def page() -> str:
    """Return the text of docs/faults.md."""
    found, measured = tests(), json.loads(FILE.read_text()) if FILE.exists() else {}
    run = measured.pop("_run", None)
    lines = [
        HEAD,
        f"{run}\n" if run else "",
        "## Cases",
        "",
        "| case | what goes wrong elsewhere | shown by | measured |",
        "|---|---|---|---|",
    ]
    for case, fault in CASES.items():
        shown = [one for one in found if case in one.cases]
        lines.append(f"| {case} | {fault} | {_links(shown)} | {_figures(shown, measured)} |")
    lines += ["", "## Further faults", "", "| fault | scenario | measured |", "|---|---|---|"]
    for one in found:
        if one.file.startswith("tests/faults/") and not one.cases & CASES.keys():
            lines.append(f"| {one.title.replace('|', '/')} | {_links([one])} | {_figures([one], measured)} |")
    return "\n".join(lines) + "\n"


def _links(shown: list[Shown]) -> str:
    """Name the tests by file; of many in one file the first few."""
    by_file: dict[str, list[str]] = {}
    for one in shown:
        by_file.setdefault(one.file, []).append(one.name.removeprefix("test_").replace("_", " "))
    return "<br>".join(
        f"[{Path(file).stem.removeprefix('test_')}](../{file}): {'; '.join(names[:NAMES])}"
        + (f"; {len(names) - NAMES} more" if len(names) > NAMES else "")
        for file, names in by_file.items()
    )


def _figures(shown: list[Shown], measured: dict[str, Any]) -> str:
    told = []
    for one in shown:
        for nodeid, entry in measured.items():
            if nodeid.partition("[")[0] == one.nodeid:
                parameter = nodeid.partition("[")[2].rstrip("]")
                for what, value, within, unit in entry["figures"]:
                    name = f"{what} ({parameter})" if parameter else what
                    told.append(f"{name}: {value:g} {unit} (≤ {within:g})")
                if not entry["passed"]:
                    told.append(f"**{one.name} failed in the last run**")
    return "<br>".join(told)


if __name__ == "__main__":
    PAGE.write_text(page())
