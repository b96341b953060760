"""A full table, and the plan that the server really ran.

20,000 due, 20,000 scheduled and 20,000 finished rows, a few hundred running and dead ones, are inserted once in one
transaction that is never committed; each plan is run in a savepoint that is rolled back.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from django.db import connection, transaction

from tests.plans import explaining
from tests.plans.explaining import Plan

SEED = """
INSERT INTO jobqueue_job (job_type, queue, priority, status, run_after, dedupe_key, payload)
SELECT 'probe.ok', 'q' || n %% 4, 90 + n %% 3, 1, statement_timestamp() - n * interval '1 second',
       CASE WHEN n %% 20 = 0 THEN 'due' || n END, jsonb_build_object('path', repeat('x', 100), 'n', n)
  FROM generate_series(1, 20000) AS n;
INSERT INTO jobqueue_job (job_type, queue, status, run_after, payload)
SELECT 'probe.ok', 'q' || n %% 4, 5, statement_timestamp() + (n - 200) * interval '1 minute',
       jsonb_build_object('path', repeat('x', 100), 'n', n)
  FROM generate_series(1, 20000) AS n;
INSERT INTO jobqueue_job (job_type, queue, status, attempts, lease_epoch, worker_id, finished_at, result, payload)
SELECT 'probe.ok', 'q' || n %% 4, CASE WHEN n %% 10 = 0 THEN 7 ELSE 3 END, 1, 1, 'worker-old',
       statement_timestamp() - n * interval '1 minute', '{"ok": true}', jsonb_build_object('path', repeat('x', 100))
  FROM generate_series(1, 20000) AS n;
INSERT INTO jobqueue_job (job_type, queue, status, attempts, lease_epoch, dedupe_key, finished_at, fingerprint)
SELECT 'probe.ok', 'q' || n %% 4, 4, 3, 3, CASE WHEN n %% 2 = 0 THEN 'dead' || n END,
       statement_timestamp() - n * interval '1 minute', 'f' || n %% 7
  FROM generate_series(1, 400) AS n;
INSERT INTO jobqueue_job (job_type, queue, status, attempts, lease_epoch, worker_id, claimed_at, lease_until)
SELECT 'probe.ok', 'q' || n %% 4, 2, 1, 1, 'worker-' || n %% 4, statement_timestamp(),
       statement_timestamp() + CASE WHEN n <= 50 THEN interval '-1 second' ELSE interval '1 minute' END
  FROM generate_series(1, 400) AS n;
INSERT INTO jobqueue_attempt (job_id, lease_epoch, number, worker_id, outcome)
SELECT id, 1, 1, 'w', 2 FROM jobqueue_job WHERE status IN (3, 4);
INSERT INTO jobqueue_stat (queue, job_type, outcome, jobs, wait_seconds, run_seconds, cpu_seconds, at, span_seconds)
SELECT 'q', 't', 1, 1, 0, 0, 0, statement_timestamp() - n * interval '1 second',
       CASE WHEN n %% 50 = 0 THEN 0 ELSE 900 END
  FROM generate_series(1, 20000) AS n;
INSERT INTO jobqueue_cost (queue, job_type, unit, amount, at, span_seconds)
SELECT 'q', 't', 'USD', 1, statement_timestamp() - n * interval '1 second', CASE WHEN n %% 50 = 0 THEN 0 ELSE 900 END
  FROM generate_series(1, 20000) AS n;
INSERT INTO jobqueue_counter (name, labels, amount, at, span_seconds)
SELECT 'n' || n %% 100, '{"end": "block"}', 1, statement_timestamp() - n * interval '1 second',
       CASE WHEN n %% 50 = 0 THEN 0 ELSE 900 END
  FROM generate_series(1, 20000) AS n;
ANALYZE jobqueue_job, jobqueue_attempt, jobqueue_stat, jobqueue_cost, jobqueue_counter;
"""


@pytest.fixture(scope="package")
def full_table(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """Fill the tables in a transaction that is rolled back after the last plan."""
    with django_db_blocker.unblock(), transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(SEED.replace("%%", "%"))
        yield
        transaction.set_rollback(True)


@pytest.fixture
def ids(full_table: None, django_db_blocker: Any) -> Callable[[int, int], list[int]]:
    """Return the function that gives the ids of the first rows of a status."""

    def first(status: int, limit: int) -> list[int]:
        with connection.cursor() as cursor:
            cursor.execute("SELECT id FROM jobqueue_job WHERE status = %s ORDER BY id LIMIT %s", [status, limit])
            return [row[0] for row in cursor.fetchall()]

    return first


@pytest.fixture
def pause(full_table: None, django_db_blocker: Any) -> Iterator[Callable[[str], None]]:
    """Return the function that pauses a queue until the end of the test."""
    with transaction.atomic(), connection.cursor() as cursor:
        yield lambda name: cursor.execute(
            "INSERT INTO jobqueue_queue (name, paused_at) VALUES (%s, statement_timestamp())", [name]
        )
        transaction.set_rollback(True)


@pytest.fixture(params=["custom", "generic"])
def explain(request: pytest.FixtureRequest, full_table: None) -> Callable[..., Plan]:
    """Return the function that runs a statement as a worker prepares it, and returns its plan.

    A prepared statement may get a plan made for these parameters, or one made for any: both must be good.
    """

    return partial(explaining.explain, request.param)
