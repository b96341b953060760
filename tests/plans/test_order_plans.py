"""The statements of orders to workers, among 20,000 answered ones: a worker that is asked nothing reads nothing."""

import json
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from django.db import connection, transaction

from jobqueue import sql
from tests.plans.explaining import Plan

Explain = Callable[..., Plan]
FULL = """
INSERT INTO jobqueue_order (worker_id, kind, asked_by, answered_at, answer)
SELECT 'worker-' || n % 40, 'stack', 'ann', CASE WHEN n % 100 > 0 THEN statement_timestamp() END, repeat('x', 200)
  FROM generate_series(1, 20000) AS n
"""


@pytest.fixture
def many_orders(full_table: None) -> Iterator[None]:
    """Fill the table, within the transaction that is rolled back."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(FULL)
        cursor.execute("ANALYZE jobqueue_order")
        yield
        transaction.set_rollback(True)


def test_a_worker_without_orders_reads_none(explain: Explain, many_orders: None) -> None:
    plan = explain(sql.READ_ORDERS, {"worker_id": "worker-1", "take": 100})

    assert "jobqueue_order_open" in plan.indexes, plan
    assert plan.touched == 0, plan


def test_a_worker_reads_its_open_orders_only(explain: Explain, many_orders: None) -> None:
    plan = explain(sql.READ_ORDERS, {"worker_id": "worker-0", "take": 100})

    assert "jobqueue_order_open" in plan.indexes, plan
    assert plan.touched <= 100, plan


def test_an_answer_finds_its_order_by_its_key(explain: Explain, many_orders: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT min(id) FROM jobqueue_order WHERE answered_at IS NULL")
        order = cursor.fetchone()[0]
    answers = json.dumps([{"id": order, "obeyed": True, "answer": ""}])

    plan = explain(sql.ANSWER_ORDERS, {"worker_id": "worker-0", "answers": answers})

    assert "jobqueue_order" not in plan.scanned_whole, plan
    assert plan.touched <= 200, plan


def test_what_is_old_is_found_from_the_oldest_on(explain: Explain, many_orders: None) -> None:
    plan = explain(sql.PRUNE_ORDERS, {"age": timedelta(days=1), "take": 100})

    assert "jobqueue_order" not in plan.scanned_whole, plan
    assert plan.touched <= 200, plan
