"""Each hot statement on a full table: the index by name, no sequential scan, at most 4 rows touched for each wanted."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from jobqueue import sql
from jobqueue.managers import CostLine, Done, Ending, Release, Span, leasing, moving, settling
from jobqueue.outcomes import Outcome
from jobqueue.states import Status
from tests.plans.explaining import Plan, planned

# Without it these tests alone would run on the database of the project: pytest-django makes one for those that ask.
pytestmark = pytest.mark.django_db

Explain = Callable[..., Plan]
Ids = Callable[[int, int], list[int]]

LEASE = timedelta(seconds=60)
LIMIT = 50
TABLES = {"jobqueue_job", "jobqueue_attempt", "jobqueue_stat", "jobqueue_cost", "jobqueue_counter"}


def assert_good(plan: Plan, *indexes: str, limit: int = LIMIT, factor: int = 4) -> None:
    assert set(indexes) <= plan.indexes, plan
    assert plan.scanned_whole & TABLES == set(), plan
    assert plan.touched <= factor * limit, f"{plan.touched} rows touched for {limit}{plan}"


def test_claim(explain: Explain) -> None:
    """Case C105: a claim reads no row that it does not claim."""
    plan = planned(explain, leasing.claim, spans=[Span("q1", LIMIT)], worker_id="w", lease=LEASE)

    assert_good(plan, "jobqueue_job_claim", factor=2)


def test_claim_of_several_queues(explain: Explain) -> None:
    spans = [Span(f"q{number}", LIMIT) for number in range(4)]

    plan = planned(explain, leasing.claim, spans=spans, worker_id="w", lease=LEASE, total=LIMIT)

    assert_good(plan, "jobqueue_job_claim")


def test_claim_behind_a_floor(explain: Explain) -> None:
    """The floor is a condition of the index, not a filter: what lies before it is not read."""
    behind = Span("q1", LIMIT, 91, "2000-01-01 00:00:00+00", 0, top=91)
    better = Span("q1", LIMIT, top=90)

    plan = planned(explain, leasing.claim, spans=[better, behind], worker_id="w", lease=LEASE, total=2 * LIMIT)

    assert_good(plan, "jobqueue_job_claim", limit=2 * LIMIT, factor=2)
    assert sum(node.get("Rows Removed by Filter", 0) for node in plan.nodes) == 0, plan


def test_claim_of_a_slice_that_ends_at_an_instant(explain: Explain) -> None:
    """A sweep looks at one slice of run_after: rows behind its end are not read."""
    span = Span("q1", LIMIT, top=90, until="2000-01-01 00:00:00+00")

    plan = planned(explain, leasing.claim, spans=[span], worker_id="w", lease=LEASE)

    assert_good(plan, "jobqueue_job_claim", limit=1)


def test_claim_of_a_queue_without_due_jobs(explain: Explain) -> None:
    plan = planned(explain, leasing.claim, spans=[Span("empty", LIMIT)], worker_id="w", lease=LEASE)

    assert_good(plan, "jobqueue_job_claim", limit=1)


def test_claim_reads_and_locks_nothing_of_a_paused_queue(explain: Explain, pause: Callable[[str], None]) -> None:
    """The poll of a worker over a backlog that nobody may run costs next to nothing, and locks no row of it."""
    pause("q1")

    plan = planned(explain, leasing.claim, spans=[Span("q1", LIMIT)], worker_id="w", lease=LEASE)

    assert [node for node in plan.nodes if node.get("Relation Name") == "jobqueue_job" and node["Actual Rows"]] == []
    assert plan.blocks <= 5, plan


def test_claim_beside_paused_queues(explain: Explain, pause: Callable[[str], None]) -> None:
    for number in range(30):
        pause(f"other{number}")

    plan = planned(explain, leasing.claim, spans=[Span("q1", LIMIT)], worker_id="w", lease=LEASE)

    assert_good(plan, "jobqueue_job_claim", limit=LIMIT + 15, factor=2)  # each of those rows, once


def test_settle_done(explain: Explain, ids: Ids) -> None:
    jobs = [Done(job_id, 1) for job_id in ids(Status.RUNNING, LIMIT)]

    plan = planned(explain, settling.settle_done, worker_id="worker-1", jobs=jobs)

    assert_good(plan, "jobqueue_job_pkey")
    assert "jobqueue_job_running" not in plan.indexes, "settling by that index took six times as long"


def test_settle_ended(explain: Explain, ids: Ids) -> None:
    endings = [Ending(job_id, 1, Outcome.FAILED) for job_id in ids(Status.RUNNING, LIMIT)]

    plan = planned(explain, settling.settle_ended, worker_id="worker-1", endings=endings)

    assert_good(plan, "jobqueue_job_pkey")
    assert "jobqueue_job_running" not in plan.indexes


def test_renew(explain: Explain, ids: Ids) -> None:
    held = [(job_id, 1, 1.0) for job_id in ids(Status.RUNNING, LIMIT)]

    plan = planned(explain, leasing.renew, worker_id="worker-1", held=held, lease=LEASE)

    assert_good(plan, "jobqueue_job_pkey")


def test_release(explain: Explain, ids: Ids) -> None:
    releases = [Release(job_id, 1) for job_id in ids(Status.RUNNING, LIMIT)]

    plan = planned(explain, leasing.release, worker_id="worker-1", releases=releases)

    assert_good(plan, "jobqueue_job_pkey")


def test_release_of_strays_reads_the_running_jobs_only(explain: Explain) -> None:
    plan = planned(explain, leasing.release_strays, worker_id="worker-1", held=[])

    assert_good(plan, "jobqueue_job_running", limit=400)


def test_progress(explain: Explain, ids: Ids) -> None:
    progress = {(job_id, 1): {"percent": 5} for job_id in ids(Status.RUNNING, LIMIT)}

    plan = planned(explain, leasing.write_progress, worker_id="worker-1", progress=progress)

    assert_good(plan, "jobqueue_job_pkey")


def test_costs_so_far(explain: Explain, ids: Ids) -> None:
    costs = {(job_id, 1): [CostLine("llm", "USD", Decimal("0.10"))] for job_id in ids(Status.RUNNING, LIMIT)}

    plan = planned(explain, leasing.write_costs, worker_id="worker-1", costs=costs)

    assert_good(plan, "jobqueue_job_pkey")


def test_the_costliest_jobs(explain: Explain) -> None:
    """One that cost something of 60,000: those that cost nothing are not read."""
    since = datetime(2000, 1, 1, tzinfo=UTC)

    plan = explain(sql.COSTLIEST_JOBS, {"since": since, "window": None, "take": 20, "reach": 10_000})

    assert_good(plan, "jobqueue_job_cost", limit=1)


def test_complete_inside(explain: Explain, ids: Ids) -> None:
    params = {"id": ids(Status.RUNNING, 1)[0], "worker_id": "worker-1", "lease_epoch": 1, "result": "{}"}
    plan = explain(sql.COMPLETE_JOB, params | {"run_seconds": 0.0, "cpu_seconds": 0.0, "cost": "0", "cost_lines": "[]"})

    assert_good(plan, "jobqueue_job_pkey", limit=1)


def test_reap_reads_the_running_jobs_only(explain: Explain) -> None:
    """400 run, 50 of them have expired: what finished or waits is not read."""
    plan = planned(explain, moving.reap, limit=LIMIT)

    assert_good(plan, "jobqueue_job_running", limit=400, factor=2)


def test_promote(explain: Explain) -> None:
    """Case C105: of 20,000 scheduled jobs the few that are due."""
    plan = planned(explain, moving.promote, limit=LIMIT)

    assert_good(plan, "jobqueue_job_scheduled", factor=2)


def test_the_next_due_time(explain: Explain) -> None:
    plan = planned(explain, moving.seconds_to_next_due, rows=(1.0,))

    assert_good(plan, "jobqueue_job_scheduled", limit=1)


def test_cancel(explain: Explain, ids: Ids) -> None:
    chosen = [*ids(Status.PENDING, 20), *ids(Status.RUNNING, 20), *ids(Status.SCHEDULED, 10)]

    plan = planned(explain, moving.cancel, ids=chosen, reason="")

    assert_good(plan, "jobqueue_job_pkey")


def test_redrive(explain: Explain, ids: Ids) -> None:
    plan = planned(explain, moving.redrive, ids=ids(Status.DEAD, LIMIT), spread=timedelta(0))

    assert_good(plan, "jobqueue_job_pkey")


def test_discard(explain: Explain, ids: Ids) -> None:
    plan = planned(explain, moving.discard, ids=ids(Status.DEAD, LIMIT), reason="")

    assert_good(plan, "jobqueue_job_pkey")


def test_the_blockers_of_a_redrive(explain: Explain, ids: Ids) -> None:
    plan = explain(sql.BLOCKED_REDRIVES, {"ids": ids(Status.DEAD, LIMIT)})

    assert_good(plan, "jobqueue_job_pkey")


@pytest.mark.parametrize("status", [Status.DONE, Status.CANCELLED, Status.DEAD])
def test_prune(status: Status, explain: Explain) -> None:
    """Case C108: a batch costs the same whatever stands behind it; attempts go by their index."""
    plan = planned(explain, moving.prune, status=status, age=timedelta(0), limit=LIMIT)

    assert_good(plan, "jobqueue_job_finished", "jobqueue_attempt_run")


def test_the_queues_with_due_jobs(explain: Explain) -> None:
    """One entry of the index a queue, of 20,000."""
    plan = explain(sql.PENDING_QUEUES, {})

    assert_good(plan, "jobqueue_job_claim", limit=5)


def test_the_age_of_the_oldest_due_job(explain: Explain) -> None:
    """One entry of the index a queue and priority: 4 x 3 of 20,000."""
    plan = explain(sql.OLDEST_PENDING, {})

    assert_good(plan, "jobqueue_job_claim", limit=13)


def test_counting_with_a_cap_stops_there(explain: Explain) -> None:
    """Case C126: six statuses, none counted beyond the cap."""
    plan = explain(sql.COUNT_JOBS, {"cap": 100})

    assert plan.touched <= 6 * 100, plan
    assert plan.scanned_whole == set(), plan


def test_the_state_of_refused_settles(explain: Explain, ids: Ids) -> None:
    plan = explain(sql.FENCE_STATE, {"ids": ids(Status.DONE, LIMIT)})

    assert_good(plan, "jobqueue_job_pkey")


@pytest.mark.parametrize("table", ["stat", "cost", "counter"])
def test_folding(table: str, explain: Explain) -> None:
    """400 of 20,000 rows are as inserted: a batch of them is found without reading the folded ones."""
    statement = {"stat": sql.FOLD_STATS, "cost": sql.FOLD_COSTS, "counter": sql.FOLD_COUNTERS}[table]

    plan = explain(statement, {"from_span": 0, "to_span": 900, "age": timedelta(0), "take": LIMIT})

    assert_good(plan, f"jobqueue_{table}_fold")


def test_a_sum_of_one_counter_reads_its_own_rows_of_the_window(explain: Explain) -> None:
    """An hour and a quarter of 20,000 seconds, of a hundred names: 45 rows."""
    plan = explain(sql.COUNT_OVER, {"name": "n5", "labels": "{}", "since": None, "window": timedelta(hours=1)})

    assert_good(plan, "jobqueue_counter_name", limit=45, factor=2)


def test_the_sums_of_all_counters_read_the_window_only(explain: Explain) -> None:
    """By the index of the buckets, or by that of names: PostgreSQL 18 skips from name to name in it."""
    plan = explain(sql.COUNTER_SUMS, {"since": None, "window": timedelta(minutes=10)})

    assert_good(plan, limit=25 * 60, factor=2)


def test_pruning_figures(explain: Explain) -> None:
    """A batch of each of three full tables, each row found by one index and deleted by another."""
    plan = planned(explain, moving.prune_figures, age=timedelta(hours=1), limit=LIMIT, rows=(0, 0, 0, 0))

    indexes: tuple[str, ...] = ("jobqueue_stat_bucket", "jobqueue_stat_pkey", "jobqueue_cost_at", "jobqueue_cost_pkey")
    indexes += ("jobqueue_counter_bucket", "jobqueue_counter_pkey")
    assert_good(plan, *indexes, limit=3 * LIMIT, factor=3)


@pytest.mark.parametrize("minutes_ago", [0, 120])
def test_reading_statistics_reads_the_window_only(minutes_ago: int, explain: Explain) -> None:
    """Of 20,000 rows, one a second: those of a minute, and long ones of 15 minutes before, which may reach into it."""
    window = {"since": None, "window": timedelta(minutes=minutes_ago + 1), "until": None}
    ago = {"until_ago": timedelta(minutes=minutes_ago), "starts": ["-infinity"]}
    chosen = {"by_queue": True, "by_type": True, "queue": None, "job_type": None, "times": True}

    plan = explain(sql.READ_STATISTICS, {**window, **ago, **chosen})

    assert_good(plan, "jobqueue_stat_fold", "jobqueue_stat_bucket", limit=16 * 60, factor=1)
