"""Folding: statistics and costs go into quarter-hours, and no total ever changes (case C166)."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import models
from django.db.models import Max, Sum

from jobqueue import sql
from jobqueue.managers.moving import fold
from jobqueue.models import Cost, Counter, Job, Stat
from tests.factories import CostFactory, CounterFactory, StatFactory

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 3, 29, 12, 0, tzinfo=UTC)
QUARTER = 900


def fold_stats(limit: int = 1000, age: timedelta = timedelta(0)) -> int:
    return fold(Job.objects.run_sql, statement=sql.FOLD_STATS, from_span=0, to_span=QUARTER, age=age, limit=limit)


def fold_costs(limit: int = 1000) -> int:
    return fold(
        Job.objects.run_sql, statement=sql.FOLD_COSTS, from_span=0, to_span=QUARTER, age=timedelta(0), limit=limit
    )


def fold_counters(limit: int = 1000) -> int:
    return fold(
        Job.objects.run_sql, statement=sql.FOLD_COUNTERS, from_span=0, to_span=QUARTER, age=timedelta(0), limit=limit
    )


def totals(model: type[models.Model], *columns: str) -> dict[str, Any]:
    return model._default_manager.aggregate(**{column: Sum(column) for column in columns})


def test_rows_of_one_quarter_hour_become_one_row() -> None:
    for minutes in (0, 7, 14, 15):
        StatFactory.create(at=NOON + timedelta(minutes=minutes), peak_memory_bytes=minutes)

    assert fold_stats() == 4

    rows = Stat.objects.order_by("at").values_list("at", "span_seconds", "jobs", "wait_seconds", "peak_memory_bytes")
    assert list(rows) == [(NOON, QUARTER, 3, 1.5, 14), (NOON + timedelta(minutes=15), QUARTER, 1, 0.5, 15)]


def test_queue_type_and_outcome_are_kept_apart() -> None:
    for fields in ({}, {"queue": "mail"}, {"job_type": "probe.echo"}, {"outcome": 2}):
        StatFactory.create(at=NOON, **fields)

    fold_stats()

    assert Stat.objects.filter(span_seconds=QUARTER, jobs=1).count() == 4


def test_late_rows_are_added_to_the_quarter_hour_that_exists() -> None:
    StatFactory.create(at=NOON, dead=1, peak_memory_bytes=5)
    fold_stats()
    StatFactory.create(at=NOON, jobs=7, peak_memory_bytes=3)

    fold_stats()

    row = Stat.objects.get()
    assert (row.jobs, row.dead, row.run_seconds, row.peak_memory_bytes) == (8, 1, 0.5, 5)


def test_the_totals_are_the_same_after_every_batch() -> None:
    for number in range(20):
        StatFactory.create(at=NOON + timedelta(minutes=number), jobs=number, queue=f"q{number % 3}")
    columns = ("jobs", "dead", "wait_seconds", "run_seconds", "cpu_seconds")
    before = totals(Stat, *columns)

    while fold_stats(limit=6):
        assert totals(Stat, *columns) == before

    assert Stat.objects.aggregate(Max("span_seconds"))["span_seconds__max"] == QUARTER
    assert not Stat.objects.filter(span_seconds=0).exists()


def test_young_rows_are_left_as_they_are() -> None:
    """Guard: at < now - age."""
    StatFactory.create()

    assert fold_stats(age=timedelta(hours=1)) == 0


def test_folded_rows_are_not_folded_again() -> None:
    """Guards: span_seconds = from_span, and never the longest span."""
    for span in (60, QUARTER):
        StatFactory.create(at=NOON, span_seconds=span)

    assert fold_stats() == 0


def test_costs_fold_exactly_by_owner_component_and_unit() -> None:
    """Case C124: 1,234.5678 and 0.0000004, with refunds, never a float."""
    for number in range(30):
        amount = Decimal("1234.5678") if number % 3 else Decimal("-0.0000004")
        CostFactory.create(at=NOON + timedelta(minutes=number), amount=amount, owner=f"o{number % 2}", component="llm")
    before = totals(Cost, "amount")

    assert [fold_costs(limit=20), fold_costs(limit=20), fold_costs(limit=20)] == [20, 10, 0]

    assert totals(Cost, "amount") == before
    assert Cost.objects.count() == 4


def test_a_sum_larger_than_any_single_cost_does_not_stop_the_folding() -> None:
    for _ in range(3):
        CostFactory.create(at=NOON, amount=Decimal("990000000000.5"))

    fold_costs()

    assert Cost.objects.get().amount == Decimal("2970000000001.5")


def counts(row: Stat) -> tuple[list[int] | None, list[int] | None]:
    return row.wait_counts, row.run_counts


def test_a_bucket_a_job_becomes_a_count_a_bucket_as_far_as_there_are_any() -> None:
    StatFactory.create(at=NOON, jobs=3, wait_buckets=[0, 2, 2], run_buckets=[5, 5, 0])
    StatFactory.create(at=NOON + timedelta(minutes=3), jobs=2, wait_buckets=[63, 0], run_buckets=[3])

    fold_stats()

    assert counts(Stat.objects.get()) == ([2, 0, 2, *[0] * 60, 1], [1, 0, 0, 1, 0, 2])


def test_counts_of_late_rows_and_of_minutes_are_added_to_those_that_exist() -> None:
    StatFactory.create(at=NOON, wait_buckets=[1], run_buckets=[0])
    fold_stats()
    StatFactory.create(at=NOON, wait_buckets=[3, 1], run_buckets=None)
    fold_stats()
    StatFactory.create(at=NOON, span_seconds=60, wait_counts=[4], run_counts=[0, 0, 7])
    fold(Job.objects.run_sql, statement=sql.FOLD_STATS, from_span=60, to_span=QUARTER, age=timedelta(0), limit=10)

    assert counts(Stat.objects.get()) == ([4, 2, 0, 1], [1, 0, 7])


def test_counts_of_different_groups_are_kept_apart() -> None:
    for number, queue in enumerate(("a", "b", "c")):
        StatFactory.create_batch(2, at=NOON, queue=queue, wait_buckets=[number], run_buckets=[number + 1])

    fold_stats()

    rows = Stat.objects.order_by("queue")
    assert [counts(row) for row in rows] == [([2], [0, 2]), ([0, 2], [0, 0, 2]), ([0, 0, 2], [0, 0, 0, 2])]


def test_rows_of_releases_without_histograms_fold_as_before() -> None:
    StatFactory.create(at=NOON, jobs=5)
    fold_stats()
    assert counts(Stat.objects.get()) == (None, None)

    StatFactory.create(at=NOON, wait_buckets=[1], run_buckets=[0])
    fold_stats()
    StatFactory.create(at=NOON, jobs=5)
    fold_stats()

    row = Stat.objects.get()
    assert (row.jobs, *counts(row)) == (11, [0, 1], [1])


def test_what_somebody_wrote_by_hand_does_not_stop_the_folding() -> None:
    StatFactory.create(at=NOON, wait_buckets=[-3, 900, None], run_buckets=[])
    StatFactory.create(at=NOON, span_seconds=60, wait_counts=[1] * 70, run_counts=[None, 2])

    fold_stats()
    fold(Job.objects.run_sql, statement=sql.FOLD_STATS, from_span=60, to_span=QUARTER, age=timedelta(0), limit=10)

    assert counts(Stat.objects.get()) == ([2, *[1] * 62, 8], [0, 2])


def test_counters_fold_by_name_and_labels() -> None:
    for number in range(30):
        labels = {"end": "block"} if number % 3 else {}
        CounterFactory.create(at=NOON + timedelta(minutes=number), amount=0.5, name=f"n{number % 2}", labels=labels)

    assert [fold_counters(limit=20), fold_counters(limit=20), fold_counters(limit=20)] == [20, 10, 0]

    rows = Counter.objects.filter(name="n0", at=NOON).values_list("labels", "amount")
    assert sorted(rows, key=str) == [({"end": "block"}, 2.5), ({}, 1.5)]
    assert Counter.objects.aggregate(total=Sum("amount"))["total"] == 15
    CounterFactory.create(at=NOON, amount=4, name="n0")
    fold_counters()
    assert Counter.objects.get(name="n0", at=NOON, labels={}).amount == 5.5


def test_a_counter_row_that_no_index_could_hold_does_not_stop_the_folding() -> None:
    """Somebody wrote it by hand: handlers cannot."""
    CounterFactory.create(at=NOON, name="n" * 5_000, labels={str(number): "x" * 100 for number in range(100)})

    assert fold_counters() == 1

    assert Counter.objects.values_list("name", "labels").get() == ("n" * 63, {})
