"""Provoke an alert in the demo: `manage.py demo_provoke NAME`. See docs/alerts.md."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection, transaction
from django.utils import timezone

from jobqueue import operations
from jobqueue.models import Job, Worker
from jobqueue.states import Status

ACTOR = "demo_provoke"
LONG_AGO = timedelta(hours=1)


def deadline_1h(_seconds: float) -> str:
    """Have five jobs run longer than they may."""
    Job.objects.enqueue_many([("demo.overrun", {})] * 5)
    return "five jobs enqueued that take longer than their second"


def dead_1h(_seconds: float) -> str:
    """Have a job die, with a password in its error."""
    Job.objects.enqueue("demo.fail", {"password": "hunter2"})  # to see it masked  # nosec B105
    return "a job enqueued that dies at once; its error holds a password, which the alert masks"


def cost_1h_usd(_seconds: float) -> str:
    """Spend a dollar."""
    Job.objects.enqueue("demo.spend", {"amount": "1.00"})
    return "a job enqueued that costs 1 USD"


def budget_80(_seconds: float) -> str:
    """Spend 1.70 of the demo's budget of 2 USD an hour."""
    Job.objects.enqueue("demo.spend", {"amount": "1.70"})
    return "a job enqueued that costs 1.70 of the 2 USD an hour that the demo's budget allows for its type"


def budget_100(_seconds: float) -> str:
    """Spend all of the demo's budget of 2 USD an hour."""
    Job.objects.enqueue("demo.spend", {"amount": "2.00"})
    return "a job enqueued that costs all of the demo's budget of 2 USD an hour"


def failure_rate(_seconds: float) -> str:
    """Have thirty jobs of one type fail."""
    Job.objects.enqueue_many([("demo.fail", {})] * 30)
    return "thirty jobs enqueued that fail"


def stuck_running(_seconds: float) -> str:
    """Run a job, and have it look as if it had begun long ago."""
    job = Job.objects.enqueue("demo.sleep", {"seconds": 120})
    assert job is not None
    _wait(lambda: Job.objects.filter(pk=job.pk, status=Status.RUNNING).exists(), "a worker to run the job")
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE jobqueue_job SET claimed_at = claimed_at - interval '1 day',"
            " run_started_at = run_started_at - interval '1 day' WHERE id = %s",
            [job.pk],
        )
    return f"job {job.pk} runs, and looks as if it had begun a day ago until its lease is renewed"


def oldest_pending_sec(seconds: float) -> str:
    """Fill all slots, and have jobs wait that were due an hour ago."""
    slots = sum(Worker.objects.values_list("slots", flat=True)) or 1
    due = timezone.now() - LONG_AGO
    jobs = [{"job_type": "demo.sleep", "payload": {"seconds": seconds}, "run_after": due}] * (slots * 3 + 3)
    Job.objects.enqueue_many(jobs)
    return f"{len(jobs)} jobs enqueued that were due an hour ago and take {seconds:g} s each"


def queue_without_worker(_seconds: float) -> str:
    """Leave a job in a queue; whoever serves all queues has to be stopped for it."""
    Job.objects.enqueue("demo.sleep", {"seconds": 0}, queue="emial")
    return (
        "a job enqueued to the queue 'emial'. A worker that serves all queues takes it: stop the worker, and run"
        " manage.py jobqueue_alerts twice, a minute apart"
    )


def worker_silent(_seconds: float) -> str:
    """Start a worker, and kill it."""
    arguments = [sys.executable, "manage.py", "runworker", "--name", "provoked", "--queues", "provoked"]
    worker = subprocess.Popen(arguments, cwd=settings.BASE_DIR, stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        _wait(lambda: Worker.objects.filter(name="provoked", pid=worker.pid).exists(), "the worker to register")
    finally:
        os.kill(worker.pid, signal.SIGKILL)
        worker.wait()
    return "a worker was started and killed; it is missed after half a lease (a minute), and forgotten after ten leases"


def oldest_snapshot_sec(seconds: float) -> str:
    """Hold a snapshot, as a forgotten psql does."""
    print(f"a snapshot is held for {seconds:g} s; Ctrl-C ends it", flush=True)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        cursor.execute("SELECT count(*) FROM jobqueue_worker")
        time.sleep(seconds)
    return "the snapshot is given back"


def queue_paused_sec(_seconds: float) -> str:
    """Pause a queue, and have it look as if that had been two days ago."""
    operations.pause_queue("demo-paused", actor=ACTOR, reason="to show the alert")
    with connection.cursor() as cursor:
        cursor.execute("UPDATE jobqueue_queue SET paused_at = paused_at - interval '2 days' WHERE name = 'demo-paused'")
    return "the queue 'demo-paused' is paused; manage.py jobqueue_queue resume demo-paused ends it"


def figures_unknown(seconds: float) -> str:
    """Hold a lock on a table that figures are read from."""
    print(f"the costs are locked for {seconds:g} s; Ctrl-C ends it", flush=True)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("LOCK TABLE jobqueue_cost IN ACCESS EXCLUSIVE MODE")
        time.sleep(seconds)
    return "the lock is given back"


def gauge(_seconds: float) -> str:
    """Measure too few ports, and count blocked sessions."""
    Job.objects.enqueue("demo.measure", {"ports": 27, "blocked": 80})
    return "a job enqueued that sets the gauge demo_ports_pct to 27 and counts 80 demo_sessions{end_reason=block}"


PROVOKERS: dict[str, Callable[[float], str]] = {
    one.__name__: one
    for one in (
        *(deadline_1h, dead_1h, cost_1h_usd, budget_80, budget_100, failure_rate, stuck_running, oldest_pending_sec),
        *(queue_without_worker, worker_silent, oldest_snapshot_sec, queue_paused_sec, figures_unknown, gauge),
    )
}


def _wait(look: Callable[[], bool], what: str) -> None:
    give_up = time.monotonic() + 30
    while not look():
        if time.monotonic() > give_up:
            raise CommandError(f"waited for {what}, in vain: does a worker run?")
        time.sleep(0.1)


class Command(BaseCommand):
    """Provoke one alert."""

    help = "Provoke an alert, named as its rule: do so in the demo only."

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the name and the time."""
        parser.add_argument("name", choices=sorted(PROVOKERS))
        parser.add_argument("--seconds", type=float, default=660, help="how long what is held is held (660)")

    def handle(self, *args: Any, **options: Any) -> None:
        """Provoke it."""
        self.stdout.write(PROVOKERS[options["name"]](options["seconds"]))
