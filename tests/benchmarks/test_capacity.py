"""What a million jobs cost: the script counts on a server of its own, and says it for people and as JSON."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.measures.capacity import MILLION, payload, table
from jobqueue.payloads import encode_payload

ROOT = Path(__file__).resolve().parents[2]
PHASE = {"wal_bytes": 2_700_000_000, "full_pages": 7, "transactions": 5_000_000, "rows_written": 4, "hot_updates": 0}


def test_a_payload_has_the_size_that_the_page_says() -> None:
    sizes = [encode_payload(payload(number), max_bytes=1000).size for number in (0, 17_499)]

    assert all(320 <= size <= 340 for size in sizes)
    assert payload(1) != payload(2)


def test_the_table_has_a_line_for_each_phase_and_for_each_other_figure() -> None:
    lines = table({"jobs": 5, "phases": [{"phase": "paced", **PHASE}]}).splitlines()

    assert lines[1].split() == ["paced", "2,700", "7", "5,000,000", "4", "0"]
    assert lines[2] == "jobs: 5"


@pytest.mark.bench
def test_a_small_count_has_every_phase_and_three_rows_written_for_a_job() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.measures.capacity", "--jobs", "60", "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )

    found = json.loads(done.stdout[done.stdout.index("{") :])
    load = next(phase for phase in found["phases"] if phase["phase"].startswith("a load"))
    assert len(found["phases"]) == 6
    assert load["rows_written"] >= 3 * MILLION * 0.9, "an insert and two updates each"
    assert found["rows kept"]["jobqueue_job"] == 300
