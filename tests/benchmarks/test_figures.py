"""What is made of the samples: percentiles, bars, the table, and the page in docs/."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import figures, report
from benchmarks.figures import Figure

RATE = Figure(
    row="drain",
    work="drain 50,000 no-ops",
    value=66.5,
    unit="%",
    bar=40,
    better="higher",
    product="23,235/s (14,648 to 24,481)",
    limit="34,925/s (25,934 to 39,202)",
    samples={"worker, jobs/s": [23235.0, 14648.0, 24481.0]},
    notes=["the worker's whole time: 3.37 s"],
    noise=0.05,
)
TIME = replace(RATE, row="latency-p99", value=15.2, unit="ms", bar=15, better="lower")
MACHINE = {
    "taken": "2026-11-30T08:00+00:00",
    "processor": "a processor",
    "cores": 2,
    "memory_gb": 24,
    "system": "Linux 6",
    "python": "3.11.7",
    "django": "5.2",
    "psycopg": "3.3",
    "jobqueue": "0.1.0",
    "postgresql": "18.4",
    "durability": {"fsync": "on"},
    "changed_settings": {},
}
RESULTS = {"machine": MACHINE, "repeats": 3, "scale": 1.0, "rows": [RATE.to_json(), TIME.to_json()]}


@pytest.mark.parametrize(("share", "expected"), [(0.5, 50), (0.99, 99), (0.991, 100), (1, 100), (0.001, 1)])
def test_a_percentile_is_the_smallest_value_that_the_share_does_not_exceed(share: float, expected: int) -> None:
    assert figures.percentile(range(100, 0, -1), share) == expected


def test_a_percentile_of_one_value_is_that_value() -> None:
    assert figures.percentile([7.0], 0.99) == 7.0


@pytest.mark.parametrize(("value", "holds"), [(39.9, False), (40, True), (41, True)])
def test_a_figure_that_must_be_high_holds_from_its_bar_on(value: float, holds: bool) -> None:
    assert replace(RATE, value=value).holds is holds


@pytest.mark.parametrize(("value", "holds"), [(14.9, True), (15, True), (15.1, False)])
def test_a_figure_that_must_be_low_holds_up_to_its_bar(value: float, holds: bool) -> None:
    assert replace(TIME, value=value).holds is holds


def test_a_figure_that_is_only_told_always_holds() -> None:
    assert replace(RATE, bar=None, value=0).holds
    assert figures.bar(replace(RATE, bar=None)) == "told"


def test_a_row_that_was_not_measured_does_not_hold_and_survives_its_way_through_json() -> None:
    missing = figures.not_measured("drain", "broke off")

    again = figures.from_json(json.loads(json.dumps(missing.to_json(), allow_nan=False)))

    assert not again.holds
    assert "not measured" in figures.table([again])


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (66.5, "%", "66 %"),
        (0.32, "%", "0.32 %"),
        (1.5, "x", "1.50 x"),
        (5.0, "of them", "5"),
        (2300.0, "/s", "2,300/s"),
    ],
)
def test_a_value_is_shown_with_its_unit(value: float, unit: Any, shown: str) -> None:
    assert figures.number(value, unit) == shown


def test_the_rows_that_fall_short_are_named() -> None:
    assert figures.short([RATE, TIME]) == ["latency-p99"]


def test_a_figure_survives_its_way_through_json() -> None:
    assert figures.from_json(json.loads(json.dumps(RATE.to_json()))) == RATE


def test_the_table_says_which_row_does_not_hold() -> None:
    lines = figures.table([RATE, TIME]).splitlines()

    assert [line.split()[0] for line in lines[:3]] == ["row", "drain", "latency-p99"]
    assert " yes " in lines[1]
    assert " NO " in lines[2]


def test_the_page_has_figures_machine_notes_and_the_command_to_repeat_them(tmp_path: Path) -> None:
    results, output = tmp_path / "results.json", tmp_path / "docs" / "benchmarks.md"
    results.write_text(json.dumps(RESULTS))

    report.write([results], output)

    page = output.read_text()
    assert "| drain | drain 50,000 no-ops | ≥ 40 % | **66 %** |" in page
    assert "**15.20 ms: short**" in page
    assert "2 cores of a processor, 24 GB, Linux 6; PostgreSQL 18.4 at its defaults (fsync on)" in page
    assert "- drain: the worker's whole time: 3.37 s" in page
    assert "make bench" in page


def test_a_page_of_scaled_sizes_says_that_it_measures_nothing() -> None:
    page = report.page([{**RESULTS, "scale": 0.01}], ["results.json"])

    assert "Sizes scaled by 0.01: no measure of anything." in page
