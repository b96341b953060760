"""The result of a task on a full table: its row by the primary key, its attempts by theirs."""

from collections.abc import Callable

import pytest
from django.db import connection

from jobqueue import sql
from jobqueue.states import Status
from tests.plans.explaining import Plan

pytestmark = pytest.mark.django_db

Explain = Callable[..., Plan]
Ids = Callable[[int, int], list[int]]


def test_one_result_reads_its_own_rows_only(explain: Explain, ids: Ids) -> None:
    (job_id,) = ids(Status.DEAD, 1)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE jobqueue_job SET task_backend = 'default' WHERE id = %s", [job_id])

    plan = explain(sql.GET_TASK, {"id": job_id, "task_backend": "default"})

    assert {"jobqueue_job_pkey", "jobqueue_attempt_run"} <= plan.indexes, plan
    assert plan.scanned_whole == set(), plan
    assert 1 <= plan.touched <= 2, plan


def test_the_times_of_many_are_read_by_the_primary_key(explain: Explain, ids: Ids) -> None:
    plan = explain(sql.CREATED_TIMES, {"ids": ids(Status.PENDING, 100)})

    assert "jobqueue_job_pkey" in plan.indexes, plan
    assert plan.scanned_whole == set(), plan
