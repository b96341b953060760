"""A worker starts when it can, says clearly why it cannot, and warns of what looks like a mistake."""

from collections.abc import Iterator

import psycopg
import pytest
from django.db import connection
from psycopg.conninfo import make_conninfo

from jobqueue.models import Job
from jobqueue.states import Status
from tests.connections import database_conninfo

from .effects import Effects
from .forwarder import Forwarder
from .kinds import Enqueue, Launch, WaitFor
from .waiting import until


def test_a_worker_waits_for_its_database(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, proxy: Forwarder, through_proxy: dict[str, str]
) -> None:
    """C162: with back-off, and then works; old dead letters do not trouble it."""
    job = enqueue("ok")
    worker = launch(wait=False, env=through_proxy)
    worker.says("waiting for the database", within=20)

    proxy.open()

    wait_for(job)
    assert "Traceback" not in worker.log


@pytest.fixture
def empty_database(worker_env: dict[str, str]) -> Iterator[dict[str, str]]:
    """Return the environment of a worker whose database has no tables."""
    name = f"{connection.settings_dict['NAME']}_empty"
    with psycopg.connect(make_conninfo(database_conninfo(), dbname="postgres"), autocommit=True) as server:
        server.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)'.encode())
        server.execute(f'CREATE DATABASE "{name}"'.encode())
        yield {"DATABASE_URL": worker_env["DATABASE_URL"].rpartition("/")[0] + f"/{name}"}
        server.execute(f'DROP DATABASE "{name}" WITH (FORCE)'.encode())


def test_missing_tables_are_said_in_one_line(launch: Launch, empty_database: dict[str, str]) -> None:
    """C162: exit code 1, no traceback."""
    worker = launch(wait=False, env=empty_database)

    assert worker.ends() == 1
    assert "run manage.py migrate" in worker.log
    assert "Traceback" not in worker.log


def test_missing_tables_are_said_also_when_the_database_comes_late(
    launch: Launch, empty_database: dict[str, str], proxy: Forwarder
) -> None:
    """C162: the look at the migrations is not lost with the first connection."""
    port = connection.settings_dict["PORT"]
    env = {"DATABASE_URL": empty_database["DATABASE_URL"].replace(f":{port}/", f":{proxy.port}/")}
    worker = launch(wait=False, env=env)
    worker.says("waiting for the database", within=20)

    proxy.open()

    assert worker.ends() == 1
    assert "run manage.py migrate" in worker.log
    assert "Traceback" not in worker.log


def test_a_pending_migration_is_said_by_its_name(launch: Launch) -> None:
    """C162, C117: tables that this version does not know yet are not worked on."""
    with connection.cursor() as cursor:
        cursor.execute(
            "DELETE FROM django_migrations WHERE (app, name) IN (SELECT app, name FROM django_migrations"
            " WHERE app = 'jobqueue' ORDER BY name DESC LIMIT 1) RETURNING name"
        )
        (name,) = cursor.fetchone()
    try:
        worker = launch(wait=False)

        assert worker.ends() == 1
        assert name in worker.log
    finally:
        with connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO django_migrations (app, name, applied) VALUES ('jobqueue', %s, statement_timestamp())",
                [name],
            )


def test_a_queue_that_nobody_knows_is_warned_of(launch: Launch) -> None:
    """C144: a typo in --queues would wait for ever in silence."""
    worker = launch("--queues", "mail,emial")

    worker.says("none has jobs: emial\n")


def test_debug_is_warned_of_and_remembers_no_queries(launch: Launch, enqueue: Enqueue, wait_for: WaitFor) -> None:
    """C164: DEBUG would keep every query of a long-lived process."""
    worker = launch("--processes", "1", env={"DEBUG": "1"})

    worker.says("DEBUG is on")
    remembered = [wait_for(enqueue("queries_remembered")).result for _ in range(3)]
    # The first one connects, and django.contrib.postgres asks each new connection for its types.
    assert remembered[1:] == [1, 1]
    assert remembered[0] <= 3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(["--queues", "a b"], "queue", id="queue name"),
        pytest.param(["--queues", "mail:0"], "at least 1 slot", id="no slot"),
        pytest.param(["--queues", "mail:2,default", "--processes", "2"], "leave none", id="all slots reserved"),
        pytest.param(["--job-types", "probe.nothing"], "no handler is registered for probe.nothing", id="unknown type"),
        pytest.param(["--job-types", "probe.ok"], "are also home to", id="shared home queue"),
        pytest.param(["--job-types", "probe.mail", "--queues", "mail"], "not both", id="types and queues"),
        pytest.param(["--lease", "1"], "5 to 3600", id="lease"),
        pytest.param(["--processes", "0"], "--processes must be from 1 to 1024, not 0", id="processes"),
        pytest.param(["--name", "x" * 41], "1 to 40 bytes", id="name"),
        pytest.param(["--database", "elsewhere"], "no such alias", id="alias"),
    ],
)
def test_options_that_cannot_work_are_refused(launch: Launch, arguments: list[str], words: str) -> None:
    worker = launch(*arguments, wait=False)

    assert worker.ends() == 2
    assert words in worker.log
    assert "Traceback" not in worker.log


def test_job_types_stand_for_their_home_queues(launch: Launch, enqueue: Enqueue, wait_for: WaitFor) -> None:
    launch("--job-types", "probe.mail")
    other = enqueue("ok")

    wait_for(enqueue("mail"))

    assert Job.objects.get(pk=other.pk).status == Status.PENDING


def test_a_handler_module_that_breaks_fails_its_own_jobs_only(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    """C58, C162: the worker starts, the error is stored with the job."""
    job = enqueue("ok", _max_attempts=1)
    worker = launch(env={"PROBE_BROKEN": "1"})

    dead = wait_for(job, Status.DEAD)

    assert "probe is broken" in dead.last_error
    assert "handlers not imported module=tests.probe.jobs" in worker.log
    until(lambda: Job.objects.filter(job_type="jobqueue.notify", status=Status.DONE).exists())
