"""A person gives a stuck job back while its worker is alive: the old run is stopped, and nothing of it is stored."""

from jobqueue import operations
from jobqueue.models import Job
from jobqueue.outcomes import Outcome
from jobqueue.states import Status
from tests.factories import ago

from .effects import Effects
from .kinds import Enqueue, Launch, WaitFor


def test_a_released_job_is_stopped_by_its_worker_and_runs_again(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    """The hint makes the worker look at once, far from the next renewal; the second run has an epoch of its own."""
    launch("--processes", "1", LEASE_SECONDS=60)
    job = enqueue("tidy_stop", seconds=60)
    effects.wait("start")
    Job.objects.filter(pk=job.pk).update(claimed_at=ago(700), run_started_at=ago(700))

    report = operations.release([job.pk], actor="operator")

    assert report.changed == [job.pk]
    assert [row.detail for row in effects.wait("stopped")] == ["JobLeaseLost"]
    again = wait_for(job, Status.RUNNING)
    assert again.lease_epoch == job.lease_epoch + 2
    assert [attempt.outcome for attempt in again.attempt_rows.all()] == [Outcome.INTERRUPTED]
    Job.objects.cancel([job.pk])
    wait_for(job, Status.CANCELLED)
