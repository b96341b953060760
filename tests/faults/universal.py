"""U1 to U9: what must hold after every scenario; what processes must not leave is checked in tests.worker.conftest.

U1 no lease stays expired, U2 two accepted runs never overlap, U3 the final state is that of the accepted attempt,
U4 workers live or ended on purpose, U5 no zombie or orphan, U6 nobody idle in a transaction, U7 a quiet log,
U8 attempts within their budget, U9 ten further jobs are done within seconds. And no more connections than the formula.
"""

import itertools
from collections.abc import Callable, Iterable
from typing import Any

import psycopg
from django.db import close_old_connections

from jobqueue.models import Action, Attempt, Job
from jobqueue.outcomes import Outcome
from jobqueue.states import Status
from tests.connections import database_conninfo
from tests.worker.effects import Effects
from tests.worker.launching import RunningWorker
from tests.worker.waiting import until

EXTRA_JOBS, EXTRA_WITHIN = 10, 5
LEASE_LOST_WITHIN = 15
THREADS_WITH_A_CONNECTION = 5
INTERRUPTION_BUDGET = 10
NOT_ACCEPTED = (Outcome.LEASE_EXPIRED,)
ENDS_OF = {
    Status.DONE: {Outcome.DONE},
    Status.CANCELLED: {Outcome.CANCELLED, Outcome.DISCARDED, None},
}
CONNECTIONS = """
SELECT regexp_replace(application_name, '^jobqueue \\w+ ', ''),
       count(*) FILTER (WHERE application_name LIKE 'jobqueue child%'),
       count(*) FILTER (WHERE application_name NOT LIKE 'jobqueue child%')
FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'jobqueue %' GROUP BY 1
"""
LEFT_OPEN = """
SELECT application_name, state, query FROM pg_stat_activity WHERE datname = current_database()
AND application_name LIKE 'jobqueue %' AND state LIKE 'idle in transaction%'
AND state_change < clock_timestamp() - interval '1 s'
"""


def check_scenario(
    workers: list[RunningWorker], launch: Callable[..., RunningWorker], effects: Effects, *, counted: bool = True
) -> None:
    """Assert U1, U2, U3, U6, U8, U9 and the number of connections (where `counted`), while the workers still run."""
    close_old_connections()  # the scenario may have restarted the server under this process
    alive = [worker for worker in workers if worker.code is None]
    if not any(serves_everything(worker) for worker in alive):
        alive.append(launch("--processes", "2"))
    until(lambda: not _expired(), within=LEASE_LOST_WITHIN, what=lambda: f"U1: no expired lease: {_expired()}")
    _check_runs(effects)
    _check_states(effects)
    _make_room()
    _check_extra_jobs(alive)
    assert _rows(LEFT_OPEN) == [], "U6"
    if counted:
        _check_connections(alive)


def serves_everything(worker: RunningWorker) -> bool:
    """Tell whether a worker would take a job of the default queue."""
    return not any(argument.startswith(("--queues", "--job-types")) for argument in worker.arguments)


def _rows(query: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(database_conninfo(), autocommit=True) as raw:
        return raw.execute(query.encode()).fetchall()


def _expired() -> list[tuple[Any, ...]]:
    return _rows(
        "SELECT id, worker_id, lease_until - statement_timestamp() FROM jobqueue_job"
        " WHERE status = 2 AND lease_until < statement_timestamp()"
    )


def _check_runs(effects: Effects) -> None:
    """U2: of two runs whose effects overlap in time, one at most had its outcome accepted."""
    windows: dict[int, dict[int, list[Any]]] = {}
    for row in effects.all():
        windows.setdefault(row.job_id, {}).setdefault(row.lease_epoch, []).append(row.at)
    several = {job: runs for job, runs in windows.items() if len(runs) > 1}
    for job_id, runs in several.items():
        accepted = _accepted_epochs(job_id)
        spans = sorted((min(times), max(times), epoch) for epoch, times in runs.items())
        for (_, ended, one), (started, _, other) in itertools.pairwise(spans):
            overlap = started < ended and {one, other} <= accepted
            assert not overlap, f"U2: job {job_id}: runs {one} and {other} overlap and both were accepted"


def _accepted_epochs(job_id: int) -> set[int]:
    attempts = Attempt.objects.filter(job_id=job_id).exclude(outcome__in=NOT_ACCEPTED)
    accepted = set(attempts.values_list("lease_epoch", flat=True))
    return accepted | set(Job.objects.filter(pk=job_id, status=Status.DONE).values_list("lease_epoch", flat=True))


def _check_states(effects: Effects) -> None:
    """U3 and U8, for every job that the scenario left."""
    ended = {(row.job_id, row.lease_epoch) for row in effects.all("end")}
    started: dict[int, set[int]] = {}
    for row in effects.all("start"):
        started.setdefault(row.job_id, set()).add(row.lease_epoch)
    redriven = {pk for keys in Action.objects.values_list("job_ids", flat=True) for pk in keys}
    # What lay in the table before the scenario is not its concern: that may be millions of rows.
    touched = Job.objects.filter(updated_at__gte=effects.began_at)
    columns = ("pk", "job_type", "status", "outcome", "cancel_requested_at", "lease_epoch", "attempts", "max_attempts")
    for job in touched.values_list(*columns, named=True).iterator():
        told = f"job {job.pk} {job.job_type} {Status(job.status).name}"
        # An attempt that failed after somebody had asked to cancel is no retry: the outcome stays that of the attempt.
        asked = job.status == Status.CANCELLED and job.cancel_requested_at is not None and job.outcome != Outcome.DONE
        if job.status in ENDS_OF:
            assert asked or job.outcome in ENDS_OF[Status(job.status)], f"U3: {told} with outcome {job.outcome}"
        if job.status == Status.DONE and job.job_type == "probe.mark":
            assert (job.pk, job.lease_epoch) in ended, f"U3: {told}, but its accepted run {job.lease_epoch} did not end"
        assert job.attempts <= job.max_attempts, f"U8: {told}: {job.attempts} attempts of {job.max_attempts}"
        if job.pk not in redriven:
            budget = job.max_attempts + INTERRUPTION_BUDGET
            assert len(started.get(job.pk, ())) <= budget, f"U8: {told}: started {started[job.pk]}"


def _make_room() -> None:
    """Cancel what still runs, so that slots are free for the further jobs."""
    running = list(Job.objects.filter(status=Status.RUNNING).values_list("pk", flat=True))
    Job.objects.cancel(running)  # those that have ended meanwhile are left out
    still = Job.objects.filter(pk__in=running, status=Status.RUNNING)
    until(lambda: not still.exists(), within=LEASE_LOST_WITHIN, what=lambda: f"cancelled jobs to end: {list(still)}")


def _check_extra_jobs(alive: Iterable[RunningWorker]) -> None:
    """U9: workers still take and finish jobs, before any backlog."""
    made = Job.objects.enqueue_many([{"job_type": "probe.ok", "priority": -1000}] * EXTRA_JOBS)
    keys = [job.pk for job in made if job]
    done = Job.objects.filter(pk__in=keys, status=Status.DONE)
    logs = "\n".join(worker.log[-1500:] for worker in alive)
    until(lambda: done.count() == EXTRA_JOBS, within=EXTRA_WITHIN, what=lambda: f"U9: ten further jobs:\n{logs}")


def _check_connections(alive: Iterable[RunningWorker]) -> None:
    """No worker has more connections than docs/worker.md says: five, and one a slot."""
    slots = {worker.worker_id: _slots(worker) for worker in alive}
    for worker_id, of_children, own in _rows(CONNECTIONS):
        if worker_id in slots:
            assert own <= THREADS_WITH_A_CONNECTION, f"{worker_id} has {own} connections of its own"
            assert of_children <= slots[worker_id], f"children of {worker_id} have {of_children} connections"


def _slots(worker: RunningWorker) -> int:
    def option(name: str) -> int:
        given = worker.arguments
        return int(
            given[given.index(f"--{name}") + 1]
            if f"--{name}" in given
            else worker.env.get(f"JOBQUEUE_{name.upper()}", 1)
        )

    return option("processes") * option("threads")
