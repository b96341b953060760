"""Rows that somebody has locked for long hold up their own ends, whatever their number, and nobody else's."""

import logging
import select
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from jobqueue.managers import ClaimedJob, Done
from jobqueue.managers.sessions import Session
from jobqueue.models import Job
from jobqueue.states import Status
from jobqueue.worker.holding import Held, HeldJobs, boottime
from jobqueue.worker.settle import FULL, Settler
from jobqueue.worker.threads import DatabaseThread, Inbox
from tests.connections import SecondConnection

LOCK_MILLISECONDS = "30"  # the worker's own 500 would have each of these tests take a quarter of a minute
LEASE = timedelta(minutes=10)


class Bench:
    """A settler on a real connection, in a loop that goes round when the test says so."""

    def __init__(self) -> None:
        self.inbox, self.held = Inbox(), HeldJobs()
        session = Session("default", "jobqueue settle w", options={"lock_timeout": LOCK_MILLISECONDS})
        self.thread = DatabaseThread("settle", session, self.inbox)
        self.statuses: dict[int, int | None] = {}
        verdicts: Any = SimpleNamespace(
            verdict=lambda held, _, status: self.statuses.update({held.job.id: status}), settled=lambda: None
        )
        self.settler = Settler(self.thread, self.held, worker_id="w", verdicts=verdicts)
        self.thread.start()

    def claim(self, count: int) -> list[int]:
        """Enqueue and claim so many jobs; returns their ids, in order."""
        Job.objects.enqueue_many([("probe.ok", {})] * count)
        return [job.pk for job in Job.objects.claim(count, worker_id="w", lease=LEASE)]

    def end(self, ids: list[int]) -> None:
        """Have jobs end."""
        for job_id in ids:
            row = ClaimedJob(job_id, 1, "probe.ok", "default", 100, 0, 1, 3, 0, "", 2, "{}", None, None)
            item = Held(row, boottime() + LEASE.total_seconds())
            self.held.add([item])
            self.settler.add(item, Done(job_id, 1, "null"))

    def settle(self) -> None:
        """Send a batch, if it is time."""
        self.settler.pump(nothing_runs=True)

    def settle_until(self, look: Callable[[], bool]) -> None:
        """Go round as the worker's main loop does."""
        give_up = time.monotonic() + 20
        while not look():
            assert time.monotonic() < give_up, f"{len(self.statuses)} settled, {len(self.settler)} wait"
            self.settle()
            select.select([self.inbox.read_fd], [], [], 0.05)
            self.inbox.run_all()


@pytest.fixture
def bench(transactional_db: None) -> Iterator[Bench]:
    bench = Bench()
    try:
        yield bench
    finally:
        bench.thread.end()
        bench.thread.join(10)


def lock(connection: SecondConnection, ids: list[int]) -> None:
    connection.execute("SELECT 1 FROM jobqueue_job WHERE id = ANY (%s) FOR UPDATE", [ids])


@pytest.mark.parametrize("places", [(100, 250, 400), (3, 120, 260, 380, 499), tuple(range(40, 56))])
def test_some_locked_rows_of_a_full_batch_hold_up_no_other(
    places: tuple[int, ...], bench: Bench, second_connection: SecondConnection, caplog: pytest.LogCaptureFixture
) -> None:
    """C74. Guard: what was settled has its verdict, and the rest goes on, where an error ends a batch."""
    caplog.set_level(logging.WARNING, "jobqueue")
    ids = bench.claim(FULL)
    locked = [ids[place] for place in places]
    lock(second_connection, locked)
    bench.end(ids)

    bench.settle_until(lambda: len(bench.statuses) == FULL - len(places))

    assert bench.statuses == {job_id: Status.DONE for job_id in ids if job_id not in locked}
    assert "database away" not in caplog.text
    second_connection.rollback()
    bench.settle_until(lambda: len(bench.statuses) == FULL)
    assert set(bench.statuses.values()) == {Status.DONE}
    assert Job.objects.filter(status=Status.DONE).count() == FULL
    assert not len(bench.held)


def test_a_batch_of_nothing_but_locked_rows_holds_up_no_other(
    bench: Bench, second_connection: SecondConnection, caplog: pytest.LogCaptureFixture
) -> None:
    """C74. Guard: after a time-out the same batch is not tried again before what waits."""
    caplog.set_level(logging.WARNING, "jobqueue")
    locked, free = bench.claim(40), bench.claim(40)
    lock(second_connection, locked)
    bench.end(locked)
    bench.settle()
    bench.end(free)

    bench.settle_until(lambda: len(bench.statuses) == len(free))

    assert bench.statuses == dict.fromkeys(free, Status.DONE)
    assert "statement timed out role=jobqueue settle w error=canceling statement due to lock timeout" in caplog.text
    assert "database away" not in caplog.text
