"""The disk of the server is full for a while: first for rows, then for the log, without which it ends."""

from contextlib import suppress

import psycopg
import pytest

from tests.faults.measured import Recovery
from tests.faults.servers import PrivateServer
from tests.worker.effects import Effects
from tests.worker.kinds import Enqueue, Launch
from tests.worker.waiting import holds_for, until

from .load import account, loaded, seconds_until_as_before, steady_jobs_a_window

BACK_WITHIN = 10
FULL_SECONDS = 6
MOST_LINES = 30
SMALL_LOG = {"max_wal_size": "64MB", "min_wal_size": "32MB", "shared_buffers": "16MB"}


@pytest.mark.server(disk_mb=256, config=SMALL_LOG)
def test_nothing_is_lost_while_the_disk_is_full(
    server: PrivateServer, launch: Launch, enqueue: Enqueue, effects: Effects, recovery: Recovery
) -> None:
    """C25: SQLSTATE 53100 to callers and workers; then the server ends for want of its log, and is started again."""
    worker = launch("--processes", "2", LEASE_SECONDS=60)
    long = enqueue("mark", seconds=4)
    effects.wait("start")

    with loaded() as load:
        before, lines = steady_jobs_a_window(server), worker.log.count("\n")
        server.fill_disk()
        until(lambda: any(is_full(error) for error in load.errors), within=60, what="errors of enqueue")
        effects.wait("end", job_id=long.pk)
        holds_for(FULL_SECONDS, lambda: worker.code is None)
        server.make_room()
        recovery("room again: jobs a second as before", seconds_until_as_before(server, before), within=BACK_WITHIN)

        server.fill_disk()
        until(lambda: ends(server), within=60, what=lambda: server.log_text[-2000:])
        holds_for(FULL_SECONDS, lambda: worker.code is None)
        server.make_room()
        server.start()
        recovery("after its end: jobs a second as before", seconds_until_as_before(server, before), within=BACK_WITHIN)

    assert worker.log.count("\n") - lines <= MOST_LINES, worker.log
    account(load, effects=effects, other=[long])


def is_full(error: Exception) -> bool:
    """Tell whether it is the server's error for a full disk."""
    return getattr(error.__cause__, "sqlstate", None) == "53100"


def ends(server: PrivateServer) -> bool:
    """Have the server begin a new file of its log, and tell whether that was the end of it."""
    with suppress(psycopg.Error):
        server.execute("SELECT pg_switch_wal()")
        server.execute("CREATE TABLE IF NOT EXISTS filler AS SELECT 1")
    return server.pid() is None
