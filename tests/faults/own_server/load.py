"""A steady load of enqueues over whatever happens to the server, and the account of all its jobs afterwards."""

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from django.db import DatabaseError, connection

from jobqueue.models import Attempt, Job
from jobqueue.states import FINISHED, Status
from tests.faults.servers import PrivateServer
from tests.worker.effects import Effects
from tests.worker.launching import RunningWorker
from tests.worker.waiting import until

EVERY_SECONDS = 0.04
JOB_SECONDS = 0.01
RETRY_SECONDS = 0.2
FEW = 25
WINDOW = timedelta(seconds=2)


class Load(threading.Thread):
    """Enqueues one job after another, as a web process does: an error is its caller's, who comes again."""

    def __init__(self, job_type: str, every: float) -> None:
        super().__init__(name="load", daemon=True)
        self._job_type, self._every = job_type, every
        self._payload = {"seconds": JOB_SECONDS} if job_type == "probe.mark" else {}
        self._ended = threading.Event()
        self.accepted: list[int] = []
        self.errors: list[DatabaseError] = []
        self.unexpected: BaseException | None = None

    def run(self) -> None:
        """Enqueue until end()."""
        try:
            while not self._ended.is_set():
                self._enqueue()
        except BaseException as error:
            self.unexpected = error
        finally:
            connection.close()

    def _enqueue(self) -> None:
        try:
            job = Job.objects.enqueue(self._job_type, self._payload, max_attempts=10)
        except DatabaseError as error:
            self.errors.append(error)
            connection.close()
            self._ended.wait(RETRY_SECONDS)
        else:
            assert job is not None
            self.accepted.append(job.pk)
            self._ended.wait(self._every)

    def end(self) -> None:
        """Enqueue no more."""
        self._ended.set()
        self.join(30)
        assert not self.is_alive(), "an enqueue hangs"
        assert self.unexpected is None, repr(self.unexpected)

    def goes_on(self, *, jobs: int = 40, within: float = 20) -> None:
        """Wait until that many more jobs were accepted."""
        wanted = len(self.accepted) + jobs
        until(lambda: len(self.accepted) >= wanted or self.unexpected, within=within, what=self._told)

    def _told(self) -> str:
        return f"more than {len(self.accepted)} accepted jobs, last error: {self.errors[-1:]}"


def complaints(worker: RunningWorker) -> list[str]:
    """Return what a worker has warned of, its jobs aside."""
    return [line for line in worker.log.splitlines() if "WARNING jobqueue" in line and "jobqueue.notify" not in line]


@contextmanager
def loaded(job_type: str = "probe.mark", every: float = EVERY_SECONDS) -> Iterator[Load]:
    """Give a load that is under way and has got going; it ends with the block."""
    load = Load(job_type, every)
    load.start()
    try:
        load.goes_on()
        yield load
    finally:
        load.end()


def account(*loads: Load, effects: Effects, other: Iterable[Job] = (), within: float = 30) -> None:
    """Assert that every job is DONE, those accepted for certain, and that each run of a handler is accounted for.

    `other` are jobs of the scenario's own.
    """
    connection.close()  # which the server may have ended under this process
    unfinished = Job.objects.exclude(status__in=FINISHED)
    until(lambda: not unfinished.exists(), within=within, what=lambda: f"all jobs finished: {list(unfinished[:5])}")
    jobs = {job.pk: job for job in Job.objects.all()}
    accepted = {job_id for load in loads for job_id in load.accepted} | {job.pk for job in other}
    assert accepted <= jobs.keys(), f"accepted, and not in the table: {accepted - jobs.keys()}"
    assert {(job.status, job.job_type) for job in jobs.values() if job.status != Status.DONE} == set()
    # Where the connection broke at the commit the caller got an error for a job that exists.
    assert len(jobs.keys() - accepted) <= sum(len(load.errors) for load in loads)
    recorded = set(Attempt.objects.values_list("job_id", "lease_epoch"))
    accepted_runs = {(job.pk, job.lease_epoch) for job in jobs.values() if job.job_type == "probe.mark"}
    starts = [(row.job_id, row.lease_epoch) for row in effects.all("start")]
    assert len(starts) == len(set(starts)), "an attempt was started twice"
    assert accepted_runs <= set(starts)
    assert set(starts) <= accepted_runs | recorded, "a run that nobody knows of"


def jobs_a_window(server: PrivateServer) -> int:
    """Return how many jobs were finished in the last two seconds."""
    query = "SELECT count(*) FROM jobqueue_job WHERE finished_at > clock_timestamp() - %s"
    count: int = server.execute(query, [WINDOW])[0][0]
    return count


def steady_jobs_a_window(server: PrivateServer) -> int:
    """Return how many jobs are finished in two seconds, once the load has got going.

    No more than are enqueued in that time: a worker that has just caught up with a backlog finished more, once.
    """
    count = until(lambda: count if (count := jobs_a_window(server)) > FEW else None, within=30, what="a steady load")
    return min(count, int(WINDOW.total_seconds() / EVERY_SECONDS))


def seconds_until_as_before(server: PrivateServer, before: int) -> float:
    """Wait until the server finishes 90 % as many jobs in two seconds as before the fault; return how long it took."""
    back_at = time.monotonic()
    until(
        lambda: jobs_a_window(server) >= 0.9 * before,
        within=30,
        what=lambda: f"{before} jobs in two seconds, there are {jobs_a_window(server)}",
    )
    return time.monotonic() - back_at
