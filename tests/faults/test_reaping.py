"""The reaper at its worst moments: lost in the middle of a batch, and at the same time as a late finish."""

import random
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from django.db import connection

from jobqueue.maintenance.reap import BATCH
from jobqueue.managers import Done, moving, settling
from jobqueue.models import Attempt, Job
from jobqueue.outcomes import Outcome
from jobqueue.states import Status
from tests.connections import database_conninfo
from tests.worker.effects import Effects
from tests.worker.kinds import Enqueue, Launch
from tests.worker.waiting import until

from .measured import Recovery
from .test_kills import TICK_SECONDS, database_time


@contextmanager
def standing_still(application_name: str) -> Iterator[None]:
    """Have every update of a job by one of our connections wait until it is cancelled."""
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE FUNCTION stand_still() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN"
            " PERFORM pg_sleep(600); RETURN NEW; END$$"
        )
        cursor.execute(
            "CREATE TRIGGER stand_still BEFORE UPDATE ON jobqueue_job FOR EACH ROW"
            f" WHEN (current_setting('application_name') = '{application_name[:63]}') EXECUTE FUNCTION stand_still()"
        )
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP FUNCTION stand_still() CASCADE")


def waiting_reapers(worker_id: str) -> list[int]:
    """Return the backends of a worker's maintenance that stand still in a statement."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pid FROM pg_stat_activity WHERE application_name = %s AND wait_event = 'PgSleep'",
            [f"jobqueue maintenance {worker_id}"[:63]],
        )
        return [row[0] for row in cursor.fetchall()]


def lose_jobs(count: int) -> None:
    """Insert jobs that were leased to a worker which is gone, in one statement: no reaper sees half of them."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO jobqueue_job (job_type, queue, priority, max_attempts, payload, payload_bytes, status,"
            " attempts, lease_epoch, worker_id, claimed_at, lease_until)"
            " SELECT 'probe.ok', 'default', 100, 3, '{}', 2, 2, 1, 1, 'gone', statement_timestamp() - interval '9 s',"
            " statement_timestamp() - interval '1 s' FROM generate_series(1, %s)",
            [count],
        )


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_another_worker_reaps_when_a_reaper_is_lost_in_its_batch(
    launch: Launch, enqueue: Enqueue, effects: Effects, recovery: Recovery, how: signal.Signals
) -> None:
    """C156: all slots are full; one reaper is killed or stopped while its statement has locked the rows of a batch.

    A trigger has that worker's statement, and no other, stand still at its first row.
    """
    early, first, second = (launch("--processes", "2", STATEMENT_TIMEOUT=4) for _ in range(3))
    early.stop()  # the first of all reapers waits for one lease, the others see that somebody lives
    early.ends()
    for _ in range(4):
        enqueue("mark", seconds=60)
    effects.wait("start", times=4)
    lost = Job.objects.filter(job_type="probe.ok")

    def others() -> list[Job]:
        return list(lost.exclude(status=Status.PENDING)[:5])

    def caught() -> bool:
        """Lose jobs until the first reaper is at a batch of them: the other may have been quicker."""
        if not lost.filter(status=Status.RUNNING).exists():
            lose_jobs(500)
        return bool(waiting_reapers(first.worker_id))

    with standing_still(f"jobqueue maintenance {first.worker_id}"):
        until(caught, what="the first reaper in the middle of its batch")
        count = lost.count()
        first.expected_to_end = how == signal.SIGKILL
        first.signal_tree(how)
        lost_at = database_time()

        back = lost.filter(status=Status.PENDING)
        until(lambda: back.count() == count, within=15, what=lambda: f"all jobs taken back, {others()} are not")

    ended = Attempt.objects.filter(job__in=lost)
    assert ended.count() == count, "each once"
    seconds = (max(ended.values_list("finished_at", flat=True)) - lost_at).total_seconds()
    # What the lost reaper had locked is free when the server ends its statement.
    recovery(f"all reaped after a reaper got {how.name} in its batch", seconds, within=4 + 2 * TICK_SECONDS + 2)
    last_outside = sorted(ended.values_list("finished_at", flat=True))[count - BATCH - 1]
    first_rows = (last_outside - lost_at).total_seconds()
    recovery(f"rows outside of that batch reaped ({how.name})", first_rows, within=2 * TICK_SECONDS + 2)
    assert second.code is None
    first.signal_tree(signal.SIGCONT)
    lost.update(status=Status.CANCELLED, outcome=Outcome.CANCELLED)


@pytest.mark.short
def test_of_a_finish_and_a_reap_at_the_same_time_one_counts(
    transactional_db: None, make_job: Callable[..., Job]
) -> None:
    """C04: 500 jobs, each finished and reaped at the same moment, when its lease has just run out."""
    jobs = [make_job(status=Status.RUNNING) for _ in range(500)]
    together, finishes, reaps = threading.Barrier(2), set[int](), set[int]()

    def finish() -> None:
        with runner() as run:
            for job in jobs:
                together.wait(20)
                _idle(random.random())
                done = Done(job.pk, job.lease_epoch)
                finishes.update(settling.settle_done(run, worker_id=str(job.worker_id), jobs=[done]))

    def reap() -> None:
        with runner() as run:
            for job in jobs:
                run(
                    "UPDATE jobqueue_job SET lease_until = statement_timestamp() - interval '1 s' WHERE id = %(id)s"
                    " AND status = 2",
                    {"id": job.pk},
                )
                together.wait(20)
                _idle(random.random())
                reaps.update(row[0] for row in moving.reap(run, limit=100))

    with ThreadPoolExecutor(2) as threads:
        for side in [threads.submit(finish), threads.submit(reap)]:
            side.result(60)

    assert finishes | reaps == {job.pk for job in jobs}
    assert finishes & reaps == set()
    assert min(len(finishes), len(reaps)) > 10, "both sides have won"
    assert set(Job.objects.filter(status=Status.DONE).values_list("pk", flat=True)) == finishes
    assert set(Job.objects.filter(status=Status.PENDING).values_list("pk", flat=True)) == reaps
    assert sorted(Attempt.objects.values_list("job_id", flat=True)) == sorted(reaps)


@contextmanager
def runner() -> Iterator[Callable[[str, Mapping[str, Any]], list[tuple[Any, ...]]]]:
    """Give a function that runs one statement, on a connection of its own."""
    with psycopg.connect(database_conninfo(), autocommit=True) as raw:

        def run(statement: str, params: Mapping[str, Any]) -> list[tuple[Any, ...]]:
            cursor = raw.execute(statement.encode(), params)
            return cursor.fetchall() if cursor.description else []

        yield run


def _idle(share: float) -> None:
    """Pass up to a millisecond: a wait for so short a time would give the other side its turn."""
    for _ in range(int(share * 10_000)):
        pass
