"""Children are replaced when they have done or grown enough; no job is lost by it and the supervisor does not grow."""

import pytest

from jobqueue.models import Job
from jobqueue.states import Status

from . import processes
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


@pytest.mark.parametrize("processes_", [1, 2])
def test_crashing_at_birth_is_no_loop(launch: Launch, enqueue: Enqueue, wait_for: WaitFor, processes_: int) -> None:
    """C10: children that die with their first job are replaced twice a second, not as fast as they can be forked."""
    worker = launch("--processes", str(processes_))
    jobs = [enqueue("quits", code=7, _max_attempts=1) for _ in range(4)]

    dead = finished(jobs)

    assert {job.status for job in dead} == {Status.DEAD}
    wait_for(enqueue("ok"))
    assert worker.code is None
