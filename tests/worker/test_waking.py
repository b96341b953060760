"""How soon a job starts: at once when a worker sleeps, on time when scheduled, at the next poll without hints."""

from datetime import timedelta
from statistics import median

from django.db import connection

from jobqueue.models import Job, Worker
from jobqueue.states import Status

from .kinds import Enqueue, Launch, WaitFor
from .test_outcomes import finished
from .waiting import holds_for, until


def sleepy(launch: Launch, **settings: object) -> None:
    """Start a worker that polls rarely, and wait until it sleeps."""
    launch("--processes", "1", **{"LEASE_SECONDS": 60, "POLL_SECONDS": 30, **settings})
    until(lambda: Worker.objects.filter(idle_since__isnull=False).exists(), what="an idle worker")


def started_after(job: Job) -> float:
    """Return the seconds between the moment a job was due and its handler's start."""
    waited: timedelta = job.run_started_at - job.run_after
    return waited.total_seconds()


def test_an_idle_worker_starts_a_job_at_once(launch: Launch, enqueue: Enqueue, wait_for: WaitFor) -> None:
    """C167: far from its poll, by the hint."""
    sleepy(launch)
    waits = [started_after(wait_for(enqueue("ok"), within=3)) for _ in range(10)]

    assert median(waits) < 0.05
    assert max(waits) < 0.5


def test_a_scheduled_job_starts_when_it_is_due(launch: Launch, enqueue: Enqueue) -> None:
    """Promotion is on time, not at the next tick: within 50 ms of run_after, by an idle worker."""
    sleepy(launch, MAINTENANCE_SECONDS=5)
    jobs = finished([enqueue("ok", _run_after=timedelta(seconds=0.7 + number / 3)) for number in range(6)])

    waits = [started_after(job) for job in jobs]
    assert min(waits) >= -0.001
    assert median(waits) < 0.05
    assert max(waits) < 0.5


def test_without_hints_the_poll_finds_the_job(launch: Launch, enqueue: Enqueue, wait_for: WaitFor) -> None:
    """C167: with NOTIFY off all works, only later."""
    launch("--processes", "1", NOTIFY="off", POLL_SECONDS=0.5)
    for _ in range(3):
        assert started_after(wait_for(enqueue("ok"))) < 1.5
    done = wait_for(enqueue("ok", _run_after=timedelta(seconds=0.5)))
    assert started_after(done) < 1.5


def test_a_worker_whose_row_was_removed_is_woken_again(launch: Launch, enqueue: Enqueue, wait_for: WaitFor) -> None:
    """C167: the mark that asks for hints comes back with the next heartbeat."""
    sleepy(launch, LEASE_SECONDS=12, POLL_SECONDS=10)
    Worker.objects.all().delete()
    until(lambda: Worker.objects.filter(idle_since__isnull=False).exists(), within=12, what="the mark")

    wait_for(enqueue("ok"), within=3)


def test_a_mark_that_a_crash_of_the_server_undid_is_written_again(launch: Launch) -> None:
    """A commit that had not reached the disk: the worker sees a new connection, and marks itself once more."""
    sleepy(launch, POLL_SECONDS=1)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name LIKE 'jobqueue dispatch%'"
        )
    Worker.objects.update(idle_since=None)

    until(lambda: Worker.objects.filter(idle_since__isnull=False).exists(), what="the mark")


def test_a_listener_that_lost_its_connection_listens_again(launch: Launch, enqueue: Enqueue, wait_for: WaitFor) -> None:
    """C60: jobs enqueued meanwhile are found when it is back."""
    sleepy(launch)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name LIKE 'jobqueue listener%'"
        )
    wait_for(enqueue("ok"), within=4)
    wait_for(enqueue("ok"), within=4)


def test_an_idle_worker_is_quiet(launch: Launch) -> None:
    """C72, C115: no transaction is opened again and again, no line is written."""
    worker = launch("--processes", "1", LEASE_SECONDS=60, POLL_SECONDS=1, MAINTENANCE_SECONDS=1)
    lines = worker.log.count("\n")

    holds_for(2, lambda: worker.log.count("\n") == lines, what=worker.log)

    assert not Job.objects.filter(status=Status.RUNNING).exists()


def test_the_notice_of_a_dead_letter_does_not_wait_for_the_poll(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor
) -> None:
    """C167: it is enqueued by the settle, of which nobody is told but the worker that settles."""
    sleepy(launch)
    for _ in range(5):
        dead = wait_for(enqueue("boom", _max_attempts=1), Status.DEAD)
        told = Job.objects.filter(job_type="jobqueue.notify", payload__job_id=dead.pk, status=Status.DONE)
        until(told.exists, within=5, what="the notice")
