"""A job whose type this worker does not know waits for one that does, and is dead after a while."""

from jobqueue.models import Attempt, Job
from jobqueue.outcomes import Outcome
from jobqueue.states import Status

from .effects import Effects
from .kinds import Enqueue, Launch, WaitFor
from .waiting import holds_for, until


def test_a_job_of_an_unknown_type_waits_for_a_newer_worker(
    launch: Launch, enqueue: Enqueue, make_job: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    """C58: short releases, uncharged; others are not held up; the newer release runs it once."""
    old = launch(UNKNOWN_TYPE_RETRY_SECONDS=0.3)
    job = make_job(job_type="probe.gone")
    others = [enqueue("ok") for _ in range(20)]
    for other in others:
        wait_for(other)
    released = Job.objects.filter(pk=job.pk, lease_epoch__gte=2, status=Status.SCHEDULED)
    before = until(released.first, what="looked at again, and released again")
    assert (before.attempts, before.unknown_since is not None) == (0, True)

    old.stop()
    old.ends()
    launch(UNKNOWN_TYPE_RETRY_SECONDS=0.3, env={"PROBE_EXTRA": "1"})

    done = wait_for(job)
    assert (done.result, done.attempts) == ("found again", 1)
    assert not Attempt.objects.exists()


def test_a_worker_does_not_spin_on_an_unknown_type(launch: Launch, make_job: Enqueue) -> None:
    """C58: five seconds between two looks."""
    launch(UNKNOWN_TYPE_RETRY_SECONDS=5)
    job = make_job(job_type="probe.gone")
    until(lambda: Job.objects.get(pk=job.pk).status == Status.SCHEDULED)

    holds_for(1.5, lambda: Job.objects.get(pk=job.pk).lease_epoch == 1, what="looked at once")


def test_a_job_of_an_unknown_type_is_dead_after_the_bound(launch: Launch, make_job: Enqueue, wait_for: WaitFor) -> None:
    """C58: a dead letter 'unknown handler', told like any other."""
    worker = launch(UNKNOWN_TYPE_RETRY_SECONDS=0.2, UNKNOWN_TYPE_DEAD_SECONDS=0.5)

    dead = wait_for(make_job(job_type="probe.gone"), Status.DEAD)

    assert dead.outcome == Outcome.UNKNOWN_TYPE
    assert "unknown handler" in dead.last_error
    assert "probe.gone" in dead.last_error
    worker.says("job needs attention")
