"""Sums of costs: exact, by type and unit, the same before and after folding and pruning."""

import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from django.db import connection

from jobqueue import sql
from jobqueue.maintenance.fold import MINUTE, QUARTER
from jobqueue.managers import moving
from jobqueue.models import Cost, Job
from jobqueue.models.expressions import StatementTimestamp
from jobqueue.ops.costs import WINDOWS, CostRow, CostSum, cost_sums, cost_table, total_cost, unit_totals
from tests.factories import CostFactory, ago

pytestmark = pytest.mark.django_db

DAY_AGO = StatementTimestamp() - timedelta(days=1)


def test_sums_are_by_type_and_unit() -> None:
    CostFactory.create(job_type="b", amount="0.1")
    CostFactory.create(job_type="b", amount="0.2")
    CostFactory.create(job_type="a", amount="7", unit="EUR")
    CostFactory.create(job_type="a", amount="1")

    assert cost_sums(DAY_AGO) == [
        CostSum("a", "EUR", Decimal(7)),
        CostSum("a", "USD", Decimal(1)),
        CostSum("b", "USD", Decimal("0.3")),
    ]


def test_an_aware_datetime_is_an_instant_too() -> None:
    CostFactory.create(amount="1", at=ago(90))
    CostFactory.create(amount="2")

    assert cost_sums(datetime.now(UTC) - timedelta(seconds=60)) == [CostSum("probe.ok", "USD", Decimal(2))]


def test_a_folded_row_counts_wherever_its_span_reaches_into_the_window() -> None:
    since = StatementTimestamp() - timedelta(hours=1)
    CostFactory.create(amount="1", at=ago(3_630), span_seconds=60)
    CostFactory.create(amount="2", at=ago(3_670), span_seconds=60)
    CostFactory.create(amount="4", at=ago(4_400), span_seconds=900)
    CostFactory.create(amount="8", at=ago(4_600), span_seconds=900)

    assert total_cost(since, unit="USD") == 5


def test_no_cost_is_zero_and_a_decimal() -> None:
    assert isinstance(total_cost(DAY_AGO, unit="USD"), Decimal)
    assert total_cost(DAY_AGO, unit="USD") == 0
    assert cost_sums(DAY_AGO) == []
    assert cost_table([timedelta(hours=1)]) == []


def test_the_sum_equals_the_parts_to_the_last_digit() -> None:
    """Case C124: sums in floats disagree with their parts, or overflow takes the page down."""
    dice = random.Random(7)
    choices = [Decimal("1234.5678"), Decimal("0.0000004"), Decimal("-17.25"), Decimal("987652.7")]
    amounts = [dice.choice(choices) for _ in range(5_000)] + [Decimal("9.9e11")]
    Cost.objects.bulk_create(
        [Cost(queue="q", job_type=f"t{index % 7}", unit="USD", amount=amount) for index, amount in enumerate(amounts)]
    )

    parts = cost_sums(DAY_AGO)

    assert total_cost(DAY_AGO, unit="USD") == sum(amounts) == sum(part.amount for part in parts)
    for number, part in enumerate(parts):
        assert part.amount == sum(amounts[number::7])


def test_folding_and_pruning_change_no_sum(transactional_db: None) -> None:
    """Case C166."""
    for minutes in range(200):
        CostFactory.create(amount=Decimal(minutes) / 7 if minutes % 2 else "0.00000001", at=ago(60 * minutes))
    before = total_cost(DAY_AGO, unit="USD")

    for from_span, to_span in ((0, MINUTE), (MINUTE, QUARTER)):
        folded = moving.fold(
            Job.objects.run_sql,
            statement=sql.FOLD_COSTS,
            from_span=from_span,
            to_span=to_span,
            age=timedelta(0),
            limit=999,
        )
        assert folded > 0
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM jobqueue_job")

    assert Cost.objects.filter(span_seconds=0).count() == 0
    assert total_cost(DAY_AGO, unit="USD") == before


def test_the_table_has_a_column_a_window_and_totals_a_unit() -> None:
    CostFactory.create(job_type="cheap", amount="1", at=ago(600))
    CostFactory.create(job_type="dear", amount="5", at=ago(3 * 86_400))
    CostFactory.create(job_type="dear", amount="2", at=ago(7_200))
    CostFactory.create(job_type="dear", amount="3", unit="EUR")
    CostFactory.create(job_type="old", amount="9", at=ago(40 * 86_400))

    table = cost_table(list(WINDOWS.values()))

    zero = Decimal(0)
    assert table == [
        CostRow("dear", "EUR", (Decimal(3),) * 4),
        CostRow("dear", "USD", (zero, Decimal(2), Decimal(7), Decimal(7))),
        CostRow("cheap", "USD", (Decimal(1),) * 4),
    ]
    assert unit_totals(table)[1] == CostRow("", "USD", (Decimal(1), Decimal(3), Decimal(8), Decimal(8)))
