"""Runs that lost their lease in an outage are not taken for claims whose answer was lost."""

from jobqueue.models import Attempt
from jobqueue.outcomes import Outcome
from tests.worker.conftest import LEASE_SECONDS
from tests.worker.effects import Effects
from tests.worker.forwarder import Forwarder
from tests.worker.kinds import Enqueue, Launch, WaitFor

SECONDS = LEASE_SECONDS + 1.0


def test_a_run_that_an_outage_cut_off_is_charged_and_told(
    launch: Launch,
    enqueue: Enqueue,
    wait_for: WaitFor,
    effects: Effects,
    proxy: Forwarder,
    through_proxy: dict[str, str],
) -> None:
    """C72: its row still names the worker that comes back, which leaves it to the reaper: nothing runs for nothing.

    Given back as a stray it would run without end at a server that is away again and again.
    """
    proxy.open()
    worker = launch("--processes", "1", env=through_proxy)
    job = enqueue("mark", seconds=SECONDS)
    effects.wait("start")

    proxy.shut()
    worker.says(f"lost lease job_id={job.pk}")
    proxy.open()

    done = wait_for(job, within=4 * LEASE_SECONDS + SECONDS)
    assert [row.lease_epoch for row in effects.all("start")] == [1, 2]
    assert (done.attempts, done.interruptions) == (2, 0)
    attempts = Attempt.objects.values_list("lease_epoch", "outcome", "worker_id")
    assert list(attempts) == [(1, Outcome.LEASE_EXPIRED, worker.worker_id)]
