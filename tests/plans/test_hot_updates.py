"""Renewals and progress write no indexed column: the server updates such rows in place (HOT), no index grows."""

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection

from jobqueue.managers import CostLine, leasing
from jobqueue.models import Job
from jobqueue.states import Status
from tests.factories import JobFactory

pytestmark = pytest.mark.django_db

run = Job.objects.run_sql


def updates() -> tuple[int, int]:
    """Return how many rows of the table this transaction has updated, and how many of them in place."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_stat_get_xact_tuples_updated(oid), pg_stat_get_xact_tuples_hot_updated(oid)"
            "  FROM pg_class WHERE relname = 'jobqueue_job'"
        )
        row: tuple[int, int] = cursor.fetchone()
        return row


WRITES: dict[str, Callable[[list[Job]], Any]] = {
    "first renewal": lambda jobs: leasing.renew(
        run, worker_id="worker-1", held=[(job.pk, 1, 1.0) for job in jobs], lease=timedelta(seconds=60)
    ),
    "progress": lambda jobs: leasing.write_progress(
        run, worker_id="worker-1", progress={(job.pk, 1): {"percent": 50} for job in jobs}
    ),
    "costs so far": lambda jobs: leasing.write_costs(
        run, worker_id="worker-1", costs={(job.pk, 1): [CostLine("llm", "USD", Decimal(1))] for job in jobs}
    ),
    "cancel request": lambda jobs: Job.objects.cancel([job.pk for job in jobs]),
}


@pytest.mark.parametrize("name", WRITES)
def test_a_running_job_is_updated_in_place(name: str) -> None:
    """Guard: lease_until, updated_at, run_started_at and progress stand in no index and in no index's condition."""
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE jobqueue_job")  # pages that other tests had filled have no room for updates in place
    jobs = JobFactory.create_batch(12, status=Status.RUNNING)
    before = updates()

    WRITES[name](jobs)

    after = updates()
    assert (after[0] - before[0], after[1] - before[1]) == (12, 12)


def test_the_table_leaves_room_for_updates_in_place() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT reloptions FROM pg_class WHERE relname = 'jobqueue_job'")
        (options,) = cursor.fetchone()

    assert "fillfactor=85" in options
