"""Children are replaced when they have done or grown enough; no job is lost by it and the supervisor does not grow."""

from datetime import timedelta
from itertools import pairwise

from jobqueue.models import Job
from jobqueue.states import Status

from . import processes
from .kinds import Enqueue, Launch, WaitFor
from .test_outcomes import finished
from .waiting import until

MB = 2**20


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


def test_a_child_that_is_too_large_is_replaced_after_its_job(launch: Launch, enqueue: Enqueue) -> None:
    """C161: not beside it, once a second: jobs of an hour would then take all memory there is."""
    launch("--processes", "1", CHILD_MAX_BYTES=150 * MB)

    done = finished([enqueue("leak", mb=200, seconds=2.5) for _ in range(3)])

    starts = sorted(job.run_started_at for job in done)
    assert [later - earlier > timedelta(seconds=2) for earlier, later in pairwise(starts)] == [True, True]
    assert len({job.result for job in done}) == 3
    assert {(job.attempts, job.lease_epoch) for job in done} == {(1, 1)}


def test_what_the_zygote_imported_makes_no_child_too_large(launch: Launch, enqueue: Enqueue, wait_for: WaitFor) -> None:
    """A project that takes more than CHILD_MAX_BYTES before any job runs: it is in memory once."""
    worker = launch("--processes", "1", CHILD_MAX_BYTES=150 * MB, env={"PROBE_BALLAST_MB": "200"})
    (child,) = worker.children
    assert processes.resident_mb(child) > 200

    pids = {wait_for(enqueue("sleep", seconds=seconds)).result["pid"] for seconds in (2.5, 0)}

    assert pids == {child}


def test_crashing_at_birth_is_no_loop(launch: Launch, enqueue: Enqueue, wait_for: WaitFor) -> None:
    """C10: children that die with their first job are replaced twice a second, not as fast as they can be forked."""
    worker = launch("--processes", "2")
    jobs = [enqueue("quits", code=7, _max_attempts=1) for _ in range(4)]

    dead = finished(jobs)

    assert {job.status for job in dead} == {Status.DEAD}
    wait_for(enqueue("ok"))
    assert worker.code is None
