"""Many restarts, many jobs, much memory."""

from importlib.util import find_spec

import pytest

from jobqueue.models import Attempt, Job
from jobqueue.outcomes import Outcome
from jobqueue.states import Status
from tests.worker import processes
from tests.worker.effects import Effects
from tests.worker.kinds import Enqueue, Launch, WaitFor
from tests.worker.test_outcomes import finished
from tests.worker.waiting import until

from .measured import Recovery
from .tools import missing

GRACEFUL, FORCED = 0, 3
MB = 2**20


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


@pytest.mark.parametrize("setting", [{"CHILD_MAX_BYTES": 150 * MB}, {"CHILD_MAX_JOBS": 40}], ids=["size", "count"])
def test_a_child_that_grows_is_replaced(
    launch: Launch, enqueue: Enqueue, recovery: Recovery, setting: dict[str, int]
) -> None:
    """C161: 2 MB leaked 500 times; recycled by size or by count, a saw-tooth below a ceiling, a flat supervisor."""
    worker = launch("--processes", "1", **setting)
    before = processes.resident_mb(worker.pid)
    jobs = Job.objects.enqueue_many([("probe.leak", {"mb": 2, "seconds": 0.02})] * 500)
    sizes = [0.0]

    def all_done() -> bool:
        sizes.append(sum(processes.resident_mb(pid) for pid in worker.children))
        return not Job.objects.filter(status__in=[1, 2]).exists()

    until(all_done, within=60, what="all leaked")

    done = finished([job for job in jobs if job])
    assert {(job.status, job.attempts) for job in done} == {(Status.DONE, 1)}
    assert len({job.result for job in done}) >= 5
    # By size it is looked at once a second, in which fifty of these jobs run; the last of one child are still there
    # when the next is born.
    recovery("largest size of the children, 500 leaks of 2 MB", max(sizes), within=150 + 250, unit="MB")
    recovery("growth of the supervisor, 500 leaks", processes.resident_mb(worker.pid) - before, within=10, unit="MB")


def test_debug_does_not_make_a_worker_grow(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, recovery: Recovery
) -> None:
    """C164: 5,000 jobs that ask the database, with DEBUG on: no query is kept."""
    worker = launch("--processes", "1", env={"DEBUG": "1"})
    finished([job for job in Job.objects.enqueue_many([("probe.orm", {})] * 500) if job])
    (child,) = worker.children
    before = {pid: processes.resident_mb(pid) for pid in (worker.pid, child)}

    jobs = [job for job in Job.objects.enqueue_many([("probe.orm", {})] * 5_000) if job]
    assert {job.status for job in finished(jobs, within=90)} == {Status.DONE}

    assert worker.children == [child]
    assert wait_for(enqueue("queries_remembered")).result == 1
    for name, pid in (("supervisor", worker.pid), ("child", child)):
        growth = processes.resident_mb(pid) - before[pid]
        recovery(f"growth of the {name} over 5,000 jobs with DEBUG", growth, within=8, unit="MB")


def test_memory_is_limited_whoever_takes_it(
    launch: Launch, enqueue: Enqueue, effects: Effects, wait_for: WaitFor, recovery: Recovery
) -> None:
    """C97: 800 MB under a limit of 300: at once, in steps, in C, in many small processes; the neighbour goes on."""
    worker = launch("--processes", "2", LIMITS={"probe.alloc": {"memory_bytes": 300 * MB}})
    neighbour, before = enqueue("mark", seconds=12), processes.resident_mb(worker.pid)
    effects.wait("start")

    for how in ("once", "steps", "c", "bomb"):
        job = enqueue("alloc", mb=800, how=how, _max_attempts=3)
        dead = wait_for(job, Status.DEAD)
        assert (dead.outcome, dead.attempts) == (Outcome.MEMORY, 1), how
        assert "memory limit of 300 MB exceeded" in dead.last_error
        (start,) = effects.all("start", job_id=job.pk)
        until(
            lambda: [pid for pid in worker.tree() if processes.resident_mb(pid) > 250] == [], within=2, what="its end"
        )
        recovery(f"job over its memory ended ({how})", (dead.finished_at - start.at).total_seconds(), within=2)

    assert wait_for(neighbour).attempts == 1
    recovery("growth of the supervisor", processes.resident_mb(worker.pid) - before, within=10, unit="MB")


def test_numerical_code_fits_its_memory_limit(launch: Launch, enqueue: Enqueue, wait_for: WaitFor) -> None:
    """C98: numpy and its threads, 64 idle threads, 4 GB mapped, a fork of 400 MB: what is resident counts, once."""
    if find_spec("numpy") is None:
        missing("numpy is missing: pip install numpy")
    launch("--processes", "1")

    done = wait_for(enqueue("numbers", _max_attempts=1), within=40)

    assert done.result == 400
    assert 400 * MB < done.peak_memory_bytes < 512 * MB
