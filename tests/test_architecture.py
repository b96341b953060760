"""The house rules that a machine can check: sizes, names, docstrings, and the headers of the SQL files.

The floors contract (who may import whom) is import-linter's, in setup.cfg; annotations are ruff's.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from jobqueue import sql

ROOT = Path(__file__).resolve().parent.parent
CODE = ("jobqueue", "project", "tests", "benchmarks")
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 50
MEANINGLESS_NAMES = {"utils", "util", "helpers", "helper", "common", "core", "services", "service", "misc"}
HEADER = ("Params", "Returns", "Locks", "Index")

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def sources(*folders: str) -> Iterator[Path]:
    for folder in folders:
        yield from sorted(path for path in (ROOT / folder).rglob("*.py"))


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def definitions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, Definition]]:
    """Yield each function and class with its dotted name, nested ones after their owners."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, Definition):
            yield prefix + node.name, node
            yield from definitions(node, f"{prefix}{node.name}.")
        else:
            yield from definitions(node, prefix)


def public_definitions(tree: ast.Module) -> Iterator[tuple[str, Definition]]:
    """Yield what a reader of the module may use: nothing private, nothing inside a function, no Meta."""
    functions = [name for name, node in definitions(tree) if not isinstance(node, ast.ClassDef)]
    for name, node in definitions(tree):
        inside_function = any(name.startswith(f"{function}.") for function in functions)
        if not inside_function and not any(part.startswith("_") or part == "Meta" for part in name.split(".")):
            yield name, node


def is_overload(node: Definition) -> bool:
    return any(ast.unparse(decorator).endswith("overload") for decorator in node.decorator_list)


def sql_files() -> dict[str, str]:
    return {path.stem: path.read_text() for path in sorted((ROOT / "jobqueue" / "sql").glob("*.sql"))}


def sql_header(text: str) -> dict[str, str]:
    """Return the named parts of a statement's header, each joined to one line."""
    parts: dict[str, str] = {}
    current = "Summary"
    for line in text.splitlines():
        if not line.startswith("--"):
            break
        comment = line.removeprefix("--")
        if named := re.match(r" (\w+): +(.*)", comment):
            current = named[1]
            comment = named[2]
        elif current in HEADER and not comment.startswith("   "):
            current = "Remarks"
        parts[current] = f"{parts.get(current, '')} {comment.strip()}".strip()
    return parts


def declared_params(text: str) -> set[str]:
    params, nested = sql_header(text).get("Params", ""), 1
    while nested:
        params, nested = re.subn(r"\([^()]*\)", "", params)
    return {param.split()[0] for param in params.split(",") if param.strip()} - {"none"}


def statement(text: str) -> str:
    return re.sub(r"--[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)


def test_no_file_is_longer_than_400_lines() -> None:
    lengths = {name_of(path): len(path.read_text().splitlines()) for path in sources(*CODE)}

    assert {name: lines for name, lines in lengths.items() if lines > MAX_FILE_LINES} == {}


def test_no_function_is_longer_than_50_lines() -> None:
    too_long = [
        f"{name_of(path)}:{node.lineno} {name}"
        for path in sources(*CODE)
        for name, node in definitions(ast.parse(path.read_text()))
        if not isinstance(node, ast.ClassDef) and (node.end_lineno or 0) - node.lineno >= MAX_FUNCTION_LINES
    ]

    assert too_long == []


def test_no_module_has_a_name_that_says_nothing() -> None:
    found = [name_of(path) for path in sources(*CODE) if MEANINGLESS_NAMES & {path.stem, path.parent.name}]

    assert found == []


def test_every_public_module_class_and_function_of_the_package_has_a_docstring() -> None:
    missing = []
    for path in sources("jobqueue"):
        tree = ast.parse(path.read_text())
        is_empty = not tree.body
        if path.parent.name != "migrations" and not is_empty:
            missing += [] if ast.get_docstring(tree) else [name_of(path)]
            missing += [
                f"{name_of(path)}:{node.lineno} {name}"
                for name, node in public_definitions(tree)
                if not ast.get_docstring(node) and not is_overload(node)
            ]

    assert missing == []


def test_jobs_run_in_no_process_pool() -> None:
    refused = re.compile(r"\b(ProcessPoolExecutor|multiprocessing\.(Pool|Process|get_context))\b")

    assert [name_of(path) for path in sources("jobqueue") if refused.search(path.read_text())] == []


def test_no_test_waits_for_time_to_pass() -> None:
    sleeping = [
        f"{name_of(path)}:{node.lineno}"
        for path in sources("tests")
        if path.parent.name != "probe"  # handlers, whose work is to take time
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in ("time.sleep", "sleep", "asyncio.sleep")
        and ast.unparse(node) != "asyncio.sleep(0)"  # gives way to other tasks, and takes no time
    ]

    assert sleeping == []


def test_each_sql_file_has_a_constant_and_each_constant_a_file() -> None:
    constants = {name: value for name, value in vars(sql).items() if name.isupper()}

    assert constants == {name.upper(): text for name, text in sql_files().items()}


def test_each_sql_file_opens_with_the_full_header() -> None:
    incomplete = {
        name: [part for part in ("Summary", *HEADER) if not sql_header(text).get(part)]
        for name, text in sql_files().items()
    }

    assert {name: parts for name, parts in incomplete.items() if parts} == {}


def test_the_parameters_in_the_header_are_those_of_the_statement() -> None:
    wrong = {
        name: {"declared": sorted(declared_params(text) - used), "used": sorted(used - declared_params(text))}
        for name, text in sql_files().items()
        if (used := set(re.findall(r"%\((\w+)\)s", statement(text)))) != declared_params(text)
    }

    assert wrong == {}


def test_sql_doubles_each_percent_sign_that_is_no_parameter() -> None:
    # psycopg reads placeholders in comments too.
    found = [name for name, text in sql_files().items() if re.search(r"%(?!\(\w+\)s)", text.replace("%%", ""))]

    assert found == []


def test_sql_takes_the_time_of_the_statement_not_of_the_transaction() -> None:
    wrong_clock = re.compile(r"\bnow\(\)|\bcurrent_timestamp\b|\btransaction_timestamp\(\)", re.IGNORECASE)

    assert [name for name, text in sql_files().items() if wrong_clock.search(statement(text))] == []


def test_sql_has_statuses_as_literals() -> None:
    # Under a generic plan a parameter alone cannot be matched with the condition of a partial index.
    as_parameter = re.compile(r"\bstatus\s*(=|<>)\s*(ANY\s*\(\s*)?%\(", re.IGNORECASE)
    as_literal = re.compile(r"\bstatus\s*(=\s*\d|IN\s*\(\s*\d)", re.IGNORECASE)
    texts = {name: statement(text) for name, text in sql_files().items()}

    assert [name for name, text in texts.items() if as_parameter.search(text) and not as_literal.search(text)] == []
