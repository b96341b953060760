"""The server takes no writes for a while: by its settings, or because it is no primary any more."""

import pytest

from jobqueue.models import Attempt
from tests.faults.measured import Recovery
from tests.faults.servers import PrivateServer
from tests.worker.effects import Effects
from tests.worker.kinds import Enqueue, Launch
from tests.worker.waiting import holds_for, until

from .load import account, loaded, seconds_until_as_before, steady_jobs_a_window

BACK_WITHIN = 10
AWAY_SECONDS = 6
MOST_LINES = 20


@pytest.mark.parametrize("how", ["by its settings", "as a standby"])
def test_a_worker_waits_while_the_server_is_read_only(
    how: str, server: PrivateServer, launch: Launch, enqueue: Enqueue, effects: Effects, recovery: Recovery
) -> None:
    """C25: SQLSTATE 25006, as after a failover; no exit, few lines, the finished job is stored afterwards."""
    workers = [launch("--processes", "2", LEASE_SECONDS=30) for _ in range(2)]
    long = enqueue("mark", seconds=5)
    effects.wait("start")

    with loaded() as load:
        before, lines = steady_jobs_a_window(server), [worker.log.count("\n") for worker in workers]
        if how == "as a standby":
            server.demote()
        else:
            server.set(default_transaction_read_only="on")
        until(lambda: len(load.errors) > 2, within=20, what="errors of enqueue")
        effects.wait("end", job_id=long.pk)
        holds_for(AWAY_SECONDS, lambda: [worker.code for worker in workers] == [None, None])
        assert all(worker.log.count("\n") - count <= MOST_LINES for worker, count in zip(workers, lines, strict=True))

        if how == "as a standby":
            server.promote()
        else:
            server.set(default_transaction_read_only=None)
        recovery("jobs a second as before", seconds_until_as_before(server, before), within=BACK_WITHIN)

    assert "read-only" in str(load.errors[-1])
    account(load, effects=effects, other=[long])
    assert not Attempt.objects.exists()
