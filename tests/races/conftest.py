"""Helpers of the races: verbs on a connection of their own, and raw rows that both sides see."""

from collections.abc import Callable
from concurrent.futures import Future
from datetime import timedelta
from typing import Any

import pytest

from jobqueue import sql
from jobqueue.managers import Done, Ending, Fence, Release, Span, leasing, moving, settling
from jobqueue.models import Job
from jobqueue.outcomes import Outcome
from tests.connections import SecondConnection

LEASE = timedelta(seconds=60)


class Side:
    """One side of a race: the verbs as plain SQL in one open transaction, and as something that may block."""

    def __init__(self, connection: SecondConnection) -> None:
        self.connection = connection
        self.pid = connection.pid
        connection.raw.execute("SET lock_timeout = '8s'")  # a step that waits where it should not fails, not hangs
        connection.commit()
        self.commit, self.rollback = connection.commit, connection.rollback

    def run(self, statement: str, params: Any = None) -> list[tuple[Any, ...]]:
        return self.connection.execute(statement, params)

    def start(self, verb: Callable[..., Any], *args: Any, **named: Any) -> Future[Any]:
        """Call a verb of this side in a thread, where it may block."""
        return self.connection.start(verb, *args, **named)

    def claim(self, limit: int = 10, worker_id: str = "racer") -> list[int]:
        claimed = leasing.claim(self.run, spans=[Span("default", limit)], worker_id=worker_id, lease=LEASE)
        return [job.id for job in claimed]

    def complete(self, *fences: Fence) -> dict[int, int]:
        jobs = [Done(fence.id, fence.lease_epoch) for fence in fences]
        return settling.settle_done(self.run, worker_id=fences[0].worker_id, jobs=jobs)

    def fail(self, *fences: Fence) -> dict[int, int]:
        endings = [Ending(fence.id, fence.lease_epoch, Outcome.FAILED) for fence in fences]
        return settling.settle_ended(self.run, worker_id=fences[0].worker_id, endings=endings)

    def renew(self, *fences: Fence) -> dict[int, str]:
        held = [(fence.id, fence.lease_epoch, 1.0) for fence in fences]
        renewals = leasing.renew(self.run, worker_id=fences[0].worker_id, held=held, lease=LEASE)
        return {renewal.id: renewal.verdict for renewal in renewals}

    def release(self, *fences: Fence) -> dict[int, int]:
        releases = [Release(fence.id, fence.lease_epoch) for fence in fences]
        return leasing.release(self.run, worker_id=fences[0].worker_id, releases=releases)

    def reap(self) -> dict[int, int]:
        return {row[0]: row[1] for row in moving.reap(self.run, limit=100)}

    def promote(self) -> list[int]:
        return [row[0] for row in moving.promote(self.run, limit=100)]

    def cancel(self, *ids: int) -> dict[int, int]:
        return moving.cancel(self.run, ids=ids, reason="")[0]

    def redrive(self, *ids: int) -> dict[int, int]:
        return {row[0]: row[1] for row in moving.redrive(self.run, ids=ids, spread=timedelta(0))}

    def discard(self, *ids: int) -> list[int]:
        return moving.discard(self.run, ids=ids, reason="")

    def lock_payloads(self, *ids: int) -> list[int]:
        return [row[0] for row in self.run(sql.LOCK_PAYLOADS, {"ids": list(ids)})]

    def release_stuck(self, *ids: int) -> list[int]:
        return [row[0] for row in moving.release_stuck(self.run, ids=ids, reason="")]

    def prune(self, status: int) -> list[int]:
        return moving.prune(self.run, status=status, age=timedelta(0), limit=100)


@pytest.fixture
def side(open_connection: Callable[[], SecondConnection]) -> Callable[[], Side]:
    """Return the function that opens a further side of a race."""
    return lambda: Side(open_connection())


@pytest.fixture
def first(side: Callable[[], Side]) -> Side:
    """The side that acts first and holds its transaction open."""
    return side()


@pytest.fixture
def second(side: Callable[[], Side]) -> Side:
    """The side that comes second: steps over, waits, or is refused."""
    return side()


@pytest.fixture
def status_of() -> Callable[[Job], int]:
    """Return the function that reads a job's status as committed."""
    return lambda job: Job.objects.get(pk=job.pk).status
