"""What the snapshot of a big table costs: each of its callers has a look of its own, as with one a second."""

from __future__ import annotations

import time
from typing import Final

from benchmarks import database, figures, seeding
from benchmarks.figures import Figure
from benchmarks.jobs import NOTHING
from benchmarks.plan import Plan, say
from benchmarks.sampling import take

LOOKS = 50
QUEUES, TYPES, WORKERS = 20, 20, 50
BAR = 50.0

#: Due jobs of 20 queues, some running, attempts of the dead ones, workers, and the statistics of a day.
QUEUED: Final = f"""
INSERT INTO jobqueue_job (job_type, queue, priority, payload, payload_bytes, run_after)
SELECT %s, 'queue-' || n %% {QUEUES}, 90 + n %% 3, jsonb_build_object('number', n, 'text', %s::text), 80,
       statement_timestamp() - make_interval(secs => n / 100.0)
  FROM generate_series(%s, 1, -1) AS n
"""
OTHERS: Final = (
    f"""
INSERT INTO jobqueue_job (job_type, queue, status, attempts, lease_epoch, worker_id, claimed_at, run_started_at,
                          lease_until)
SELECT '{NOTHING}', 'queue-' || n %% {QUEUES}, 2, 1, 1, 'worker-' || n %% {WORKERS}, statement_timestamp(),
       statement_timestamp(), statement_timestamp() + interval '1 minute' FROM generate_series(1, 400) AS n
""",
    """
INSERT INTO jobqueue_attempt (job_id, lease_epoch, number, worker_id, claimed_at, started_at, finished_at, outcome)
SELECT id, 1, 1, 'earlier', claimed_at, claimed_at, statement_timestamp() - random() * interval '1 day',
       CASE WHEN id %% 20 = 0 THEN 3 ELSE 2 END
  FROM jobqueue_job WHERE status = 4
""",
    f"""
INSERT INTO jobqueue_worker (worker_id, name, hostname, pid, queues, job_types, slots, jobs_ended, memory_bytes, gauges)
SELECT 'worker-' || n, 'worker-' || n, 'host', n, ARRAY['*'], ARRAY[]::text[], 8, 1000, 100000000,
       '[{{"name": "ports", "labels": {{}}, "value": 27}}]' FROM generate_series(1, {WORKERS}) AS n
""",
    f"""
INSERT INTO jobqueue_stat (at, span_seconds, queue, job_type, outcome, jobs, dead, wait_seconds, run_seconds,
                           cpu_seconds, wait_counts, run_counts)
SELECT date_trunc('minute', statement_timestamp()) - (number + 1) * span, extract(epoch FROM span),
       'queue-' || type %% {QUEUES}, 'type-' || type, outcome, 1000, 0, 100, 100, 50,
       array_fill(40::bigint, ARRAY[24]), array_fill(40::bigint, ARRAY[24])
  FROM (SELECT interval '15 minutes' AS span, generate_series(0, 95) AS number
        UNION ALL SELECT interval '1 minute', generate_series(0, 75)) AS spans,
       generate_series(1, {TYPES}) AS type, generate_series(1, 2) AS outcome
""",
    """
INSERT INTO jobqueue_cost (at, span_seconds, queue, job_type, owner, component, unit, amount)
SELECT at, span_seconds, queue, job_type, '', '', 'USD', 0.01 FROM jobqueue_stat WHERE outcome = 1
""",
)


def measure(plan: Plan) -> list[Figure]:
    """Return the figure of the snapshot beside three million jobs."""
    rows = {
        seeding.FINISHED: plan.size(2_000_000),
        seeding.DEAD: plan.size(100_000),
        seeding.SCHEDULED: plan.size(800_000),
        QUEUED: plan.size(100_000),
    }
    with database.connect() as connection:
        database.empty(connection)
        seeding.fill(connection, rows)
        for statement in OTHERS:
            connection.execute(statement.replace("%%", "%").encode())
        for table in database.TABLES.split(", "):
            database.settle_down(connection, table)
        say("snapshot: tables filled")
        samples = take(plan, "snapshot", _looks)
        database.empty(connection)
    jobs = sum(rows.values())
    partly = f"{samples.median('partly unknown, %'):.0f} % of the looks left something unknown"
    return [
        Figure(
            row="snapshot",
            work=f"Job.objects.ops(fresh=True) beside {jobs:,} jobs, {rows[QUEUED]:,} of them due in {QUEUES} queues",
            value=samples.median("median"),
            unit="ms",
            bar=BAR,
            better="lower",
            product=figures.milliseconds(samples.values["median"]),
            samples=samples.values,
            notes=[f"the 95th percentile: {figures.milliseconds(samples.values['p95'])}", partly],
            noise=samples.noise,
        )
    ]


def _looks() -> dict[str, float]:
    """Take snapshots one after the other.

    Returns the median and the 95th percentile, in milliseconds, and the share of looks that left something unknown.
    """
    from jobqueue.models import Job

    taken, partial = [], 0
    for _ in range(LOOKS):
        began = time.perf_counter()
        snapshot = Job.objects.ops(fresh=True)
        taken.append(1000 * (time.perf_counter() - began))
        assert not snapshot.error, snapshot.error
        partial += bool(snapshot.unknown)
    return {
        "median": figures.median(taken),
        "p95": figures.percentile(taken, 0.95),
        "partly unknown, %": 100 * partial / LOOKS,
    }
