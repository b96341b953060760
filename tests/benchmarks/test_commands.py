"""Each command runs to its end on sizes at which its figures mean nothing."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.connections import database_conninfo

ROOT = Path(__file__).resolve().parent.parent.parent
DATABASE = f"jobqueue_benchmarks_test_{os.getpid()}"
TINY = ["--scale", "0.001", "--repeats", "1", "--retakes", "0", "--patience", "0", "--database", DATABASE]
ROWS = {
    "drain": {"drain"},
    "enqueue": {"enqueue-one", "enqueue-many", "enqueue-busy"},
    "latency": {"latency-p50", "latency-p99"},
    "backlog": {"backlog-finished", "backlog-due"},
    "horizon": {"horizon"},
    "snapshot": {"snapshot"},
    "statistics": {"statistics"},
}


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )


def results_of(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    results: dict[str, Any] = json.loads(done.stdout)
    return results


@pytest.mark.parametrize("command", ROWS)
def test_a_command_gives_a_figure_for_each_of_its_rows(command: str) -> None:
    results = results_of(run(command, "--json", *TINY))

    assert {row["row"] for row in results["rows"]} == ROWS[command]
    assert all(row["value"] > 0 for row in results["rows"])


@pytest.mark.django_db
def test_check_measures_only_the_row_asked_for_saves_it_and_leaves_no_database(tmp_path: Path) -> None:
    saved = tmp_path / "results.json"

    results = results_of(run("check", "engine", "--only", "memory-child", "--json", "--save", str(saved), *TINY))

    assert [(row["row"], row["holds"]) for row in results["rows"]] == [("memory-child", True)]
    assert json.loads(saved.read_text()) == results
    assert databases_left() == []


def databases_left() -> list[str]:
    with psycopg.connect(database_conninfo()) as connection:
        rows = connection.execute("SELECT datname FROM pg_database WHERE starts_with(datname, %s)", [DATABASE])
        return [row[0] for row in rows]
