"""Folding: statistics and costs go into quarter-hours, and no total ever changes (case C166)."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import models
from django.db.models import Max, Sum

from jobqueue import sql
from jobqueue.managers.moving import fold
from jobqueue.models import Cost, Job, Stat
from tests.factories import CostFactory, StatFactory

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 3, 29, 12, 0, tzinfo=UTC)
QUARTER = 900


def fold_stats(limit: int = 1000, age: timedelta = timedelta(0)) -> int:
    return fold(Job.objects.run_sql, statement=sql.FOLD_STATS, from_span=0, to_span=QUARTER, age=age, limit=limit)


def fold_costs(limit: int = 1000) -> int:
    return fold(
        Job.objects.run_sql, statement=sql.FOLD_COSTS, from_span=0, to_span=QUARTER, age=timedelta(0), limit=limit
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
