"""The page in docs/: what falls short, who is ahead, every peer with its reason, and how to repeat it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks import report
from tests.benchmarks.test_figures import MACHINE, RATE, RESULTS

RATIO = replace(
    RATE,
    row="drain-1",
    value=1.5,
    unit="x",
    bar=1.3,
    limit="pgqueuer tuned 16,000/s",
    notes=["jobqueue: 24,000/s", "pgqueuer tuned: 16,000/s"],
)
BEHIND = replace(RATIO, row="enqueue-one", value=0.8, bar=1.0)
SPEED = {**RESULTS, "suite": "speed", "took_seconds": {"drain-1": 600}, "rows": [RATIO.to_json(), BEHIND.to_json()]}
ABOUT = {"versions": {"huey": "3.5.4"}, "python": "3.11.7", "settings": "huey_consumer: 1 thread"}


def peer_row(peer: str, values: dict[str, list[float]], **given: Any) -> dict[str, Any]:
    row = {"work": "drain", "peer": peer, "tuned": False, "workers": 1, "about": ABOUT, "values": values}
    return {**row, "jobs": [1000], "notes": [], "noise": 0.01, "error": "", **given}


def peers_of(*rows: dict[str, Any]) -> dict[str, Any]:
    return {"machine": MACHINE, "repeats": 3, "workers": 1, "rows": list(rows)}


def test_the_page_of_speed_names_the_rows_that_fall_short_and_where_a_peer_is_ahead() -> None:
    page = report.page([SPEED], ["speed.json"])

    text = " ".join(page.split())
    assert "**Short of their bar: enqueue-one.** A peer is ahead in: enqueue-one (pgqueuer tuned 16,000/s, ours" in text
    assert "**Not measured: drain-django, drain-2, bulk," in text
    assert "| drain-1 | drain 50,000 no-ops | ≥ 1.3 x | **1.50 x** |" in page
    assert "`check speed` took 10 minutes" in page


def test_a_page_on_which_all_rows_hold_says_so() -> None:
    page = report.page([{**SPEED, "rows": [RATIO.to_json()]}], ["speed.json"])

    assert "All rows below hold. No peer is ahead in any of them." in page


def test_a_peer_whose_idle_worker_takes_less_is_told() -> None:
    samples = {"jobqueue": [0.2, 0.3, 0.4], "pgqueuer": [0.1, 0.1, 0.2], "oban": [9.0, 9.0, 9.0], "awa": [0.299] * 3}

    told = report.verdict([replace(RATE, row="idle-cpu", value=0.3, bar=0.5, better="lower", samples=samples)])

    assert told == "All rows below hold. A peer is ahead in: idle-cpu (pgqueuer)."


def test_rows_of_several_runs_are_told_with_the_start_of_each() -> None:
    later = {**MACHINE, "taken": "2026-12-01T09:30+00:00", "postgresql": "18.5"}
    runs = [{"machine": later, "rows": ["enqueue-one"]}, {"machine": MACHINE, "rows": ["drain-1"]}]

    page = report.page([{**SPEED, "machine": later, "runs": runs}], ["speed.json"])

    text = " ".join(page.split())
    assert "from 2 runs, which started (UTC): enqueue-one of 2026-12-01 09:30; drain-1 of 2026-11-30 08:00." in text
    assert "PostgreSQL 18.5" in page
    assert "PostgreSQL 18.4" in page


def test_peers_that_are_ahead_are_told_with_both_figures_and_those_on_redis_as_such() -> None:
    page = report.page(
        [peers_of(peer_row("jobqueue", {"jobs/s": [2000.0]}), peer_row("huey", {"jobs/s": [5000.0]}, tuned=True))],
        ["peers.json"],
    )

    assert "- drain, jobs/s: ours 2,000; huey, tuned 5,000 (Redis)" in page


def test_of_times_the_shorter_is_ahead() -> None:
    rows = [
        peer_row("jobqueue", {"p50 ms": [2.0]}, work="latency"),
        peer_row("oban", {"p50 ms": [3.0]}, work="latency"),
        peer_row("chancy", {"p50 ms": [1.0]}, work="latency"),
    ]

    assert report.ahead(rows) == ["- latency, p50 ms: ours 2.00; chancy 1.00"]


def test_where_nobody_is_ahead_the_page_says_so() -> None:
    rows = peers_of(peer_row("jobqueue", {"jobs/s": [2000.0]}), peer_row("huey", {"jobs/s": [1000.0]}))

    assert "No peer is ahead in any of these works." in report.page([rows], ["peers.json"])


def test_without_a_figure_of_ours_the_page_does_not_say_that_nobody_is_ahead() -> None:
    rows = peers_of(peer_row("jobqueue", {}, error="lost/doubled"), peer_row("huey", {"jobs/s": [1000.0]}))

    page = report.page([rows], ["peers.json"])

    assert "- drain, jobs/s: there is no figure of ours to compare with" in page
    assert "No peer is ahead" not in page


def test_the_best_of_a_work_is_on_top_of_its_table() -> None:
    rows = peers_of(*(peer_row(peer, {"jobs/s": [rate]}) for peer, rate in (("awa", 1.0), ("jobqueue", 3.0))))

    page = report.page([rows], ["peers.json"])

    assert page.index("| jobqueue | 1 |") < page.index("| awa | 1 |")


def test_fewer_samples_of_one_file_are_told() -> None:
    once = {**peers_of(peer_row("jobqueue", {"jobs/s": [9.0]})), "repeats": 1}

    assert "Medians of 1 or 3 samples" in report.page([SPEED, once], ["speed.json", "peers.json"])


def test_a_peer_that_failed_has_a_row_with_its_reason() -> None:
    failed = peer_row("oban", {}, error="oban cannot be installed:\npip | said no", jobs=[])

    page = report.page([peers_of(peer_row("jobqueue", {"jobs/s": [9.0]}), failed)], ["peers.json"])

    assert "| oban | 1 |  |  |  | oban cannot be installed: pip / said no |" in page


def test_versions_and_settings_of_peers_are_on_the_page() -> None:
    page = report.page([peers_of(peer_row("huey", {"jobs/s": [9.0]}))], ["peers.json"])

    assert "| huey | huey_consumer: 1 thread | huey 3.5.4; Python 3.11.7 |" in page


def test_charts_are_written_beside_the_page_which_shows_them(tmp_path: Path) -> None:
    source, output = tmp_path / "peers.json", tmp_path / "docs" / "benchmarks.md"
    source.write_text(json.dumps(peers_of(peer_row("jobqueue", {"jobs/s": [9.0]}))))

    report.write([source], output)

    assert "![No-ops drained in a second, one worker](images/benchmarks/drain.svg)" in output.read_text()
    assert (output.parent / "images/benchmarks/drain.svg").is_file()


def test_each_machine_is_named_once() -> None:
    page = report.page([RESULTS, SPEED], ["results.json", "speed.json"])

    assert page.count("2 cores of a processor") == 1
