"""The statements of maintenance, people and budgets on a full table: each by the index that its header names."""

from collections.abc import Callable

import pytest

from jobqueue import sql
from jobqueue.states import Status
from tests.plans.explaining import Plan

pytestmark = pytest.mark.django_db

Explain = Callable[..., Plan]
Ids = Callable[[int, int], list[int]]

RUNNING = 400


@pytest.mark.parametrize(
    ("statement", "more", "index", "rows"),
    [
        pytest.param(sql.FIRST_PENDING, {"queue": "q1"}, "jobqueue_job_claim", 1, id="claim"),
        pytest.param(sql.FIRST_DUE, {}, "jobqueue_job_scheduled", 1, id="promote"),
        pytest.param(sql.FIRST_EXPIRED, {}, "jobqueue_job_running", RUNNING, id="reap"),
    ],
)
def test_the_row_that_would_be_moved_next_is_the_first_of_its_index(
    explain: Explain, statement: str, more: dict[str, str], index: str, rows: int
) -> None:
    plan = explain(statement, {"skip": [-1], **more})

    assert index in plan.indexes, plan
    assert plan.scanned_whole == set(), plan
    assert plan.touched <= 4 * rows, plan


@pytest.mark.parametrize("statement", [sql.CANCEL_REQUESTS, sql.LOCK_PAYLOADS, sql.PAYLOAD_SIZES])
def test_rows_that_are_named_are_read_by_their_ids(explain: Explain, ids: Ids, statement: str) -> None:
    status = Status.RUNNING if statement == sql.CANCEL_REQUESTS else Status.DEAD

    plan = explain(statement, {"ids": ids(status, 20)})

    assert plan.indexes == {"jobqueue_job_pkey"}, plan
    assert plan.touched <= 20, plan


def test_stuck_jobs_are_counted_among_the_running_ones(explain: Explain) -> None:
    plan = explain(sql.COUNT_STUCK, {"cap": 1000, "patience": 3600.0, "patient": "{}"})

    assert plan.indexes == {"jobqueue_job_running"}, plan
    assert plan.touched <= RUNNING, plan


def test_stuck_jobs_are_released_by_their_ids(explain: Explain, ids: Ids) -> None:
    patience = {"patience_seconds": 3600.0, "patient_types": [], "patient_seconds": []}
    more = {"reason": "", "dead": False, "notices": False, "unit": "USD"}

    plan = explain(sql.RELEASE_STUCK_JOBS, {"ids": ids(Status.RUNNING, 20), **patience, **more})

    assert "jobqueue_job_pkey" in plan.indexes, plan
    assert "jobqueue_job" not in plan.scanned_whole, plan
    assert plan.touched <= 4 * 20, plan


def test_the_sum_of_a_budget_reads_its_window_only(explain: Explain) -> None:
    """An hour of 20,000 seconds."""
    budget = {"names": ["b"], "job_types": [None], "queues": [None], "units": ["USD"], "pers": ["hour"]}

    plan = explain(sql.BUDGET_SUMS, {**budget, "edges": [None], "zone": "UTC"})

    assert "jobqueue_cost_at" in plan.indexes, plan
    assert plan.touched <= 3_700, plan
