"""Many workers at a busy time: more of them than the usual server has connections for."""

import pytest

from jobqueue.models import Job
from jobqueue.states import Status
from tests.faults.measured import Recovery
from tests.faults.test_kills import database_time
from tests.worker.effects import Effects
from tests.worker.kinds import Launch
from tests.worker.test_outcomes import finished

WORKERS, BURSTS, JOBS = 16, 20, 5_000


@pytest.mark.server(config={"max_connections": "300"})
def test_no_job_is_run_twice_by_a_crowd_of_workers(launch: Launch, effects: Effects, recovery: Recovery) -> None:
    """C32: sixteen workers of two slots, 5,000 jobs that come in bursts: each starts once, nothing collides."""
    workers = []
    for _ in range(WORKERS // 4):  # not all at once: each imports the project
        four = [launch("--processes", "2", "--lease", "60", wait=False) for _ in range(4)]
        workers += [worker.ready() for worker in four]
    began, jobs = database_time(), list[Job]()
    for _ in range(BURSTS):
        jobs += [job for job in Job.objects.enqueue_many([("probe.mark", {})] * (JOBS // BURSTS)) if job]
        effects.wait("start", times=len(jobs) // 2, within=60)

    done = finished(jobs, within=120)

    assert {(job.status, job.attempts) for job in done} == {(Status.DONE, 1)}
    starts = [row.job_id for row in effects.all("start")]
    assert len(starts) == len(set(starts)) == JOBS
    assert len({job.worker_id for job in done}) == WORKERS, "all of them took part"
    assert all(worker.code is None for worker in workers)
    assert "IntegrityError" not in "".join(worker.log for worker in workers)
    seconds = (max(job.finished_at for job in done) - began).total_seconds()
    recovery("5,000 jobs in bursts done by sixteen workers", seconds, within=120)
