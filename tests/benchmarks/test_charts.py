"""The charts of peers: the best on top, the figures written beside, nothing drawn that was not measured."""

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

from benchmarks import charts
from benchmarks.charts import Bar, Title

SVG = "{http://www.w3.org/2000/svg}"
RATE, TIME = Title("Drained", "/s"), Title("Waited", " ms", "lower", 2)


def row(peer: str, values: dict[str, list[float]], **given: Any) -> dict[str, Any]:
    return {"work": "drain", "peer": peer, "tuned": False, "workers": 1, "values": values, **given}


def texts(svg: str) -> list[str]:
    return ["".join(element.itertext()) for element in ET.fromstring(svg).iter(f"{SVG}text")]


def labels(svg: str) -> list[str]:
    return texts(svg)[2::2]


def test_the_highest_rate_is_on_top() -> None:
    svg = charts.bar_chart(RATE, [Bar("slow", [10.0]), Bar("quick", [3000.0])])

    assert labels(svg) == ["quick", "slow"]


def test_the_shortest_time_is_on_top() -> None:
    svg = charts.bar_chart(TIME, [Bar("slow", [10.0]), Bar("quick", [2.0])])

    assert labels(svg) == ["quick", "slow"]


def test_median_least_and_most_are_written_beside_a_bar() -> None:
    svg = charts.bar_chart(RATE, [Bar("one", [1000.0, 3000.0, 2000.0])])

    assert texts(svg)[-1] == "2,000/s (1,000 to 3,000)"


def test_bars_are_as_long_as_their_medians() -> None:
    svg = charts.bar_chart(RATE, [Bar("whole", [100.0]), Bar("half", [50.0])])

    widths = [float(element.get("width", "")) for element in ET.fromstring(svg).iter(f"{SVG}rect")][1:]
    assert widths[1] == widths[0] / 2


def test_names_are_escaped() -> None:
    svg = charts.bar_chart(Title("a < b", "/s"), [Bar("<script>", [1.0])])

    assert labels(svg) == ["<script>"]
    assert "<script>" not in svg


def test_a_peer_without_figures_is_in_no_chart() -> None:
    drawn = charts.of_rows([row("jobqueue", {"jobs/s": [10.0]}), row("rq", {}, error="not installed")])

    assert labels(drawn["drain"][1]) == ["jobqueue"]


def test_a_work_that_nobody_did_has_no_chart() -> None:
    assert charts.of_rows([row("rq", {}, error="not installed")]) == {}


def test_each_number_of_workers_has_a_chart_that_says_so() -> None:
    rows = [row("jobqueue", {"jobs/s": [10.0]}), row("jobqueue", {"jobs/s": [20.0]}, workers=2)]

    drawn = charts.of_rows(rows)

    assert list(drawn) == ["drain-1", "drain-2"]
    assert drawn["drain-2"][0] == "No-ops drained in a second, 2 workers"


def test_charts_are_written_as_files_of_their_names(tmp_path: Path) -> None:
    waits = {"p50 ms": [1.0], "p99 ms": [2.0]}

    paths = charts.write([row("jobqueue", waits, work="latency")], tmp_path / "images")

    assert [path.name for path in paths] == ["latency-p50.svg", "latency-p99.svg"]
    assert all(path.read_text().startswith("<svg") for path in paths)
