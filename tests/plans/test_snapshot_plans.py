"""The snapshot reads no more of a full table than it tells of: by index, up to the caps, whatever lies behind them."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from jobqueue import sql
from jobqueue.models import Job
from jobqueue.ops import counts, limited, queue_figures, reading
from jobqueue.ops.costly import retry_costs
from jobqueue.ops.overview import COUNTS
from jobqueue.states import Status
from tests.plans.explaining import Plan, flat

from .test_plans import TABLES, Explain, assert_good

pytestmark = pytest.mark.django_db

CAP = 100


def test_depths_read_an_entry_a_queue_and_priority_and_each_queue_to_the_cap(explain: Explain) -> None:
    """4 queues, 12 priorities in all, 5,000 due jobs each."""
    plan = explain(sql.QUEUE_DEPTHS, {"queues": 200, "entries": 100_000, "cap": CAP})

    assert_good(plan, "jobqueue_job_claim", limit=13 + 4 * (CAP + 1), factor=1)


def test_depths_share_what_may_be_read(explain: Explain) -> None:
    plan = explain(sql.QUEUE_DEPTHS, {"queues": 200, "entries": 800, "cap": 10_000})

    assert_good(plan, "jobqueue_job_claim", limit=13 + 4 * 201, factor=1)


def test_the_number_of_queues_has_an_end(explain: Explain) -> None:
    plan = explain(sql.QUEUE_DEPTHS, {"queues": 2, "entries": 100_000, "cap": CAP})

    assert_good(plan, "jobqueue_job_claim", limit=7 + 2 * (CAP + 1), factor=1)


def test_long_queues_are_read_to_the_cap(explain: Explain) -> None:
    plan = explain(sql.LONG_QUEUES, {"queues": ["q1", "q2"], "cap": CAP})

    assert_good(plan, "jobqueue_job_claim", limit=2 * (CAP + 1), factor=1)


def test_counts_of_the_overview_stop_at_the_cap(explain: Explain) -> None:
    """Of six statuses, and of what is stuck: for that all that runs is looked at."""
    plan = explain(COUNTS, {"cap": CAP, "patience": 600.0, "patient": "{}"})

    assert plan.touched <= 6 * CAP + Job.objects.filter(status=Status.RUNNING).count(), plan
    assert plan.scanned_whole == set(), plan


def test_arrivals_read_the_newest_rows(explain: Explain) -> None:
    plan = explain(sql.ARRIVALS, {"take": CAP, "span": timedelta(minutes=15)})

    assert_good(plan, "jobqueue_job_pkey", limit=CAP, factor=1)


def test_estimated_arrivals_find_the_first_one_by_halving(explain: Explain) -> None:
    """Of 61,000 rows: one at each of some twenty looks, and the sample."""
    plan = explain(sql.ESTIMATED_ARRIVALS, {"span": timedelta(minutes=15), "chunks": 10, "take": 10})

    assert_good(plan, "jobqueue_job_pkey", limit=CAP + 65, factor=1)


def test_done_jobs_read_the_window_only(explain: Explain) -> None:
    """Of 20,000 rows, one a second: those of a minute, and long ones of 15 minutes before, which may reach into it."""
    plan = explain(sql.DONE_JOBS, {"window": timedelta(minutes=1)})

    assert_good(plan, "jobqueue_stat_fold", "jobqueue_stat_bucket", limit=16 * 60, factor=1)


def test_queue_statistics_read_the_window_only(explain: Explain) -> None:
    plan = explain(sql.QUEUE_STATISTICS, {"window": timedelta(minutes=1)})

    assert_good(plan, "jobqueue_stat_fold", "jobqueue_stat_bucket", limit=16 * 60, factor=1)


def test_the_trend_reads_the_window_only(explain: Explain) -> None:
    starts = [timezone.now() - timedelta(minutes=1)]
    plan = explain(sql.TREND, {"starts": starts, "times": True})

    assert_good(plan, "jobqueue_stat_fold", "jobqueue_stat_bucket", limit=16 * 60, factor=1)


def test_the_costs_of_today_are_found_by_their_time(explain: Explain) -> None:
    """Of 20,000 rows, one a second, those of less than an hour: the day has just begun, somewhere."""
    hour = timezone.now().hour
    zone = f"Etc/GMT+{hour}" if hour <= 12 else f"Etc/GMT-{24 - hour}"
    plan = explain(sql.TODAY_COSTS, {"zone": zone, "names": ["a"]})

    assert plan.touched <= 3600 + 1, plan
    assert "jobqueue_cost" not in plan.scanned_whole, plan


def test_the_whole_snapshot_scans_no_table_and_stops_at_the_caps(
    full_table: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case C143: 40,000 jobs wait, of which it looks at no more than it counts."""
    for module, name in ((reading, "EACH"), (reading, "TOTAL")):
        monkeypatch.setattr(module, name, timedelta(seconds=60))
    monkeypatch.setattr(limited, "LOCK_MILLISECONDS", 5_000)
    monkeypatch.setattr(counts, "COUNT_CAP", CAP)
    monkeypatch.setattr(queue_figures, "NEWEST", CAP)
    plans: dict[str, Plan] = {}

    with connection.execute_wrapper(explaining(plans)):
        taken = Job.objects.ops()

    assert taken.unknown == frozenset()
    assert {"pending", "scheduled", "dead"} <= taken.capped
    for statement, plan in plans.items():
        assert plan.scanned_whole & TABLES == set(), f"{statement}{plan}"
    of_jobs = {statement: touched(plan) for statement, plan in plans.items()}
    # The running ones are few, and looked at one by one for stuck ones.
    assert sum(of_jobs.values()) <= 12 * (CAP + 1) + 2 * 400, of_jobs


def test_what_failed_attempts_cost_reads_each_of_their_jobs_by_its_key(full_table: None) -> None:
    """Joined, the server walks through all jobs up to the newest one that failed."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO jobqueue_attempt (job_id, lease_epoch, number, worker_id, finished_at, outcome, cost)"
            " SELECT id, 1_000_000, 1, 'w', statement_timestamp(), 2, 1 FROM jobqueue_job WHERE id %% 10 = 0",
            [],
        )
        failed = cursor.rowcount
        cursor.execute("ANALYZE jobqueue_attempt")
    plans: dict[str, Plan] = {}

    with connection.execute_wrapper(explaining(plans)):
        (_, *_) = retry_costs(timedelta(hours=1))

    plan = next(iter(plans.values()))
    of_jobs = Plan([node for node in plan.nodes if node.get("Relation Name") == "jobqueue_job"])
    assert failed > 1_000
    assert of_jobs.touched == failed, plan


def touched(plan: Plan) -> int:
    """Return how many rows of jobs and attempts were read."""
    return Plan(
        [node for node in plan.nodes if node.get("Relation Name") in ("jobqueue_job", "jobqueue_attempt")]
    ).touched


def explaining(plans: dict[str, Plan]) -> Callable[..., Any]:
    """Return the wrapper that keeps the plan of each statement that reads something."""

    def execute(run: Any, statement: str, params: Any, many: bool, context: Any) -> Any:
        words = "\n".join(line for line in statement.splitlines() if not line.lstrip().startswith("--")).split()
        if words[0] in ("SELECT", "WITH") and not statement.lstrip().startswith("SELECT set_config"):
            with connection.connection.cursor() as cursor:
                cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}", params)
                found = cursor.fetchone()[0]
            found = found if isinstance(found, list) else json.loads(found)
            plans[f"{len(plans)} {statement[:200]}"] = Plan(flat(found[0]["Plan"]))
        return run(statement, params, many, context)

    return execute
