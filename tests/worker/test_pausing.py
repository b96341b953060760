"""Real workers and paused queues: nothing of them is run, nobody spins over them, a resume is noticed at once."""

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from jobqueue import operations
from jobqueue.models import Job, Worker
from jobqueue.states import Status
from tests.factories import JobFactory
from tests.worker import processes
from tests.worker.launching import RunningWorker

from .waiting import holds_for, until

Launch = Callable[..., RunningWorker]
Enqueue = Callable[..., Job]
WaitFor = Callable[..., Any]

IDLE_SECONDS = 3.0


def test_a_paused_queue_waits_while_others_go_on_and_resumes_at_once(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor
) -> None:
    operations.pause_queue("mail", actor="test")
    # With a poll that long only the wake-up of the resume can be in time.
    launch("--queues", "*", POLL_SECONDS=60, MAINTENANCE_SECONDS=60, LEASE_SECONDS=120)
    waiting, other = enqueue("ok", _queue="mail"), enqueue("ok")
    wait_for(other)
    assert Job.objects.get(pk=waiting.pk).status == Status.PENDING

    operations.resume_queue("mail", actor="test")

    wait_for(waiting, within=5)


def test_a_pause_stops_a_busy_worker_after_the_job_it_has(launch: Launch, enqueue: Enqueue, wait_for: WaitFor) -> None:
    launch("--processes", "1")
    running = enqueue("sleep", seconds=1.5)
    wait_for(running, Status.RUNNING)

    operations.pause_queue("default", actor="test")
    waiting = enqueue("ok")

    wait_for(running)
    holds_for(1.0, lambda: Job.objects.get(pk=waiting.pk).status == Status.PENDING, what="the paused job waits")


@pytest.mark.faults
def test_a_pause_that_runs_out_needs_nobody(launch: Launch, enqueue: Enqueue, wait_for: WaitFor) -> None:
    operations.pause_queue("*", actor="test", until=timezone.now() + timedelta(seconds=6))
    job = enqueue("ok")
    # With a poll that long only the wake-up by maintenance can be in time.
    launch("--queues", "*", POLL_SECONDS=60, LEASE_SECONDS=120)

    done = wait_for(job)

    assert done.run_started_at - done.created_at > timedelta(seconds=5)


@pytest.mark.parametrize("queues", ["default,mail", "*"])
def test_a_worker_over_a_paused_backlog_sleeps_until_the_poll(launch: Launch, queues: str) -> None:
    """With 100 due jobs that nobody may run: two claims a second, hardly any CPU, not one line of log."""
    for queue in ("mail", "default"):
        JobFactory.create_batch(50, queue=queue)
    operations.pause_queue("*", actor="test")
    worker = launch("--queues", queues, "--no-maintenance", POLL_SECONDS=0.5)
    until(lambda: Worker.objects.filter(idle_since__isnull=False).exists(), what="the worker marks itself idle")
    lines, cpu, before = len(worker.log.splitlines()), processes.cpu_seconds(worker.pid), statements()

    # No look at the database: it would be counted.
    holds_for(IDLE_SECONDS, lambda: worker.code is None, what="the worker lives")

    made, used = statements() - before, processes.cpu_seconds(worker.pid) - cpu
    assert Job.objects.filter(status=Status.PENDING).count() == 100
    assert used < 0.15 * IDLE_SECONDS
    assert len(worker.log.splitlines()) == lines, worker.log
    # A poll is a claim, and with * a look for queues: about six a second, and what others told late of themselves. A
    # loop that does not sleep makes two hundred.
    assert made < 60 * IDLE_SECONDS


def statements() -> int:
    """Return how many transactions this database has committed."""
    row = Job.objects.run_sql(
        "SELECT pg_stat_force_next_flush(), xact_commit FROM pg_stat_database WHERE datname = current_database()", {}
    )
    return int(row[0][1])


def test_a_worker_that_drains_ends_although_a_paused_queue_is_not_empty(
    launch: Launch, enqueue: Enqueue, status: Callable[[Job], Status]
) -> None:
    operations.pause_queue("mail", actor="test")
    waiting, other = enqueue("ok", _queue="mail"), enqueue("ok")

    worker = launch("--queues", "*", "--drain", wait=False)

    assert worker.ends() == 0
    assert (status(waiting), status(other)) == (Status.PENDING, Status.DONE)
    assert not re.search(r"WARNING|ERROR", worker.log)
