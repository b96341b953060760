"""The statements of the hosts that webhooks go to, among 20,000 other hosts."""

from collections.abc import Callable, Iterator

import pytest
from django.db import connection, transaction
from django.utils import timezone

from jobqueue import sql
from tests.plans.explaining import Plan

Explain = Callable[..., Plan]
FULL = """
INSERT INTO jobqueue_host (name, busy_until, failures)
SELECT 'host' || n || '.example.test:443', ARRAY[statement_timestamp() + interval '1 minute'], n %% 5
  FROM generate_series(1, 20000) AS n
"""
HOST = "host777.example.test:443"


@pytest.fixture
def many_hosts(full_table: None) -> Iterator[None]:
    """Fill the table, within the transaction that is rolled back."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(FULL.replace("%%", "%"))
        cursor.execute("ANALYZE jobqueue_host")
        yield
        transaction.set_rollback(True)


@pytest.mark.parametrize("most", [1, 4], ids=["busy", "free"])
def test_taking_a_turn_reads_one_row(explain: Explain, many_hosts: None, most: int) -> None:
    plan = explain(sql.TAKE_HOST, {"name": HOST, "most": most, "seconds": 60})

    assert "jobqueue_host" not in plan.scanned_whole, plan
    assert plan.touched <= 1, plan
    assert any(node.get("Conflict Arbiter Indexes") == ["jobqueue_host_pkey"] for node in plan.nodes), plan


@pytest.mark.parametrize("well", [True, False, None])
def test_ending_a_turn_reads_that_row_by_its_key(explain: Explain, many_hosts: None, well: bool | None) -> None:
    plan = explain(sql.FREE_HOST, {"name": HOST, "token": timezone.now(), "well": well})

    # Django makes a second index for LIKE on a text that is a key; the planner takes either.
    assert {name for name in plan.indexes if name.startswith(("jobqueue_host_pkey", "jobqueue_host_name_"))}, plan
    assert "jobqueue_host" not in plan.scanned_whole, plan
    assert plan.touched <= 3, plan
