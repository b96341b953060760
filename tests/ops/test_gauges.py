"""What is read of gauges and counters: over the living workers, and over a window of time."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from jobqueue import sql
from jobqueue.managers.moving import fold
from jobqueue.models import Counter, Job, Worker
from jobqueue.ops.gauges import CounterSum, count_over, counter_sums, gauge_over_workers, gauge_values
from tests.factories import CounterFactory, WorkerFactory, ago

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)


def told(name: str, value: float, seconds_ago: float = 0, **labels: str) -> dict[str, Any]:
    return {"name": name, "labels": labels, "value": value, "at_seconds_ago": seconds_ago}


def worker(*gauges: dict[str, Any], **fields: Any) -> Worker:
    made: Worker = WorkerFactory.create(gauges=list(gauges), **fields)
    return made


@pytest.mark.parametrize(("aggregate", "expected"), [("min", 10), ("max", 40), ("sum", 80), ("avg", 80 / 3)])
def test_a_gauge_over_all_workers(aggregate: Any, expected: float) -> None:
    worker(told("ports", 10), told("other", 1))
    worker(told("ports", 40), told("ports", 30, zone="eu"))

    assert gauge_over_workers("ports", aggregate=aggregate) == pytest.approx(expected)


def test_labels_select_what_has_them_among_others() -> None:
    worker(told("ports", 10, zone="eu", kind="a"), told("ports", 20, zone="us", kind="a"), told("ports", 30))

    assert gauge_over_workers("ports", {"zone": "eu"}) == 10
    assert gauge_over_workers("ports", {"kind": "a"}, "sum") == 30
    assert gauge_over_workers("ports", {"kind": "b"}) is None


def test_nobody_has_it() -> None:
    worker(told("other", 1))

    assert gauge_over_workers("ports") is None


def test_the_dead_do_not_count() -> None:
    worker(told("ports", 1), heartbeat_at=ago(3_600))
    alive = worker(told("ports", 5), heartbeat_at=ago(20))

    assert [(found.worker_id, found.value) for found in gauge_values("ports")] == [(alive.pk, 5)]


def test_a_gauge_is_as_old_as_its_heartbeat_and_more() -> None:
    worker(told("old", 1, 590), told("young", 1, 10), heartbeat_at=ago(20))

    (found,) = gauge_values()
    assert (found.name, found.labels) == ("young", {})
    assert found.age_seconds == pytest.approx(30, abs=5)


def test_an_aggregate_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match="min, max, sum, avg"):
        gauge_over_workers("ports", aggregate="median")  # type: ignore[arg-type]


def test_a_row_that_somebody_wrote_by_hand_hides_no_other() -> None:
    Worker.objects.filter(pk=worker().pk).update(gauges={"ports": 1})
    worker(told("ports", 5))

    assert gauge_over_workers("ports") == 5


def test_counts_of_a_window_by_labels() -> None:
    CounterFactory.create(amount=2, labels={"end": "block", "zone": "eu"})
    CounterFactory.create(amount=3, labels={"end": "block"}, at=ago(1_800))
    CounterFactory.create(amount=5, labels={"end": "done"})
    CounterFactory.create(amount=100, labels={"end": "block"}, at=ago(4_000))
    CounterFactory.create(amount=1_000, name="other")

    assert count_over("sessions", {"end": "block"}, HOUR) == 5
    assert count_over("sessions", None, HOUR) == 10
    assert count_over("sessions", {"end": "block"}, timedelta(hours=2)) == 105
    assert count_over("sessions", {"end": "block"}, timezone.now() - HOUR) == 5
    assert count_over("nothing", None, HOUR) == 0


def test_single_and_folded_rows_make_one_sum() -> None:
    """A folded row whose span reaches into the window counts as a whole."""
    for seconds in (30, 600, 1_800, 3_000, 9_000):
        CounterFactory.create(at=ago(seconds))
    before = count_over("sessions", None, HOUR)
    assert before == 4

    age = timedelta(seconds=10)
    for from_span, to_span in ((0, 60), (60, 900)):
        options = {"from_span": from_span, "to_span": to_span}
        fold(Job.objects.run_sql, statement=sql.FOLD_COUNTERS, age=age, limit=100, **options)
        assert count_over("sessions", None, HOUR) == before

    assert not Counter.objects.filter(span_seconds=0).exists()
    assert counter_sums(HOUR) == [CounterSum("sessions", {}, before)]


def test_all_counters_of_a_window_by_name_and_labels() -> None:
    CounterFactory.create(amount=2, labels={"end": "block"})
    CounterFactory.create(amount=3, labels={"end": "block"}, span_seconds=60, at=ago(90))
    CounterFactory.create(amount=3, name="bytes", at=ago(10))
    CounterFactory.create(amount=7, name="bytes", at=ago(7_200))
    CounterFactory.create(amount=7, name="bytes", span_seconds=900, at=ago(7_200))

    expected = [CounterSum("bytes", {}, 3), CounterSum("sessions", {"end": "block"}, 5)]
    assert counter_sums(HOUR) == counter_sums(timezone.now() - HOUR) == expected
