"""The server is restarted, crashes and is killed while jobs come and run: all of them are done, and soon."""

from functools import partial

import pytest

from jobqueue.models import Attempt, Job
from jobqueue.states import Status
from tests.faults.measured import Recovery
from tests.faults.servers import PrivateServer
from tests.worker.effects import Effects
from tests.worker.kinds import Enqueue, Launch, WaitFor
from tests.worker.waiting import holds_for

from .load import account, loaded, seconds_until_as_before, steady_jobs_a_window

BACK_WITHIN = 10
LEASE_SECONDS = 30
POLL_SECONDS = 2

versions = pytest.mark.parametrize(
    "version",
    [
        pytest.param(18, marks=pytest.mark.server(version=18)),
        pytest.param(15, marks=pytest.mark.server(version=15)),
    ],
)


@versions
def test_every_job_is_done_over_restarts_and_crashes_of_the_server(
    version: int,
    server: PrivateServer,
    launch: Launch,
    enqueue: Enqueue,
    wait_for: WaitFor,
    effects: Effects,
    recovery: Recovery,
) -> None:
    """C25: stopped fast for 8 s, immediately, and killed; a worker in a long job, one idle, one under load."""
    busy, long, idle = (
        launch("--queues", queue, "--processes", "2", LEASE_SECONDS=LEASE_SECONDS, POLL_SECONDS=POLL_SECONDS)
        for queue in ("default", "probes", "mail")
    )
    long_job = enqueue("mark", seconds=15, _queue="probes")
    effects.wait("start")

    mails: list[Job] = []
    end_server = {
        "fast": server.stop,
        "immediate": partial(server.stop, "immediate"),
        "kill -9": server.kill,
    }

    with loaded() as load:
        for how, away_seconds in (("fast", 8), ("immediate", 0), ("kill -9", 0)):
            before = steady_jobs_a_window(server)
            end_server[how]()
            holds_for(away_seconds, lambda: all(worker.code is None for worker in (busy, long, idle)))
            server.start()
            recovery(f"{how}: jobs a second as before", seconds_until_as_before(server, before), within=BACK_WITHIN)
            mails.append(wait_for(enqueue("ok", _queue="mail"), within=2 * POLL_SECONDS))

    done = wait_for(long_job, within=20)
    assert (done.attempts, effects.count("start", job_id=done.pk)) == (1, 1)
    account(load, effects=effects, other=[long_job, *mails])
    assert [worker.code for worker in (busy, long, idle)] == [None] * 3
    assert not Attempt.objects.exists()
    assert not Job.objects.exclude(status=Status.DONE).exists()
