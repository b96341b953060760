"""The database goes away, answers late or refuses: the worker holds on, tries again, and loses nothing."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta

import psycopg
import pytest
from django.db import connection
from django.utils import timezone

from jobqueue.models import Attempt, Job
from jobqueue.outcomes import Outcome
from jobqueue.states import Status
from tests.connections import SecondConnection, database_conninfo

from . import processes
from .effects import Effects
from .forwarder import Forwarder
from .kinds import Enqueue, Launch, WaitFor
from .test_outcomes import finished
from .waiting import holds_for, until

NO_MORE_FAILING = "DROP TRIGGER probe_fail ON jobqueue_job; DROP FUNCTION probe_fail; DROP SEQUENCE probe_failures"


@contextmanager
def failing_change(condition: str, code: str) -> Iterator[None]:
    """Have a trigger refuse to change jobs where the condition holds, with that SQLSTATE."""
    with connection.cursor() as cursor:
        cursor.execute("CREATE SEQUENCE probe_failures")
        cursor.execute(
            "CREATE FUNCTION probe_fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            f" IF {condition} THEN RAISE 'probe fails' USING ERRCODE = '{code}'; END IF;"
            " RETURN NEW; END $$"
        )
        cursor.execute(
            "CREATE TRIGGER probe_fail BEFORE UPDATE ON jobqueue_job FOR EACH ROW EXECUTE FUNCTION probe_fail()"
        )
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute(NO_MORE_FAILING)


def test_a_finish_that_fails_is_written_again(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    """C19: two serialization failures at the finish; the job ran once, and well."""
    with failing_change("NEW.status = 3 AND nextval('probe_failures') <= 2", "40001"):
        launch("--processes", "1")
        done = wait_for(enqueue("mark"))

    assert (done.attempts, effects.count("start")) == (1, 1)
    assert not Attempt.objects.exists()


def test_a_finish_that_the_project_refuses_holds_up_no_other(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    """C19: a trigger of the project's raises for one job; it alone waits until somebody has mended that."""
    with failing_change("NEW.status = 3 AND NEW.priority = 99", "P0001"):
        launch("--processes", "1")
        refused = enqueue("mark", _priority=99)
        others = [enqueue("ok") for _ in range(40)]

        assert {job.status for job in finished(others, within=8)} == {Status.DONE}
        assert Job.objects.get(pk=refused.pk).status == Status.RUNNING
    assert wait_for(refused).attempts == 1
    assert effects.count("start") == 1


def test_a_finish_waits_for_a_database_that_is_away(
    launch: Launch,
    enqueue: Enqueue,
    wait_for: WaitFor,
    effects: Effects,
    proxy: Forwarder,
    through_proxy: dict[str, str],
) -> None:
    """C19: the connections are cut just before the handler returns, and come back within the lease."""
    proxy.open()
    launch("--processes", "1", LEASE_SECONDS=20, env=through_proxy)
    job = enqueue("mark", seconds=1)
    effects.wait("start")

    proxy.shut()
    effects.wait("end")
    holds_for(1, lambda: Job.objects.get(pk=job.pk).status == Status.RUNNING)
    proxy.open()

    done = wait_for(job)
    assert (done.attempts, effects.count("start")) == (1, 1)
    assert not Attempt.objects.exists()


def terminate_all() -> int:
    """End every connection of workers, as a server's restart does; returns how many."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database()"
            " AND application_name LIKE 'jobqueue%'"
        )
        return int(cursor.fetchone()[0])


def test_cut_connections_come_back(launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects) -> None:
    """C25: every backend of two workers is ended five times; none exits, the long job ends once, new ones start."""
    workers = [launch("--processes", "1", LEASE_SECONDS=20) for _ in range(2)]
    finished([enqueue("orm") for _ in range(8)])
    long = enqueue("mark", seconds=3)
    effects.wait("start")

    for _ in range(5):
        assert terminate_all() >= 2
        holds_for(0.4, lambda: all(worker.code is None for worker in workers))

    assert {job.attempts for job in finished([enqueue("orm") for _ in range(8)])} == {1}
    assert wait_for(long).attempts == 1
    assert effects.count("start") == 1
    until(lambda: len(roles()) >= 10, what=lambda: str(roles()))


def roles() -> list[str]:
    """Return the application names of workers' connections, handlers' included."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT application_name FROM pg_stat_activity WHERE datname = current_database()"
            " AND application_name LIKE 'jobqueue%'"
        )
        return sorted(row[0] for row in cursor.fetchall())


def test_no_database_socket_is_shared_between_processes(launch: Launch, enqueue: Enqueue, effects: Effects) -> None:
    """C28: neither between supervisor, zygote and children, nor between two children."""
    worker = launch("--processes", "3")
    finished([enqueue("orm") for _ in range(60)])
    for _ in range(3):
        enqueue("mark", seconds=1)
    effects.wait("start", times=3)

    port = int(connection.settings_dict["PORT"])
    family = [worker.pid, worker.zygote, *worker.children]
    servers = processes.server_inodes(port)
    found = {pid: servers & processes.socket_inodes(pid) for pid in family}

    assert found[worker.zygote] == set()
    assert len(found[worker.pid]) >= 5
    every = [inode for inodes in found.values() for inode in inodes]
    assert len(every) == len(set(every))


def test_connections_are_counted_and_named(launch: Launch, enqueue: Enqueue, effects: Effects) -> None:
    """C70: five a worker and one a child, though jobs fail and children are killed; each tells role and worker."""
    worker = launch("--processes", "3")
    for round_ in range(3):
        finished([enqueue("orm") for _ in range(50)] + [enqueue("boom", _max_attempts=1) for _ in range(5)])
        finished([enqueue("killed_by_itself", _max_attempts=1) for _ in range(2)])
        assert len(roles()) <= 5 + 3 + 2, round_

    until(lambda: len(roles()) <= 5 + 3, what=lambda: str(roles()))
    for role in ("dispatch", "settle", "lease", "maintenance", "listener"):
        assert f"jobqueue {role} {worker.worker_id}" in roles()


def test_a_locked_row_holds_up_no_other_job(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects, second_connection: SecondConnection
) -> None:
    """C74: somebody holds the row of a running job; it alone waits to be finished."""
    launch("--processes", "2", LEASE_SECONDS=20)
    job = enqueue("mark", seconds=0.5)
    effects.wait("start")
    second_connection.lock(job)
    effects.wait("end")

    others = [enqueue("ok") for _ in range(30)]
    assert {each.status for each in finished(others, within=6)} == {Status.DONE}
    second_connection.rollback()

    assert wait_for(job).attempts == 1


@pytest.fixture
def garbage() -> object:
    """Return the function that sends nonsense on the channel, from a thread, until called again."""
    ended = threading.Event()

    def send() -> None:
        payloads = [
            "",
            "x" * 7000,
            "no such queue",
            "é;--",
            "!cancel",
            "!cancel someone-else",
            "!echo x",
            "\t\n",
            "a.b",
        ]
        with psycopg.connect(database_conninfo(), autocommit=True) as raw:
            while not ended.is_set():
                for payload in payloads:
                    with suppress(psycopg.Error):
                        raw.execute("SELECT pg_notify('jobqueue', %s)", [payload])

    thread = threading.Thread(target=send)
    thread.start()
    yield thread
    ended.set()
    thread.join(10)


def test_garbage_on_the_channel_is_ignored(launch: Launch, enqueue: Enqueue, garbage: object) -> None:
    """C167: a hint is a hint; thousands of false ones cost no line in the log and no job."""
    worker = launch("--processes", "1")

    done = finished([enqueue("ok") for _ in range(100)])

    assert {job.outcome for job in done} == {Outcome.DONE}
    assert worker.log.count("\n") < 15, worker.log


def test_jobs_claimed_while_strays_cannot_be_given_back_run_all_the_same(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, make_job: Enqueue
) -> None:
    """C25: the look for claims whose answer was lost fails after a reconnect; it held up what was claimed before it."""
    worker = launch("--processes", "1")
    with failing_change("OLD.status = 2 AND NEW.status = 1", "P0001"):
        stray = make_job(
            job_type="probe.ok",
            status=Status.RUNNING,
            worker_id=worker.worker_id,
            lease_epoch=1,
            attempts=1,
            lease_until=timezone.now() + timedelta(hours=1),
        )
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE %s",
                ["jobqueue dispatch %"],
            )
        assert wait_for(enqueue("mark")).attempts == 1
        assert wait_for(enqueue("mark")).attempts == 1
        assert "strays not given back yet" in worker.log

    assert (wait_for(stray).lease_epoch, stray.attempts) == (2, 1)


def test_what_was_claimed_before_another_queues_claim_failed_runs(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor
) -> None:
    """C25: one claim is several statements where slots are reserved; a queue that cannot be claimed stops no other."""
    with failing_change("NEW.status = 2 AND NEW.queue = 'b'", "57014"):
        other = enqueue("mark", _queue="b")
        job = enqueue("mark", _queue="a")
        worker = launch("--processes", "2", "--queues", "a:1,b")
        assert wait_for(job).attempts == 1
        worker.says("claim failed in part")

    assert wait_for(other).attempts == 1
