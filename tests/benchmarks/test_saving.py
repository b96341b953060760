"""Rows measured anew take the place of the same ones in the file; where each comes from is kept."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import saving
from benchmarks.catalogue import SPEED

ORDER = [row for benchmark in SPEED for row in benchmark.rows]


def results(taken: str, **values: float) -> dict[str, Any]:
    rows = [{"row": name.replace("_", "-"), "value": value} for name, value in values.items()]
    return {
        "suite": "speed",
        "scale": 1.0,
        "repeats": 3,
        "machine": {"taken": taken},
        "took_seconds": dict.fromkeys((row["row"] for row in rows), 60),
        "rows": rows,
    }


def test_a_row_measured_anew_replaces_its_like_and_the_others_stay_in_the_order_of_the_table() -> None:
    merged = saving.merged(results("first", drain_1=1, bulk=2, slots=3), results("second", cpu=5, bulk=4), ORDER)

    found = [(row["row"], row["value"]) for row in merged["rows"]]
    assert found == [("drain-1", 1), ("bulk", 4), ("slots", 3), ("cpu", 5)]
    assert merged["took_seconds"].keys() == {"drain-1", "bulk", "slots", "cpu"}
    assert merged["runs"] == [
        {"machine": {"taken": "second"}, "rows": ["cpu", "bulk"]},
        {"machine": {"taken": "first"}, "rows": ["drain-1", "slots"]},
    ]


def test_a_run_of_which_no_row_is_left_is_forgotten() -> None:
    once = saving.merged(results("first", bulk=1), results("second", slots=2), ORDER)

    twice = saving.merged(once, results("third", bulk=3), ORDER)

    assert [run["machine"]["taken"] for run in twice["runs"]] == ["third", "second"]


@pytest.mark.parametrize("odd", [{"suite": "engine"}, {"scale": 0.1}, {"repeats": 1}])
def test_rows_of_another_table_or_of_other_sizes_are_refused(odd: dict[str, Any]) -> None:
    with pytest.raises(saving.NotAlike, match=f"one table: {next(iter(odd))}"):
        saving.check_alike({**results("first", bulk=1), **odd}, results("second", slots=2))


def test_a_file_of_before_there_were_suites_can_be_merged_into() -> None:
    earlier = results("first", bulk=1)
    del earlier["suite"]

    saving.check_alike(earlier, results("second", slots=2))


def test_what_is_saved_is_whole_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "speed.json"

    saving.save({"rows": [1]}, path)
    saving.save({"rows": [2]}, path)

    assert json.loads(path.read_text()) == {"rows": [2]}
    assert list(tmp_path.iterdir()) == [path]
