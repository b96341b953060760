"""How many connections workers have, what they are called, and that none of them sits in a transaction."""

import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any, NamedTuple

import psycopg
import pytest

from jobqueue.models import Job
from jobqueue.states import Status
from tests.connections import database_conninfo
from tests.faults.measured import Recovery
from tests.worker.effects import Effects
from tests.worker.kinds import Enqueue, Launch
from tests.worker.launching import RunningWorker
from tests.worker.test_outcomes import finished
from tests.worker.waiting import holds_for, until

OWN = ["dispatch", "lease", "listener", "maintenance", "settle"]
OWN_CONNECTIONS, SLOTS = len(OWN), 8  # docs/worker.md: connections of a worker = 5 + slots that use the database
LOOK_EVERY_SECONDS = 0.1
IDLE_WITHIN = 10
ACTIVITY = """
SELECT split_part(application_name, ' ', 2) AS role, split_part(application_name, ' ', 3) AS worker_id, pid, state,
       extract(epoch FROM clock_timestamp() - xact_start)::float8 AS transaction_seconds,
       backend_xmin IS NOT NULL AS snapshot
  FROM pg_stat_activity
 WHERE datname = current_database() AND application_name LIKE 'jobqueue %'
"""


class Backend(NamedTuple):
    """A connection of a worker, as the server sees it."""

    role: str
    worker_id: str
    pid: int
    state: str
    transaction_seconds: float | None
    snapshot: bool


def backends(raw: "psycopg.Connection[Any]") -> list[Backend]:
    """Return the workers' connections of the moment."""
    return [Backend(*row) for row in raw.execute(ACTIVITY.encode()).fetchall()]


@contextmanager
def sampled(seconds: float = LOOK_EVERY_SECONDS) -> Iterator[list[list[Backend]]]:
    """Look at all connections again and again meanwhile; gives the list of what was seen, complete at the end."""
    seen: list[list[Backend]] = []
    ended = threading.Event()

    def look() -> None:
        with psycopg.connect(database_conninfo(), autocommit=True, application_name="sampler") as raw:
            while not ended.wait(seconds):
                seen.append(backends(raw))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        thread.join(10)
    assert len(seen) > 3, "the sampler looked"


def counts(seen: list[Backend], worker: RunningWorker) -> tuple[int, int]:
    """Return how many connections a worker has itself, and how many its children have."""
    mine = [each for each in seen if each.worker_id == worker.worker_id]
    children = sum(each.role == "child" for each in mine)
    return len(mine) - children, children


def short_jobs() -> list[dict[str, Any]]:
    """Return 1,000 jobs that ask the database something: a tenth fails, 2 % kill their process; in no special order."""
    failing = {"job_type": "probe.touch", "payload": {"name": "missing"}, "max_attempts": 1}
    specs: list[dict[str, Any]] = [{"job_type": "probe.orm"}] * 880 + [failing] * 100
    specs += [{"job_type": "probe.complete", "payload": {"name": f"k{n}", "then": "kill"}} for n in range(20)]
    random.Random(70).shuffle(specs)
    return specs


def test_connections_stay_within_the_formula_whatever_happens_to_jobs(launch: Launch, recovery: Recovery) -> None:
    """C70: two workers of 8 slots, jobs that fail and kill; never more than 5 + slots each, each named, none left."""
    workers = [launch("--processes", "8"), launch("--processes", "4", "--threads", "2")]

    with sampled() as seen:
        jobs = [job for job in Job.objects.enqueue_many(short_jobs()) if job]
        ended = finished(jobs, within=90)
    done = monotonic()

    statuses = Counter(job.status for job in ended)
    assert (statuses[Status.DONE], statuses[Status.DEAD]) == (900, 100)
    for worker in workers:
        most = max(sum(counts(look, worker)) for look in seen)
        recovery(f"connections of worker {workers.index(worker) + 1}", most, within=OWN_CONNECTIONS + SLOTS, unit="")
    with psycopg.connect(database_conninfo(), autocommit=True) as raw:

        def at_rest() -> bool:
            now = backends(raw)
            return all(counts(now, worker)[0] == OWN_CONNECTIONS for worker in workers) and {
                each.worker_id for each in now
            } == {worker.worker_id for worker in workers}

        until(at_rest, within=IDLE_WITHIN, what=lambda: str(backends(raw)))
        recovery("back at the idle level", monotonic() - done, within=IDLE_WITHIN)
        holds_for(1, at_rest)
        assert sorted(each.role for each in backends(raw) if each.role != "child") == sorted(OWN * 2)


@pytest.mark.parametrize(
    "database_options",
    ["", pytest.param("?ATOMIC_REQUESTS=True&AUTOCOMMIT=False", id="atomic requests, no autocommit")],
)
def test_no_connection_of_a_worker_sits_in_a_transaction(
    database_options: str, launch: Launch, enqueue: Enqueue, effects: Effects, worker_env: dict[str, str]
) -> None:
    """C115: an idle worker, its listener, and one whose handler runs: no open transaction, no snapshot that is held."""
    env = {"DATABASE_URL": worker_env["DATABASE_URL"] + database_options}
    launch("--processes", "1", "--queues", "nothing", env=env)
    busy = launch("--processes", "1", env=env)
    finished([enqueue("orm") for _ in range(5)])  # the child has a connection now
    long = enqueue("mark", seconds=8)
    effects.wait("start")

    with sampled(0.25) as seen:
        effects.wait("end")
    finished([long])

    in_transaction = [each for look in seen for each in look if each.state.startswith("idle in transaction")]
    assert in_transaction == []
    assert [each for look in seen for each in look if each.state == "idle" and each.snapshot] == []
    assert [each for look in seen for each in look if (each.transaction_seconds or 0) > 1] == []
    everybody = {(each.worker_id, each.role) for look in seen for each in look}
    assert {role for worker_id, role in everybody if worker_id == busy.worker_id} >= set(OWN)
    assert len({worker_id for worker_id, _ in everybody}) == 2
