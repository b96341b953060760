"""Fixtures of the tests with real workers, and what must hold after each of them."""

import json
import signal
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.db import connection

from jobqueue.models import Job
from jobqueue.states import Status
from tests.connections import database_conninfo

from . import processes
from .effects import Effects
from .forwarder import Forwarder, forwarder
from .launching import DOCUMENTED_CODES, ROOT, RunningWorker
from .waiting import until

LEASE_SECONDS = 5
FAST = {
    "JOBQUEUE_LEASE_SECONDS": str(LEASE_SECONDS),
    "JOBQUEUE_MAINTENANCE_SECONDS": "0.2",
    "JOBQUEUE_POLL_SECONDS": "0.2",
    "JOBQUEUE_STATEMENT_TIMEOUT": "2",
    "JOBQUEUE_KILL_GRACE": "0.5",
    "JOBQUEUE_SHUTDOWN_TIMEOUT": "5",
    "JOBQUEUE_BACKOFF_BASE_SECONDS": "0.2",
    "JOBQUEUE_BACKOFF_CAP_SECONDS": "1",
    "JOBQUEUE_PROCESSES": "2",
}
Launch = Callable[..., RunningWorker]


@pytest.fixture
def effects(transactional_db: None) -> Iterator[Effects]:
    """Return what handlers really did, by their own account."""
    effects = Effects(database_conninfo())
    try:
        yield effects
    finally:
        effects.close()


@pytest.fixture
def launch(worker_env: dict[str, str], tmp_path: Path, effects: Effects) -> Iterator[Launch]:
    """Return the function that starts a worker: launch("--threads", "4", POLL_SECONDS=30, env={"PROBE_EXTRA": "1"}).

    Keyword arguments are settings. It returns when the worker serves, unless wait=False.
    """
    with workers_below(tmp_path, worker_env, effects.conninfo) as (launch_one, workers):
        yield launch_one
        check_all(workers)


@contextmanager
def workers_below(
    folder: Path, worker_env: dict[str, str], probe_dsn: str
) -> Iterator[tuple[Launch, list[RunningWorker]]]:
    """Give the function that starts workers and the list of those started; leave nothing of them."""
    workers: list[RunningWorker] = []

    def launch_one(
        *arguments: str, wait: bool = True, env: dict[str, str] | None = None, root: Path = ROOT, **settings: Any
    ) -> RunningWorker:
        mark = f"PROBE_RUN={uuid.uuid4().hex}"
        wanted = {
            f"JOBQUEUE_{name}": json.dumps(value) if isinstance(value, dict) else str(value)
            for name, value in settings.items()
        }
        own = {"PROBE_DSN": probe_dsn, "PROBE_RUN": mark[10:], "PYTHONPATH": str(root)}
        environment = worker_env | FAST | own | wanted | (env or {})
        log = folder / f"worker-{len(workers) + 1}.log"
        worker = RunningWorker(list(arguments), environment, log, mark, root=root)
        workers.append(worker)
        return worker.ready() if wait else worker

    try:
        yield launch_one, workers
    finally:
        for worker in workers:
            worker.clear_away()


def check_all(workers: list[RunningWorker]) -> None:
    """Assert what must hold after every scenario, then stop the workers and assert that nothing is left of them."""
    if any(worker.code is None for worker in workers):
        until(lambda: not expired_leases(), within=2 * LEASE_SECONDS + 2, what="no job RUNNING with an expired lease")
    assert idle_transactions() == []
    for worker in workers:
        until(lambda: not processes.zombies(worker.tree()), within=2, what="no zombie")  # noqa: B023
    for worker in workers:
        if worker.code is None:
            worker.stop()
    for worker in workers:
        expected = worker.expected_to_end
        code = worker.ends(within=15)
        assert expected or code in DOCUMENTED_CODES, worker.log
        until(lambda: not worker.tree(), within=2, what=lambda: describe(worker.tree()))  # noqa: B023
        assert worker.may_show_tracebacks or "Traceback" not in worker.log, worker.log[-8000:]
        # Receivers that always raise are told of for each job, with their traceback.
        assert worker.may_show_tracebacks or busiest_second(worker.log) <= 50, worker.log[-8000:]


def describe(pids: list[int]) -> str:
    return "nothing left of the worker: " + "; ".join(
        f"{pid} {processes.stat_fields(pid)[:2]} {processes.command_line(pid)}" for pid in pids
    )


def expired_leases() -> list[int]:
    with psycopg.connect(database_conninfo(), autocommit=True) as raw:
        rows = raw.execute(
            "SELECT id FROM jobqueue_job WHERE status = 2 AND lease_until < statement_timestamp()"
        ).fetchall()
    return [row[0] for row in rows]


def idle_transactions() -> list[tuple[Any, ...]]:
    """Return the workers' own connections that have been idle in a transaction for more than a second."""
    with psycopg.connect(database_conninfo(), autocommit=True) as raw:
        return raw.execute(
            "SELECT application_name, query FROM pg_stat_activity WHERE datname = current_database()"
            " AND application_name LIKE 'jobqueue%' AND application_name NOT LIKE 'jobqueue child%'"
            " AND state LIKE 'idle in transaction%' AND state_change < clock_timestamp() - interval '1 s'"
        ).fetchall()


def busiest_second(log: str) -> int:
    counts: dict[str, int] = {}
    for line in log.splitlines():
        # Not the further lines of a traceback, which have no time, nor notices: one a dead letter is what is asked for.
        if line[:2].isdecimal() and " jobqueue.notify " not in line:
            counts[line[:19]] = counts.get(line[:19], 0) + 1
    return max(counts.values(), default=0)


@pytest.fixture
def status() -> Callable[[Job], Status]:
    """Return the function that reads a job's status."""
    return lambda job: Status(Job.objects.get(pk=job.pk).status)


@pytest.fixture
def wait_for() -> Callable[..., Any]:
    """Return the function that waits until a job has a status (DONE by default) and returns the job as it is then."""

    def wait(job: Job, *wanted: Status, within: float = 15) -> Any:
        statuses = wanted or (Status.DONE,)

        def look() -> Job | None:
            found = Job.objects.get(pk=job.pk)
            return found if found.status in statuses else None

        def told() -> str:
            found = Job.objects.get(pk=job.pk)
            return f"{found} in {statuses}, it is {Status(found.status).name} {found.last_error!r}"

        return until(look, within=within, what=told)

    return wait


@pytest.fixture
def enqueue(transactional_db: None) -> Callable[..., Job]:
    """Return the function that enqueues: enqueue("sleep", seconds=4), options as in enqueue("ok", _priority=1)."""

    def enqueue_one(name: str, /, **payload: Any) -> Job:
        options = {key[1:]: payload.pop(key) for key in list(payload) if key.startswith("_")}
        job = Job.objects.enqueue(f"probe.{name}", payload, **options)
        assert job is not None
        return job

    return enqueue_one


@pytest.fixture
def terminate() -> Callable[[RunningWorker], int]:
    """Return the function that stops a worker by SIGTERM and returns its exit code."""

    def stop(worker: RunningWorker, number: int = signal.SIGTERM) -> int:
        worker.stop(number)
        return worker.ends()

    return stop


@pytest.fixture
def proxy(transactional_db: None) -> Iterator[Forwarder]:
    """Return a forwarder in front of the test database's server, shut at first."""
    settings = connection.settings_dict
    with forwarder(settings["HOST"] or "127.0.0.1", int(settings["PORT"])) as made:
        yield made


@pytest.fixture
def through_proxy(worker_env: dict[str, str], proxy: Forwarder) -> dict[str, str]:
    """Return the environment that has a worker's connections go through the forwarder."""
    port = connection.settings_dict["PORT"]
    return {"DATABASE_URL": worker_env["DATABASE_URL"].replace(f":{port}/", f":{proxy.port}/")}
