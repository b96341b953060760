"""Each command runs to its end on sizes at which its figures mean nothing."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest

from benchmarks import cli
from benchmarks.catalogue import Benchmark
from benchmarks.figures import Figure
from benchmarks.plan import Plan
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


@pytest.mark.django_db
def test_a_row_is_merged_into_a_file_and_one_of_other_sizes_is_not(tmp_path: Path) -> None:
    saved = tmp_path / "results.json"
    options = ["check", "engine", "--save", str(saved), "--merge"]

    run(*options, "--only", "memory-child", *TINY)
    run(*options, "--only", "latency-p99", *TINY)
    odd = run(*options, "--only", "latency-p99", *TINY, "--repeats", "2")

    results = json.loads(saved.read_text())
    assert [row["row"] for row in results["rows"]] == ["latency-p99", "memory-child"]
    assert [told["rows"] for told in results["runs"]] == [["latency-p99"], ["memory-child"]]
    assert odd.returncode == 2
    assert "repeats 1 and 2" in odd.stderr


def test_a_benchmark_that_breaks_off_leaves_its_rows_unmeasured_and_ends_nothing() -> None:
    def late(plan: Plan) -> list[Figure]:
        raise subprocess.TimeoutExpired("inprocess", 60)

    (figure,) = cli._measure(Benchmark("speed", ("isolation",), late), Plan(rows=frozenset({"isolation"})))

    assert (figure.row, figure.holds) == ("isolation", False)
    assert figure.notes[0].startswith("broke off: TimeoutExpired")


def test_merge_needs_a_file() -> None:
    assert run("check", "engine", "--merge", *TINY).returncode == 2


def test_a_row_of_another_table_is_refused() -> None:
    done = run("check", "engine", "--only", "slots", *TINY)

    assert done.returncode == 2
    assert "no such row here: slots" in done.stderr


def test_check_speed_measures_the_row_asked_for_and_says_how_long_it_took() -> None:
    done = run("check", "speed", "--only", "isolation", "--json", *TINY)

    results = json.loads(done.stdout)
    assert [row["row"] for row in results["rows"]] == ["isolation"]
    assert {"children, jobs/s", "one process, jobs/s"} <= set(results["rows"][0]["samples"])
    assert list(results["took_seconds"]) == ["isolation"]


@pytest.mark.bench
@pytest.mark.parametrize(
    "rows",
    [
        ("enqueue-asleep", "enqueue-busy"),
        ("slots", "cpu"),
        ("deferred", "retained", "backlog"),
        ("horizon", "horizon-p95"),
    ],
)
def test_the_rows_of_speed_that_need_no_peer_come_to_their_end(rows: tuple[str, ...]) -> None:
    done = run("check", "speed", "--json", *(f"--only={row}" for row in rows), *TINY)

    found = {row["row"]: row for row in json.loads(done.stdout)["rows"]}
    assert set(found) == set(rows)
    assert all(row["value"] != "NaN" for row in found.values()), done.stderr


@pytest.mark.bench
def test_what_stands_in_the_store_is_measured_by_the_protocol_of_peers() -> None:
    works = "backlog,deferred,retained,horizon"
    options = ["--repeats", "1", "--retakes", "0", "--patience", "0", "--database", DATABASE]

    done = run("--peers", "jobqueue", "--work", works, "--seconds", "0.3", "--jobs", "600", "--json", *options)

    found = {row["work"]: row for row in results_of(done)["rows"]}
    assert set(found) == set(works.split(","))
    assert all(row["values"] for row in found.values()), done.stderr


def databases_left() -> list[str]:
    with psycopg.connect(database_conninfo()) as connection:
        rows = connection.execute("SELECT datname FROM pg_database WHERE starts_with(datname, %s)", [DATABASE])
        return [row[0] for row in rows]
