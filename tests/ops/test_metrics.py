"""Metrics: what real runs wrote, as real parsers read it; counters that never go down, labels that have an end."""

import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection
from django.db.models import Sum
from django.utils import timezone
from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from jobqueue import sql
from jobqueue.exceptions import ConfigurationError
from jobqueue.maintenance.fold import STATEMENTS
from jobqueue.managers.moving import fold
from jobqueue.models import Budget, Counter, Incident, Job, Stat
from jobqueue.models.expressions import StatementTimestamp
from jobqueue.ops import day, metric_families, metrics, snapshot
from jobqueue.ops.metric_names import Named
from jobqueue.outcomes import Outcome
from jobqueue.states import Status
from jobqueue.testing import run_once
from tests.connections import SecondConnection
from tests.factories import CostFactory, JobFactory, StatFactory, WorkerFactory, ago, ahead

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("patient")]

OPENMETRICS = "application/openmetrics-text; version=1.0.0"
Labels = tuple[tuple[str, str], ...]
Page = dict[tuple[str, Labels], float]


@pytest.fixture(autouse=True)
def midnight(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Share nothing between tests: neither figures nor which names have a series of their own."""
    for name in ("_kinds", "_queues", "_types"):
        monkeypatch.setattr(metric_families, name, Named())
    monkeypatch.setattr(day, "EACH", timedelta(seconds=5))
    monkeypatch.setattr(day, "TOTAL", timedelta(seconds=20))
    forget()
    yield
    forget()


def forget() -> None:
    snapshot.forget()
    day.forget()


def families(accept: str = "") -> list[Metric]:
    forget()
    body, content_type = metrics.exposition(accept)
    parse = parse_openmetrics if content_type.startswith("application/openmetrics") else parse_text
    return list(parse(body.decode()))


def read(accept: str = "") -> Page:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families(accept)
        for sample in family.samples
    }


def of(page: Page, name: str, **labels: str) -> float:
    return page[name, tuple(sorted(labels.items()))]


def named(page: Page, name: str) -> dict[Labels, float]:
    return {labels: value for (each, labels), value in page.items() if each == name}


def populate() -> None:
    """Have something of each kind: real runs, rows of workers, pauses, incidents, counters."""
    for name in ("ok", "boom"):
        Job.objects.enqueue(f"probe.{name}", max_attempts=1)
    run_once(10)
    Job.objects.enqueue("probe.ok", queue="mail")
    CostFactory.create(amount=Decimal("1.25"))
    gauges = [{"name": "ports", "labels": {"of": "a"}, "value": 3.5, "at_seconds_ago": 1.0}]
    WorkerFactory.create(gauges=gauges, claimed_at=ago(1), memory_bytes=1_000_000, clock_skew_seconds=0.01)
    Counter.objects.create(name="sessions", labels={"end": "block"}, amount=2.0)
    Incident.objects.create(rule="dead_1h", state=Incident.State.FIRING)
    now = timezone.now()
    Budget.objects.create(name="all", window_start=now, window_end=now, unit="USD", amount=Decimal(2), spent=Decimal(1))


@pytest.mark.parametrize("accept", ["", "text/plain", OPENMETRICS])
def test_the_page_is_what_prometheus_reads(accept: str) -> None:
    """As `promtool check metrics` has it: units, suffixes, help, no series twice, whole histograms."""
    populate()

    found = families(accept)

    assert len({family.name for family in found}) == len(found)
    series = [(sample.name, tuple(sorted(sample.labels.items()))) for family in found for sample in family.samples]
    assert len(series) == len(set(series)) > 80
    for family in found:
        assert re.fullmatch(r"jobqueue_[a-z0-9_]+", family.name)
        assert family.documentation
        assert not re.search(r"_(ms|milliseconds|minutes|hours|kilobytes|percent|pct)\b", family.name)
        assert (family.type == "counter") == any(sample.name.endswith("_total") for sample in family.samples) or (
            not family.samples
        )
        if family.type == "histogram":
            check_histogram(family)


def check_histogram(family: Metric) -> None:
    by_labels: dict[Labels, list[tuple[float, float]]] = {}
    counts: dict[Labels, float] = {}
    for sample in family.samples:
        labels = tuple(sorted((name, value) for name, value in sample.labels.items() if name != "le"))
        if sample.name.endswith("_bucket"):
            by_labels.setdefault(labels, []).append((float(sample.labels["le"]), sample.value))
        elif sample.name.endswith("_count"):
            counts[labels] = sample.value
    assert by_labels
    for labels, buckets in by_labels.items():
        assert buckets == sorted(buckets)
        assert [value for _, value in buckets] == sorted(value for _, value in buckets)
        assert buckets[-1] == (float("inf"), counts[labels])


def test_real_runs_are_counted(patient: None) -> None:
    for _ in range(3):
        Job.objects.enqueue("probe.ok")
    Job.objects.enqueue("probe.boom", queue="mail", max_attempts=1)
    run_once(10)

    page = read()

    assert of(page, "jobqueue_attempts_total", queue="default", job_type="probe.ok", outcome="done") == 3
    assert of(page, "jobqueue_attempts_total", queue="default", job_type="probe.ok", outcome="failed") == 0
    assert of(page, "jobqueue_attempts_total", queue="mail", job_type="probe.boom", outcome="failed") == 1
    assert of(page, "jobqueue_dead_letters_total", queue="mail", job_type="probe.boom") == 1
    assert of(page, "jobqueue_wait_seconds_count", queue="default") == 3
    assert of(page, "jobqueue_run_seconds_count", job_type="probe.ok") == 3
    stored = Stat.objects.filter(job_type="probe.ok").aggregate(run=Sum("run_seconds"), wait=Sum("wait_seconds"))
    assert of(page, "jobqueue_run_seconds_sum", job_type="probe.ok") == pytest.approx(stored["run"])
    assert of(page, "jobqueue_wait_seconds_sum", queue="default") == pytest.approx(stored["wait"])
    assert of(page, "jobqueue_jobs", status="dead") == 1
    assert of(page, "jobqueue_up") == 1


def test_times_are_in_the_buckets_that_hold_them() -> None:
    StatFactory.create(jobs=4, run_buckets=[0, 1, 20, 63], wait_buckets=[2, 2, 2, 2], at=ahead(0))

    page = read()

    def at_most(seconds: str) -> float:
        return of(page, "jobqueue_run_seconds_bucket", job_type="probe.ok", le=seconds)

    # Bucket 1 is from 1 ms to 1.41 ms, bucket 20 from 0.724 s to 1.024 s, bucket 63 has no end.
    assert [at_most(edge) for edge in ("0.001", "0.002", "0.512", "1.024", "67108.864", "+Inf")] == [1, 2, 2, 3, 3, 4]
    assert of(page, "jobqueue_wait_seconds_bucket", queue="default", le="0.002") == 4


def fold_all(to_span: int = 900, from_span: int = 0) -> None:
    for statement in STATEMENTS.values():
        fold(
            Job.objects.run_sql,
            statement=statement,
            from_span=from_span,
            to_span=to_span,
            age=timedelta(seconds=-60),
            limit=10_000,
        )


def counters(page: Page) -> Page:
    whole = ("_total", "_count", "_sum", "_bucket")
    return {key: value for key, value in page.items() if key[0].endswith(whole)}


def test_counters_stay_as_they_are_when_rows_are_folded_and_jobs_are_pruned() -> None:
    """A counter that goes down is taken for a reset, and all of it counted once more."""
    populate()
    before = counters(read())
    assert len(before) > 60

    for from_span, to_span in ((0, 60), (60, 900)):
        fold_all(to_span, from_span)
        assert counters(read()) == pytest.approx(before)
    Job.objects.all().delete()

    assert counters(read()) == pytest.approx(before)


def test_counters_count_from_midnight_utc() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT date_trunc('day', statement_timestamp() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC'")
        (midnight,) = cursor.fetchone()
    for seconds, jobs in ((-900, 100), (-1, 10), (0, 1)):
        at = midnight + timedelta(seconds=seconds)
        StatFactory.create(at=at, jobs=jobs)
        CostFactory.create(at=at, amount=Decimal(jobs))
        Counter.objects.create(at=at + timedelta(milliseconds=1), name="sessions", amount=jobs)

    for _ in range(2):
        page = read()
        assert of(page, "jobqueue_attempts_total", queue="default", job_type="probe.ok", outcome="done") == 1
        assert of(page, "jobqueue_cost_total", unit="USD") == 1
        assert of(page, "jobqueue_app_sessions_total") == 1
        assert of(page, "jobqueue_counted_since_timestamp_seconds") == midnight.timestamp()
        fold_all()


def test_labels_have_an_end_and_sums_stay_whole() -> None:
    """Fifty by name, the rest as "other"; who was shown stays shown, and who was not stays among the others."""
    for number in range(60):
        StatFactory.create(job_type=f"type.{number:02}", queue=f"queue.{number:02}", jobs=100 - number)

    first = read()

    done = {labels: value for labels, value in named(first, "jobqueue_attempts_total").items() if value}
    assert len(done) == 51
    others = ("job_type", "other"), ("outcome", "done"), ("queue", "other")
    assert done[others] == sum(100 - number for number in range(50, 60))
    assert sum(done.values()) == sum(100 - number for number in range(60))
    assert len(named(first, "jobqueue_run_seconds_count")) == len(named(first, "jobqueue_wait_seconds_count")) == 51

    StatFactory.create(job_type="type.55", queue="queue.55", jobs=1_000)
    StatFactory.create(job_type="type.new", queue="queue.new", jobs=2_000)
    second = read()

    assert named(second, "jobqueue_attempts_total").keys() == named(first, "jobqueue_attempts_total").keys()
    assert all(value >= first[key] for key, value in second.items() if key[0] == "jobqueue_attempts_total")
    assert second["jobqueue_attempts_total", others] == done[others] + 3_000


def test_many_queues_share_one_depth() -> None:
    for number in range(55):
        JobFactory.create(queue=f"queue.{number:02}", run_after=ago(10 + number))
    JobFactory.create(queue="other")

    depths = named(read(), "jobqueue_queue_depth")

    assert len(depths) == 50
    assert sum(depths.values()) == 56
    assert depths[("queue", "other"),] == 7, "one queue has that name"


def test_depths_that_are_unknown_are_not_told_as_none(second_connection: SecondConnection, patient: None) -> None:
    for number in range(55):
        StatFactory.create(queue=f"queue.{number:02}")
    second_connection.execute("LOCK TABLE jobqueue_job IN ACCESS EXCLUSIVE MODE")

    page = read()

    assert named(page, "jobqueue_queue_depth") == named(page, "jobqueue_oldest_pending_seconds") == {}
    assert len(named(page, "jobqueue_queue_done_per_second")) == 50


def test_a_pause_that_is_unknown_is_not_told_as_none(second_connection: SecondConnection, patient: None) -> None:
    JobFactory.create(queue="mail", created_at=ago(3_600))
    StatFactory.create(queue="mail", jobs=900)
    assert (
        named(read(), "jobqueue_queue_paused").keys() == named(read(), "jobqueue_queue_drain_seconds").keys() != set()
    )
    snapshot.forget()
    second_connection.execute("LOCK TABLE jobqueue_queue IN ACCESS EXCLUSIVE MODE")

    page = read()

    assert of(page, "jobqueue_queue_depth", queue="mail") == 1
    assert named(page, "jobqueue_queue_paused") == named(page, "jobqueue_queue_drain_seconds") == {}


def test_gauges_and_counters_of_handlers_have_names_of_their_own() -> None:
    def gauge(name: str, value: float, **labels: str) -> dict[str, Any]:
        return {"name": name, "labels": labels, "value": value, "at_seconds_ago": 0.5}

    told = [gauge("ports", 27, worker="x", __name__="y"), gauge("seen_total", 1), gauge("sessions", 4), {"name": 3}]
    worker = WorkerFactory.create(gauges=told)
    WorkerFactory.create(gauges=[gauge("ports", 1)], heartbeat_at=ago(3600))
    for name, amount in (("sessions", 2), ("sessions", 3), ("hits_total", 5)):
        Counter.objects.create(name=name, labels={"end": "block"}, amount=amount)

    page = read(OPENMETRICS)

    mine = worker.worker_id
    assert named(page, "jobqueue_app_ports") == {
        (("exported___name__", "y"), ("exported_worker", "x"), ("worker", mine)): 27
    }
    assert of(page, "jobqueue_app_seen_total_value", worker=mine) == 1
    assert of(page, "jobqueue_app_sessions", worker=mine) == 4
    assert of(page, "jobqueue_app_sessions_counted_total", end="block") == 5
    assert of(page, "jobqueue_app_hits_total", end="block") == 5


def test_a_thousand_series_of_handlers_are_enough() -> None:
    for number in range(6):
        told = [
            {"name": "ports", "labels": {"of": str(each)}, "value": 1, "at_seconds_ago": 0.5} for each in range(200)
        ]
        WorkerFactory.create(worker_id=f"worker-{number}", gauges=told)

    page = read()

    assert len(named(page, "jobqueue_app_ports")) == 1_000
    assert of(page, "jobqueue_gauge_series_dropped") == 200


def test_costs_that_may_be_refunded_are_no_counter(settings: Any) -> None:
    settings.JOBQUEUE = {**settings.JOBQUEUE, "COST_REFUND_MAX": "1"}
    CostFactory.create(amount=Decimal("-0.5"))

    assert named(read(), "jobqueue_cost_total") == {}
    assert of(read(), "jobqueue_cost_last_hour", unit="USD") == -0.5


def test_what_cannot_be_read_has_no_sample(
    second_connection: SecondConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C143: a lock costs the figures of its table and no others."""
    populate()
    second_connection.execute("LOCK TABLE jobqueue_stat IN ACCESS EXCLUSIVE MODE")
    monkeypatch.setattr(day, "EACH", timedelta(milliseconds=100))

    page = read()

    assert named(page, "jobqueue_attempts_total") == {}
    assert of(page, "jobqueue_unknown_figures") > 0
    assert of(page, "jobqueue_cost_total", unit="USD") == 1.25
    assert of(page, "jobqueue_jobs", status="dead") == 1


def test_workers_by_state_and_one_by_one() -> None:
    alive = WorkerFactory.create(claimed_at=ago(7), slots=4, jobs_ended=11)
    WorkerFactory.create(stopping=True)
    WorkerFactory.create(heartbeat_at=ago(3600))

    page = read()

    states = {labels[0][1]: value for labels, value in named(page, "jobqueue_workers").items()}
    assert states == {"alive": 1, "stopping": 1, "silent": 1}
    assert of(page, "jobqueue_worker_claim_age_seconds", worker=alive.worker_id) == pytest.approx(7, abs=2)
    assert of(page, "jobqueue_worker_slots", worker=alive.worker_id) == 4
    assert of(page, "jobqueue_worker_attempts_total", worker=alive.worker_id) == 11


def test_an_outcome_of_a_newer_release_has_a_name_too() -> None:
    StatFactory.create(outcome=99)

    labels = {"queue": "default", "job_type": "probe.ok", "outcome": "outcome_99"}
    assert of(read(), "jobqueue_attempts_total", **labels) == 1
    assert 99 not in Outcome.values


def test_the_collector_can_be_added_to_a_projects_own_page(django_assert_num_queries: Any) -> None:
    registry = CollectorRegistry()
    with django_assert_num_queries(0):
        registry.register(metrics.Collector())

    assert registry.get_sample_value("jobqueue_up") == 1


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "prometheus_client", None)

    with pytest.raises(ConfigurationError, match=r"pip install 'jobqueue\[metrics\]'"):
        metrics.exposition()


def test_a_status_is_estimated_beyond_what_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page shows the estimate where there is one, and else the lower bound."""
    JobFactory.create(status=Status.DEAD, finished_at=StatementTimestamp())
    seen = snapshot.take_snapshot(Job.objects, fresh=True)
    from dataclasses import replace

    capped = replace(seen, pending=10_000, capped=frozenset({"pending"}), estimates={"pending": 3_000_000})
    found = {family.name: family for family in metric_families.snapshot_families(capped)}

    values = {sample.labels["status"]: sample.value for sample in found["jobqueue_jobs"].samples}
    assert values["pending"] == 3_000_000
    assert values["dead"] == 1


def test_every_fold_statement_is_covered_here() -> None:
    assert set(STATEMENTS.values()) == {sql.FOLD_STATS, sql.FOLD_COSTS, sql.FOLD_COUNTERS}


def test_reading_the_page_makes_few_queries(django_assert_max_num_queries: Callable[..., Any]) -> None:
    populate()
    forget()

    with django_assert_max_num_queries(70):
        metrics.exposition()
    with django_assert_max_num_queries(0):
        metrics.exposition()
