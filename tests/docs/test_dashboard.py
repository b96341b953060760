"""The dashboard, the alert rules and the page of metrics name nothing that the code does not show."""

import json
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from jobqueue.ops import day, metrics, reading, snapshot
from jobqueue.worker import monitor
from tests.docs.pages import ROOT, rows
from tests.ops.test_metrics import populate

DOCS = ROOT / "docs"
# Nothing drains here, no worker is connected, autovacuum has not come by; the table of the page has them all the same.
SOMETIMES = {
    "jobqueue_queue_drain_seconds",
    "jobqueue_database_connections",
    "jobqueue_database_last_autovacuum_timestamp_seconds",
}
NAME = re.compile(r"\bjobqueue_[a-z0-9_]+\b")

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> dict[str, set[str]]:
    """Return the samples of a page on which every family has something, with the labels of each."""
    monkeypatch.setattr(reading, "EACH", timedelta(seconds=5))
    monkeypatch.setattr(reading, "TOTAL", timedelta(seconds=30))
    populate()
    snapshot.forget()
    day.forget()
    text = metrics.exposition()[0].decode()
    return {
        sample.name: set(sample.labels) for family in text_string_to_metric_families(text) for sample in family.samples
    }


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DOCS / "grafana-dashboard.json").read_text(encoding="utf-8"))
    return found


def queries() -> Iterator[tuple[str, str]]:
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]


def rule_expressions() -> list[str]:
    text = (DOCS / "prometheus-alerts.yml").read_text(encoding="utf-8")
    return [found.strip() for found in re.findall(r"expr: (?:\|\n)?(.*?)\n +(?:for|labels):", text, re.DOTALL)]


def metrics_of(expression: str) -> set[str]:
    """Return the metrics that an expression reads: no label's values, and no function is called jobqueue_…"""
    return set(NAME.findall(re.sub(r'"[^"]*"', "", expression)))


def labels_of(expression: str) -> set[str]:
    grouped = re.findall(r"by \(([^)]*)\)", expression)
    return {label.strip() for group in grouped for label in group.split(",")} - {"le", "job", "instance"}


def test_every_query_of_the_dashboard_reads_a_metric_that_exists(shown: dict[str, set[str]]) -> None:
    found = [(title, name) for title, expression in queries() for name in metrics_of(expression)]

    assert len(found) > 30
    assert [pair for pair in found if pair[1] not in shown.keys() | SOMETIMES] == []


def test_every_label_that_a_query_groups_by_exists(shown: dict[str, set[str]]) -> None:
    for title, expression in [*queries(), *(("rule", each) for each in rule_expressions())]:
        known = set().union(*(shown.get(name, labels_of(expression)) for name in metrics_of(expression)))
        assert labels_of(expression) <= known, title


def test_every_alert_rule_reads_metrics_that_exist(shown: dict[str, set[str]]) -> None:
    expressions = rule_expressions()

    text = (DOCS / "prometheus-alerts.yml").read_text(encoding="utf-8")
    assert len(expressions) == text.count("- alert:") > 10
    assert {name for each in expressions for name in metrics_of(each)} - shown.keys() == set()


def test_the_dashboard_is_one_that_grafana_imports() -> None:
    found = dashboard()
    panels = found["panels"]

    assert found["title"] == found["uid"] == "jobqueue"
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert [each["name"] for each in found["templating"]["list"]] == ["datasource", "job"]
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells
        if panel["type"] != "row":
            assert panel["targets"]
            assert panel["datasource"]["uid"] == "${datasource}"


def test_the_page_of_metrics_has_a_row_for_each_and_no_others(shown: dict[str, set[str]]) -> None:
    text = metrics.exposition()[0].decode()
    families = {
        family.name + ("_total" if family.type == "counter" else ""): family
        for family in text_string_to_metric_families(text)
        if not family.name.startswith("jobqueue_app_")
    }
    documented = {row[0].strip("`"): row for row in rows(DOCS / "metrics.md", "metric")}

    assert sorted(documented.keys() - set(own_metrics())) == sorted(families)
    for name, family in families.items():
        assert documented[name][1] == family.type, name
        if labels := {label for sample in family.samples for label in sample.labels} - {"le"}:
            assert {label.strip(" `") for label in documented[name][2].split(",")} == labels, name


def own_metrics() -> list[str]:
    """Return the metrics that only a worker's own port has."""
    source = (ROOT / "jobqueue/worker/monitor.py").read_text(encoding="utf-8")
    assert monitor.__file__.endswith("monitor.py")
    names = re.findall(r'^            \("(\w+)", "', source, re.MULTILINE)
    return [*(f"jobqueue_process_{name}" for name in names), "jobqueue_process_attempts_total"]
