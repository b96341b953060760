"""Others have taken every connection of the server, while a worker works and while one starts."""

from collections.abc import Iterator
from contextlib import suppress

import psycopg
import pytest
from django.db import OperationalError, connection

from jobqueue.models import Attempt, Job
from tests.faults.measured import Recovery
from tests.faults.servers import PrivateServer
from tests.worker.effects import Effects
from tests.worker.kinds import Enqueue, Launch, WaitFor
from tests.worker.waiting import holds_for, until

from .load import account, loaded

BACK_WITHIN = 15  # a pause of 5 s, half a second until the next claim, and a start of two workers at the same time
END = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'jobqueue%'"
LEFT = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'jobqueue%'"
REFUSED = "too many clients|remaining connection slots"


class Crowd:
    """Connections that do nothing but be there."""

    def __init__(self, server: PrivateServer) -> None:
        self._conninfo = server.conninfo(application_name="crowd")
        self._open: list[psycopg.Connection[tuple[object, ...]]] = []

    def take_all(self, *, but: int = 0) -> None:
        """Take every free connection, and give some back."""
        with suppress(psycopg.OperationalError):
            while True:
                self._open.append(psycopg.connect(self._conninfo, autocommit=True))
        for _ in range(but):
            self._open.pop().close()

    def run(self, query: str) -> list[tuple[object, ...]]:
        """Run a statement on a connection that is there already."""
        return self._open[0].execute(query.encode()).fetchall()

    def leave(self) -> None:
        """Give all of them back."""
        while self._open:
            self._open.pop().close()


@pytest.fixture
def crowd(server: PrivateServer) -> Iterator[Crowd]:
    """Return the crowd, not there yet."""
    crowd = Crowd(server)
    yield crowd
    crowd.leave()


@pytest.mark.server(config={"max_connections": "25"})
def test_a_worker_waits_for_connections_that_others_have_taken(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects, crowd: Crowd, recovery: Recovery
) -> None:
    """C25: SQLSTATE 53300; callers get the server's error, workers wait, also in the middle of their start."""
    worker = launch("--processes", "2", LEASE_SECONDS=30)
    long = enqueue("mark", seconds=4)
    effects.wait("start")

    with loaded() as load:
        crowd.take_all()

        def shut_out() -> bool:
            crowd.run(END)
            crowd.take_all()
            return crowd.run(LEFT) == [(0,)]

        connection.close()
        until(shut_out, what="the worker to have no connection")
        with pytest.raises(OperationalError, match=REFUSED):
            enqueue("ok")
        starting = [launch("--processes", "1", wait=False) for _ in range(2)]
        for late in starting:
            late.says("waiting for the database", within=30)
        effects.wait("end", job_id=long.pk)
        holds_for(2, lambda: worker.code is None)
        crowd.take_all(but=1)  # enough to begin a start, too few to end it
        holds_for(3, lambda: [each.code for each in (worker, *starting)] == [None] * 3)

        crowd.leave()
        load.goes_on(jobs=1)
        done = wait_for(enqueue("ok"), within=BACK_WITHIN)
        recovery("a job is done again", (done.finished_at - done.created_at).total_seconds(), within=BACK_WITHIN)
        for late in starting:
            late.ready()
        load.goes_on()

    account(load, effects=effects, other=[long, done])
    assert not Attempt.objects.exists()
    assert Job.objects.get(pk=long.pk).attempts == 1
