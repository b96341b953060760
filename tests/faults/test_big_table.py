"""The worker's statements, and its work, on a table of 2.6 million jobs; and how such a table is pruned."""

import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction

from jobqueue.managers import Done, Ending, Span, leasing, moving, settling
from jobqueue.models import Attempt, Job
from jobqueue.outcomes import Outcome
from jobqueue.states import Status
from tests.plans.explaining import Kind, Plan, explain, planned
from tests.worker.kinds import Enqueue, Launch
from tests.worker.launching import ROOT
from tests.worker.waiting import until

from .big import OLD, YOUNG
from .measured import Recovery

LEASE = timedelta(seconds=60)
BATCH = 5
MILLISECONDS, BLOCKS = 20, 200
WEEK = timedelta(days=7)
KINDS: tuple[Kind, ...] = ("custom", "generic")


@pytest.fixture
def transactional_db(big_table: None) -> None:
    """Work on the big table."""


def plans(kind: Kind, queue: str) -> dict[str, tuple[Plan, str]]:
    """Return the plan of each statement that workers run all day, and the index that it has to use."""

    def of(verb: Callable[..., Any], **named: Any) -> Plan:
        return planned(lambda statement, params: explain(kind, statement, params), verb, **named)

    with transaction.atomic():
        run = Job.objects.run_sql
        claim = of(leasing.claim, spans=[Span(queue, BATCH)], worker_id="w", lease=LEASE)
        nothing = of(leasing.claim, spans=[Span("empty", BATCH)], worker_id="w", lease=LEASE)
        held = [job.id for job in leasing.claim(run, spans=[Span(queue, BATCH)], worker_id="w", lease=LEASE)]
        ends = [Ending(job_id, 1, Outcome.FAILED) for job_id in held]
        found = {
            "claim": (claim, "jobqueue_job_claim"),
            "claim of an empty queue": (nothing, "jobqueue_job_claim"),
            "renew": (
                of(leasing.renew, worker_id="w", held=[(i, 1, 1.0) for i in held], lease=LEASE),
                "jobqueue_job_pkey",
            ),
            "settle": (of(settling.settle_done, worker_id="w", jobs=[Done(i, 1) for i in held]), "jobqueue_job_pkey"),
            "settle failures": (of(settling.settle_ended, worker_id="w", endings=ends), "jobqueue_job_pkey"),
            "reap": (of(moving.reap, limit=200), "jobqueue_job_running"),
            "promote": (of(moving.promote, limit=1_000), "jobqueue_job_scheduled"),
            "next due": (of(moving.seconds_to_next_due, rows=(1.0,)), "jobqueue_job_scheduled"),
            "prune": (of(moving.prune, status=Status.DONE, age=WEEK, limit=BATCH), "jobqueue_job_finished"),
        }
        transaction.set_rollback(True)
    return found


def check_costs(queue: str, when: str, recovery: Recovery) -> None:
    """Assert what each statement costs; of three runs the quickest counts, as the machine does other things, too."""
    for kind in KINDS:
        looks = [plans(kind, queue) for _ in range(3)]
        quickest = {name: min((look[name] for look in looks), key=lambda one: one[0].milliseconds) for name in looks[0]}
        for name, (plan, index) in quickest.items():
            assert index in plan.indexes, f"{name}: {plan}"
            # A row a queue that was ever paused: none here.
            assert plan.scanned_whole <= {"jobqueue_queue"}, f"{name}: {plan}"
        slowest = max(plan.milliseconds for plan, _ in quickest.values())
        recovery(f"the slowest of nine statements {when}, {kind} plan", slowest, within=MILLISECONDS, unit="ms")
        blocks = max(plan.blocks for plan, _ in quickest.values())
        recovery(f"the largest number of blocks {when}, {kind} plan", blocks, within=BLOCKS, unit="")


def test_statements_cost_the_same_among_millions(launch: Launch, enqueue: Enqueue, recovery: Recovery) -> None:
    """C105: each under 20 ms and 200 blocks, by its index; as loaded, and after four workers have worked there."""
    check_costs("default", "as loaded", recovery)

    for _ in range(4):
        launch("--queues", "default", "--processes", "1", RETENTION_DONE_SECONDS=10**8)
    began = time.monotonic()
    Job.objects.enqueue_many([("probe.ok", {})] * 10_000)
    due = Job.objects.filter(status__in=[Status.PENDING, Status.RUNNING])
    until(lambda: not due.exists(), within=90, what="all of 11,000 jobs done")
    recovery("11,000 jobs by four workers beside 2.6 million rows", time.monotonic() - began, within=90)

    Job.objects.enqueue_many([{"job_type": "probe.ok", "queue": "unserved"}] * 100)
    check_costs("unserved", "after work", recovery)


def prune(environment: dict[str, str], *arguments: str, output: int = subprocess.PIPE) -> "subprocess.Popen[str]":
    """Start `manage.py jobqueue_prune` under a statement timeout of 5 s."""
    return subprocess.Popen(
        [sys.executable, "manage.py", "jobqueue_prune", *arguments],
        cwd=ROOT,
        env={**environment, "PGOPTIONS": "-c statement_timeout=5000"},
        stdout=output,
        stderr=subprocess.STDOUT,
        text=True,
    )


def old_jobs() -> int:
    """Count the jobs that are past their retention."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM jobqueue_job WHERE status IN (3, 4, 7) AND status = 3"
            " AND finished_at < statement_timestamp() - interval '7 days'"
        )
        return int(cursor.fetchone()[0])


def p95_wait(enqueue: Enqueue, jobs: int) -> float:
    """Return the 95th percentile of how long jobs waited that came one after the other."""
    made = []
    for _ in range(jobs):
        made.append(enqueue("ok").pk)
        until(lambda: Job.objects.get(pk=made[-1]).status == Status.DONE, within=20)
    rows = Job.objects.filter(pk__in=made).values_list("claimed_at", "created_at")
    return statistics.quantiles([(claimed - made_at).total_seconds() for claimed, made_at in rows], n=20)[-1]


def test_a_million_old_jobs_are_pruned_in_small_batches_whoever_is_killed(
    launch: Launch, enqueue: Enqueue, worker_env: dict[str, str], recovery: Recovery
) -> None:
    """C108: under a statement timeout, beside four workers, bounded, killed half-way and run again."""
    Job.objects.filter(status=Status.PENDING).delete()
    for _ in range(4):
        launch("--processes", "1", POLL_SECONDS=1)
    before = p95_wait(enqueue, 40)

    bounded = prune(worker_env, "--limit", "2000")
    told, _ = bounded.communicate(timeout=60)
    assert (bounded.returncode, "2000  deleted" in told) == (3, True), told

    first = prune(worker_env, output=subprocess.DEVNULL)
    until(lambda: old_jobs() < OLD * 0.8, within=120, what="a part of them pruned")
    beside = p95_wait(enqueue, 40)
    os.kill(first.pid, signal.SIGKILL)
    first.wait(10)
    left = old_jobs()
    assert 0 < left < OLD, "what was deleted before the kill is committed"

    began = time.monotonic()
    again = prune(worker_env)
    told, _ = again.communicate(timeout=240)
    recovery(f"pruning the other {left / 1e6:.1f} million jobs", time.monotonic() - began, within=240)
    recovery("p95 of the waits beside the prune", beside, within=max(0.5, 10 * before))
    assert (again.returncode, old_jobs()) == (0, 0), told
    assert Job.objects.filter(status=Status.DONE).count() >= YOUNG
    assert not Attempt.objects.filter(lease_epoch=1, worker_id="earlier").exists()
