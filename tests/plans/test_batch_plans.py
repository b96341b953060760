"""Batches of a thousand, where the statistics are from before anything ran: nothing is compared with each of them.

To a planner that has seen pending rows only, no row is running or this worker's; it read the table and compared each
running row with each given one. A million comparisons took half a second, so a drain began with two seconds in which
nearly nothing was settled. A worker's sessions have generic plans; who is lent none has custom ones first.
"""

from collections.abc import Callable, Iterator
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import Any

import pytest
from django.db import connection, transaction

from jobqueue.managers import CostLine, Done, Ending, Release, Span, leasing, settling
from jobqueue.managers.sessions import BY_KEY
from jobqueue.outcomes import Outcome
from tests.plans.explaining import Plan, explain, planned

pytestmark = pytest.mark.django_db

ROWS, RUNNING, BATCH = 20_000, 2_000, 1_000
WORKER = "worker-1"
LEASE = timedelta(seconds=60)
SEED = """
INSERT INTO jobqueue_job (job_type, queue, payload)
SELECT 'probe.ok', 'q', jsonb_build_object('n', n) FROM generate_series(1, %s) AS n
"""
CLAIMED = """
UPDATE jobqueue_job SET status = 2, worker_id = %s, lease_epoch = 1, attempts = 1, claimed_at = statement_timestamp(),
                        lease_until = statement_timestamp() + interval '1 minute'
 WHERE id IN (SELECT id FROM jobqueue_job WHERE status = 1 ORDER BY id LIMIT %s) RETURNING id
"""

Run = Callable[..., Plan]


@pytest.fixture
def held(db: None) -> Iterator[list[int]]:
    """The ids of a batch of running jobs, in a table that was last looked at when all were pending."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("TRUNCATE jobqueue_job CASCADE")
        cursor.execute(SEED, [ROWS])
        cursor.execute("ANALYZE jobqueue_job")
        cursor.execute(CLAIMED, [WORKER, RUNNING])
        yield sorted(row[0] for row in cursor.fetchall())[:BATCH]
        transaction.set_rollback(True)


@pytest.fixture(params=["custom", "generic"])
def run(request: pytest.FixtureRequest, held: list[int]) -> Run:
    """Explain a statement as the worker's sessions run it."""
    with connection.cursor() as cursor:
        for name, value in BY_KEY.items():
            cursor.execute(f"SET LOCAL {name} = {value}")
    return partial(explain, request.param)


STATEMENTS: dict[str, Callable[[Run, list[int]], Plan]] = {
    "settle done": lambda run, ids: planned(
        run, settling.settle_done, worker_id=WORKER, jobs=[Done(job_id, 1) for job_id in ids]
    ),
    "settle ended": lambda run, ids: planned(
        run, settling.settle_ended, worker_id=WORKER, endings=[Ending(job_id, 1, Outcome.FAILED) for job_id in ids]
    ),
    "release": lambda run, ids: planned(
        run, leasing.release, worker_id=WORKER, releases=[Release(job_id, 1) for job_id in ids]
    ),
    "renew": lambda run, ids: planned(
        run, leasing.renew, worker_id=WORKER, held=[(job_id, 1, 1.0) for job_id in ids], lease=LEASE
    ),
    "progress": lambda run, ids: planned(
        run, leasing.write_progress, worker_id=WORKER, progress={(job_id, 1): {"percent": 1} for job_id in ids}
    ),
    "costs": lambda run, ids: planned(
        run,
        leasing.write_costs,
        worker_id=WORKER,
        costs={(job_id, 1): [CostLine("llm", "USD", Decimal(1))] for job_id in ids},
    ),
    "claim": lambda run, ids: planned(run, leasing.claim, spans=[Span("q", BATCH)], worker_id=WORKER, lease=LEASE),
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_batch_reads_its_own_rows_alone_and_each_by_its_key(name: str, run: Run, held: list[int]) -> None:
    plan = STATEMENTS[name](run, held)

    assert "jobqueue_job" not in plan.scanned_whole, plan
    assert plan.touched <= 4 * BATCH, plan
    assert compared(plan) <= BATCH, plan


@pytest.mark.parametrize("kind", ["custom", "generic"])
@pytest.mark.parametrize("name", STATEMENTS)
def test_without_the_sessions_settings_nothing_is_compared_with_each_other(
    name: str, kind: Any, held: list[int]
) -> None:
    """As `drain()` and scripts run them: a small table may be read once, for no batch more often."""
    plan = STATEMENTS[name](partial(explain, kind), held)

    assert plan.touched <= 2 * ROWS + 4 * BATCH, plan
    assert compared(plan) <= BATCH, plan


def compared(plan: Plan) -> int:
    """Return how many pairs of rows were put together and thrown away."""
    return sum(int(node["Actual Loops"] * node.get("Rows Removed by Join Filter", 0)) for node in plan.nodes)
