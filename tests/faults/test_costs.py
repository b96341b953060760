"""Sums of very many very different amounts, folded or not, to the last digit."""

import time
from datetime import timedelta
from decimal import Decimal

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse

from jobqueue import sql
from jobqueue.managers import moving
from jobqueue.models import Cost, Job
from jobqueue.models.expressions import StatementTimestamp
from jobqueue.ops.costs import cost_series, cost_sums, cost_table, costs_by, total_cost

from .measured import Recovery

ROWS = 100_000
AMOUNTS = (
    "1234.5678",
    "0.0000004",
    "1234.5678",
    "0.0000004",
    "-1234.5678",
    "0.1",
    "1234.5678",
    "0.0000004",
    "7",
    "-0.1",
)
MANY = """
INSERT INTO jobqueue_cost (queue, job_type, unit, amount, at)
SELECT 'q' || n %% 3, 't' || n %% 7, 'USD', (%s::numeric[])[1 + n %% 10],
       statement_timestamp() - make_interval(secs => 60 + n * 25)
  FROM generate_series(0, %s - 1) AS n
"""
A_MONTH = StatementTimestamp() - timedelta(days=31)


@pytest.mark.django_db
def test_the_total_is_the_sum_of_its_groups_over_a_hundred_thousand_rows(
    admin_client: Client, recovery: Recovery
) -> None:
    """C124, C166: equal to Python's Decimal, by type and in all; folding changes nothing; the page takes a second."""
    with connection.cursor() as cursor:
        cursor.execute(MANY, [list(map(Decimal, AMOUNTS)), ROWS])
    Cost.objects.create(queue="q", job_type="big", unit="USD", amount=Decimal("9.9e11"))
    amounts = [Decimal(AMOUNTS[n % 10]) for n in range(ROWS)]
    by_type = {f"t{kind}": sum(amounts[kind::7], Decimal(0)) for kind in range(7)} | {"big": Decimal("9.9e11")}

    by_queue = {f"q{rest}": sum(amounts[rest::3], Decimal(0)) for rest in range(3)} | {"q": Decimal("9.9e11")}

    def check() -> None:
        assert {group.key[0]: group.amount for group in costs_by("queue", since=A_MONTH)} == by_queue
        days = cost_series(since=A_MONTH, per="day", zone="Asia/Kolkata")
        assert sum(day.amount for day in days) == sum(by_type.values())
        assert sum(group.amount for group in costs_by("owner", "component", since=A_MONTH)) == sum(by_type.values())
        assert {part.job_type: part.amount for part in cost_sums(A_MONTH)} == by_type
        assert total_cost(A_MONTH, unit="USD") == sum(by_type.values())
        rows = cost_table([timedelta(days=31)])
        assert {row.key: row.amounts[0] for row in rows} == by_type

    check()
    began = time.monotonic()
    assert admin_client.get(reverse("admin:jobqueue_cost_changelist")).status_code == 200
    recovery("the page of costs over 100,000 rows", time.monotonic() - began, within=2)
    for from_span, to_span in ((0, 60), (60, 900)):
        while moving.fold(
            Job.objects.run_sql,
            statement=sql.FOLD_COSTS,
            from_span=from_span,
            to_span=to_span,
            age=timedelta(0),
            limit=50_000,
        ):
            pass
    assert not Cost.objects.filter(span_seconds__lt=900).exists()
    check()
