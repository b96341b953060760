"""Rolling deploys: a worker of the old release and one of the new beside each other, with jobs that only one knows."""

from jobqueue.models import Attempt, Job
from jobqueue.states import Status
from tests.worker import processes
from tests.worker.effects import Effects
from tests.worker.kinds import Enqueue, Launch, WaitFor
from tests.worker.test_outcomes import finished
from tests.worker.waiting import holds_for, until

RETRY_SECONDS = 0.5
NEW = {"PROBE_EXTRA": "1"}


def test_jobs_of_a_new_type_go_through_the_old_worker_to_the_new_one(
    launch: Launch, enqueue: Enqueue, make_job: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    """C58: the old worker neither crashes nor spins nor loses them, others are not held up; the new one runs each once.

    Both work on one queue for a while, as in a rolling deploy; what the old one takes it gives back uncharged.
    """
    old = launch("--processes", "1", UNKNOWN_TYPE_RETRY_SECONDS=RETRY_SECONDS)
    unknown = [make_job(job_type="probe.gone", max_attempts=1) for _ in range(5)]
    assert {job.attempts for job in finished([enqueue("ok") for _ in range(20)], within=5)} == {1}
    cpu_before = processes.cpu_seconds(old.pid)
    holds_for(
        3,
        lambda: set(Job.objects.filter(job_type="probe.gone").values_list("attempts", flat=True)) <= {0, 1},
        what="given back uncharged",
    )
    assert processes.cpu_seconds(old.pid) - cpu_before < 1.5
    looks = list(Job.objects.filter(job_type="probe.gone").values_list("lease_epoch", flat=True))
    assert max(looks) <= 3.5 / RETRY_SECONDS + 2, "a look each half second, not more"
    assert old.code is None

    new = launch("--processes", "1", env=NEW, UNKNOWN_TYPE_RETRY_SECONDS=RETRY_SECONDS)
    for job in finished(unknown):
        assert (job.status, job.result, job.attempts) == (Status.DONE, "found again", 1)
        assert job.worker_id == new.worker_id
    old.stop()
    assert old.ends() == 0
    assert not Attempt.objects.exists()
    wait_for(make_job(job_type="probe.gone"))


def test_jobs_of_a_removed_type_become_dead_letters_and_can_be_redriven(
    launch: Launch, enqueue: Enqueue, make_job: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    """C58: after the bound they are kept as 'unknown handler'; the release that has the type again runs them."""
    launch("--processes", "1", UNKNOWN_TYPE_RETRY_SECONDS=0.2, UNKNOWN_TYPE_DEAD_SECONDS=0.6)
    job = make_job(job_type="probe.gone")
    others = [enqueue("ok") for _ in range(20)]

    dead = wait_for(job, Status.DEAD)
    assert "unknown handler" in dead.last_error
    assert {other.status for other in finished(others)} == {Status.DONE}

    # The new release beside the old one: whichever takes it first, the clock of 'unknown' begins anew.
    launch("--processes", "1", env=NEW)
    Job.objects.redrive(job.pk)
    until(lambda: Job.objects.get(pk=job.pk).status != Status.DEAD)
    done = wait_for(job, Status.DONE, Status.DEAD)
    while done.status == Status.DEAD:
        Job.objects.redrive(job.pk)
        done = wait_for(job, Status.DONE, Status.DEAD)
    assert done.result == "found again"
