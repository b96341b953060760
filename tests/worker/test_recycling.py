"""Children are replaced when they have done or grown enough; no job is lost by it and the supervisor does not grow."""

from jobqueue.models import Job
from jobqueue.states import Status

from .kinds import Enqueue, Launch, WaitFor
from .test_outcomes import finished
from .waiting import until


def test_a_child_is_replaced_after_so_many_jobs(launch: Launch, enqueue: Enqueue) -> None:
    """C161: by count; every job runs once, in children of 25 jobs or so each."""
    worker = launch("--processes", "1", CHILD_MAX_JOBS=25)
    done = finished([job for job in Job.objects.enqueue_many([("probe.sleep", {"seconds": 0.005})] * 200) if job])

    assert {(job.status, job.attempts) for job in done} == {(Status.DONE, 1)}
    pids = [job.result["pid"] for job in done]
    counts = {pid: pids.count(pid) for pid in set(pids)}
    assert len(counts) >= 5
    assert max(counts.values()) < 45
    until(lambda: len(worker.children) == 1, what="one child is left")


def test_crashing_at_birth_is_no_loop(launch: Launch, enqueue: Enqueue, wait_for: WaitFor) -> None:
    """C10: children that die with their first job are replaced twice a second, not as fast as they can be forked."""
    worker = launch("--processes", "2")
    jobs = [enqueue("quits", code=7, _max_attempts=1) for _ in range(4)]

    dead = finished(jobs)

    assert {job.status for job in dead} == {Status.DEAD}
    wait_for(enqueue("ok"))
    assert worker.code is None
