"""Bulk enqueues and what retention deletes. Big tables: test_big_table.py."""

import subprocess
import sys
import time
from collections.abc import Callable
from decimal import Decimal

import pytest
from django.db import connection
from django.db.models import Sum

from jobqueue.models import Attempt, Cost, Job
from jobqueue.states import Status
from tests.factories import AttemptFactory, CostFactory, JobFactory, ago
from tests.worker.kinds import Enqueue, Launch
from tests.worker.launching import ROOT
from tests.worker.waiting import until

from .clients import BulkEnqueuer
from .measured import Recovery

MANY = 100_000
DAY = 86_400


def idle(launch: Launch) -> None:
    """Have a worker that sleeps and wants to be woken, and would not look by itself for a while."""
    launch("--processes", "2", POLL_SECONDS=30, LEASE_SECONDS=60)
    asleep = "SELECT count(*) FROM jobqueue_worker WHERE idle_since IS NOT NULL"
    until(lambda: counted(asleep) == 1, what="a worker that sleeps")


def counted(query: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(query)
        return int(cursor.fetchone()[0])


@pytest.mark.parametrize("keyed", [False, True], ids=["without keys", "with keys"])
def test_a_hundred_thousand_are_enqueued_at_once(
    keyed: bool, launch: Launch, heard: Callable[[], list[str]], recovery: Recovery
) -> None:
    """C110: within 20 s, all or nothing, in the order given, with one wake-up, which the worker hears."""
    idle(launch)
    heard()
    specs = [
        {"job_type": "probe.ok", "payload": {"n": n}, "dedupe_key": f"key-{n}" if keyed else None} for n in range(MANY)
    ]
    began = time.monotonic()
    jobs = Job.objects.enqueue_many(specs)
    seconds, what = time.monotonic() - began, "with" if keyed else "without"
    recovery(f"enqueue_many of {MANY:,}, {what} keys", seconds, within=40 if keyed else 20)

    assert heard() == ["default"]
    ids = [job.pk for job in jobs if job]
    assert (len(ids), ids) == (MANY, sorted(set(ids)))
    assert [job.payload["n"] for job in jobs if job] == list(range(MANY))
    taken = Job.objects.exclude(status=Status.PENDING)
    until(lambda: taken.count() > 100, within=5, what="the worker at work, long before its next poll")
    assert Job.objects.count() == MANY
    Job.objects.filter(status=Status.PENDING).delete()


def test_bulk_enqueues_in_opposite_order_never_deadlock(
    launch: Launch, worker_env: dict[str, str], recovery: Recovery
) -> None:
    """C111: two processes, the same 400 keys up and down, while workers finish them: nobody is a deadlock's victim.

    By the server's own count; and each job that was made is done, by one run.
    """
    for _ in range(4):
        launch("--processes", "2")
    deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    before = counted(deadlocks)
    # Upper and lower case, where a linguistic collation and the order of the bytes disagree.
    keys = [f"{letter}{number:03}" for number in range(100) for letter in "aBcD"]

    up, down = (BulkEnqueuer(worker_env, order, seconds=15) for order in (keys, keys[::-1]))
    counts = [enqueuer.ends(within=60) for enqueuer in (up, down)]

    made, refused = (sum(values) for values in zip(*counts, strict=True))
    assert min(made, refused) > 400, counts
    until(lambda: Job.objects.filter(status=Status.DONE).count() == made, within=30, what=f"all {made} done")
    assert not Job.objects.exclude(attempts=1).exists()
    recovery("deadlocks of 15 s of bulk enqueues in opposite order", counted(deadlocks) - before, within=0, unit="")


def prune(environment: dict[str, str], *arguments: str) -> list[list[str]]:
    """Run `manage.py jobqueue_prune` with other retentions than the defaults; returns the words of its lines."""
    done = subprocess.run(
        [sys.executable, "manage.py", "jobqueue_prune", *arguments],
        cwd=ROOT,
        env={
            **environment,
            "JOBQUEUE_RETENTION_DONE_SECONDS": str(DAY),
            "JOBQUEUE_RETENTION_CANCELLED_SECONDS": "3600",
        },
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return [line.split() for line in done.stdout.splitlines()]


def totals() -> dict[str, Decimal]:
    """Return the costs by component, and with them the part that is older than any retention."""
    by_component = Cost.objects.values_list("component").annotate(total=Sum("amount")).order_by("component")
    return dict(by_component)


@pytest.mark.short
def test_retention_deletes_by_status_and_age_and_nothing_else(worker_env: dict[str, str], enqueue: Enqueue) -> None:
    """C109: jobs of every status on both sides of both limits; a dry run first, which counts the same and deletes none.

    A dead letter that nobody has looked at stays however old it is, and so does what holds a key; no cost changes.
    """
    gone: list[int] = []
    kept: list[int] = []
    for status in Status:
        for age in (3600 - 60, 3600 + 60, DAY - 60, DAY + 60, 100 * DAY):
            finished = status in (Status.DONE, Status.DEAD, Status.CANCELLED)
            job = JobFactory.create(
                status=status,
                finished_at=ago(age) if finished else None,
                created_at=ago(age),
                run_after=ago(age),
                lease_until=ago(-600) if status == Status.RUNNING else None,
                dedupe_key=f"{status.name}-{age}",
            )
            AttemptFactory.create(job=job)
            CostFactory.create(at=ago(age), component=status.name, owner=f"owner-{age}")
            limit = {Status.DONE: DAY, Status.CANCELLED: 3600}.get(status)
            (gone if limit is not None and age > limit else kept).append(job.pk)
    before, columns = totals(), ("at", "queue", "job_type", "owner", "component", "unit", "amount")
    rows = list(Cost.objects.order_by("pk").values_list(*columns))

    dry = prune(worker_env, "--dry-run")
    assert dry == [["done", "2"], ["cancelled", "4"], ["all", "6", "would", "be", "deleted"]]
    assert Job.objects.count() == len(gone) + len(kept)
    real = prune(worker_env)

    assert real == [["done", "2"], ["cancelled", "4"], ["all", "6", "deleted"]]
    assert set(Job.objects.values_list("pk", flat=True)) == set(kept)
    assert set(Attempt.objects.values_list("job_id", flat=True)) == set(kept)
    assert (totals(), list(Cost.objects.order_by("pk").values_list(*columns))) == (before, rows)
    assert Job.objects.enqueue("probe.ok", {}, dedupe_key=f"PENDING-{100 * DAY}") is None
