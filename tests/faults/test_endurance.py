"""Many restarts, many jobs, much memory."""

from jobqueue.models import Attempt, Job
from jobqueue.outcomes import Outcome
from jobqueue.states import Status
from tests.worker import processes
from tests.worker.effects import Effects
from tests.worker.kinds import Enqueue, Launch, WaitFor
from tests.worker.test_outcomes import finished
from tests.worker.waiting import until

GRACEFUL, FORCED = 0, 3


def test_jobs_cut_off_by_deploys_are_interrupted_not_failed(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    """C42: released at once, uncharged, with an attempt row each; the last run is left alone and ends well."""
    job = enqueue("tidy_stop", seconds=1.5, _max_attempts=2)
    for restart in range(1, 5):
        worker = launch("--processes", "1", SHUTDOWN_TIMEOUT=0.3)
        effects.wait("start", times=restart)
        worker.stop()
        assert worker.ends(within=4) == FORCED
        after = Job.objects.get(pk=job.pk)
        assert (after.status, after.attempts, after.interruptions) == (Status.PENDING, 0, restart)

    launch("--processes", "1")

    done = wait_for(job)
    assert (done.attempts, done.interruptions) == (1, 4)
    assert [row.detail for row in effects.all("stopped")] == ["JobInterrupted"] * 4
    assert {attempt.outcome for attempt in Attempt.objects.filter(job=job)} == {Outcome.INTERRUPTED}


def test_a_child_that_grows_is_replaced(launch: Launch, enqueue: Enqueue) -> None:
    """C161: by resident memory; a saw-tooth below the ceiling and a little, a flat supervisor."""
    worker = launch("--processes", "1", CHILD_MAX_BYTES=150 * 2**20)
    before = processes.resident_mb(worker.pid)
    jobs = [enqueue("leak", mb=2, seconds=0.02) for _ in range(150)]
    largest = 0.0

    def all_done() -> bool:
        nonlocal largest
        largest = max([largest, *(processes.resident_mb(pid) for pid in processes.children(worker.zygote))])
        return not Job.objects.filter(status__in=[1, 2]).exists()

    until(all_done, within=40, what="all leaked")

    done = finished(jobs)
    assert {(job.status, job.attempts) for job in done} == {(Status.DONE, 1)}
    assert len({job.result for job in done}) >= 3
    assert largest < 150 + 100  # sampled each second, and fifty of these jobs run in one
    assert processes.resident_mb(worker.pid) - before < 10


def test_no_job_is_run_twice_at_a_busy_time(launch: Launch, enqueue: Enqueue, effects: Effects) -> None:
    """C32: three workers, jobs that come in bursts: each starts once, none collides."""
    workers = [launch("--processes", "2") for _ in range(4)]
    jobs: list[Job] = []
    for _ in range(10):
        jobs += [job for job in Job.objects.enqueue_many([("probe.mark", {})] * 300) if job]
        effects.wait("start", times=len(jobs) // 2)

    done = finished(jobs, within=90)

    assert {(job.status, job.attempts) for job in done} == {(Status.DONE, 1)}
    starts = [row.job_id for row in effects.all("start")]
    assert len(starts) == len(set(starts)) == 3000
    assert all(worker.code is None for worker in workers)
    assert "IntegrityError" not in "".join(worker.log for worker in workers)
