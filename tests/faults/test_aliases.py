"""The whole flow with the app on a second alias by DATABASE_ROUTERS: nothing of it touches the default database."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import psycopg
import pytest
from django.contrib.auth.models import Group
from django.db import connection
from psycopg import sql
from psycopg.conninfo import make_conninfo

from jobqueue.models import Job
from jobqueue.outcomes import Outcome
from jobqueue.states import Status
from tests.connections import database_conninfo
from tests.worker.effects import Effects
from tests.worker.kinds import Enqueue, Launch, WaitFor
from tests.worker.launching import ROOT
from tests.worker.test_outcomes import finished
from tests.worker.waiting import until

SCRIPT = """
import asyncio
from django.contrib.auth.models import Group
from django.db import transaction
from jobqueue.models import Job

print(Job.objects.write_db)
with transaction.atomic(using="jobs"):
    Job.objects.enqueue("probe.ok", dedupe_key="rolled back")
    transaction.set_rollback(True, using="jobs")
with transaction.atomic():  # of the other database: no common transaction, the job commits by itself
    Group.objects.create(name="rolled back")
    Job.objects.enqueue("probe.ok", dedupe_key="committed by itself")
    transaction.set_rollback(True)
with transaction.atomic(using="jobs"):
    print(Job.objects.get_or_enqueue("probe.ok", dedupe_key="one")[1])
    print(Job.objects.get_or_enqueue("probe.ok", dedupe_key="one")[1])
    Job.objects.enqueue_many([("probe.ok", {})] * 3)
asyncio.run(Job.objects.aenqueue("probe.ok"))
print(Group.objects.count())
"""
OWN_CONNECTIONS = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    " AND application_name LIKE 'jobqueue %' AND application_name NOT LIKE 'jobqueue child%'"
)
JOBS_TABLES = "SELECT count(*) FROM pg_tables WHERE tablename LIKE 'jobqueue%'"


@dataclass
class TwoDatabases:
    """The environment of a project with two databases, and the connection strings of both."""

    env: dict[str, str]
    default: str
    empty: str
    empty_url: str

    def manage(self, *arguments: str, **env: str) -> str:
        """Run manage.py in that project; returns what it printed."""
        done = subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT,
            env=self.env | env,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture
def two(worker_env: dict[str, str]) -> Iterator[TwoDatabases]:
    """Give a project whose jobs are on the test's database and whose other tables are on a new, empty one."""
    jobs = str(connection.settings_dict["NAME"])
    names = [f"{jobs}_default", f"{jobs}_empty"]
    with psycopg.connect(make_conninfo(database_conninfo(), dbname="postgres"), autocommit=True) as server:
        for name in names:
            server.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))
            server.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        urls = [worker_env["DATABASE_URL"].replace(f"/{jobs}", f"/{name}") for name in names]
        env = worker_env | {"DJANGO_SETTINGS_MODULE": "tests.two_databases", "PROBE_DEFAULT_URL": urls[0]}
        infos = [make_conninfo(database_conninfo(), dbname=name) for name in names]
        yield TwoDatabases(env, infos[0], infos[1], urls[1])
        for name in names:
            server.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


def ask(conninfo: str, query: str) -> int:
    """Return the one number that a query gives on a database."""
    with psycopg.connect(conninfo, autocommit=True) as raw:
        row = raw.execute(query.encode()).fetchone()
    assert row is not None
    return int(row[0])


def test_migrate_keeps_the_tables_on_their_alias(two: TwoDatabases) -> None:
    """C150: `migrate` leaves the default database without a table of ours, `migrate --database` makes them all."""
    two.manage("migrate", "--verbosity", "0")
    assert ask(two.default, JOBS_TABLES) == 0
    assert ask(two.default, "SELECT count(*) FROM pg_tables WHERE tablename = 'auth_group'") == 1

    two.manage("migrate", "--database", "jobs", "--verbosity", "0", DATABASE_URL=two.empty_url)
    assert ask(two.empty, JOBS_TABLES) >= 5
    assert ask(two.empty, "SELECT count(*) FROM pg_tables WHERE tablename = 'auth_group'") == 0


def test_the_whole_flow_stays_on_the_jobs_alias(
    two: TwoDatabases,
    launch: Launch,
    enqueue: Enqueue,
    wait_for: WaitFor,
    effects: Effects,
    heard: Callable[[], list[str]],
) -> None:
    """C150: enqueue, wake, run, retry, reap, cancel and the commands; default has no table that could be asked."""
    two.manage("migrate", "--verbosity", "0")
    routed = {name: two.env[name] for name in ("DJANGO_SETTINGS_MODULE", "PROBE_DEFAULT_URL")}
    lost = launch("--processes", "1", POLL_SECONDS=30, env=routed)
    running = enqueue("mark", seconds=2)
    effects.wait("start")
    lost.kill_all()
    launch(POLL_SECONDS=30, env=routed)
    assert wait_for(running, within=25).attempts == 2, "reaped on the alias"
    heard()

    jobs, created, again, groups = two.manage("shell", "-c", SCRIPT).split()[-4:]
    assert (jobs, created, again, groups) == ("jobs", "True", "False", "0")
    ours = list(Job.objects.filter(job_type="probe.ok"))
    assert sorted(job.dedupe_key or "" for job in ours) == ["", "", "", "", "committed by itself", "one"]
    assert {job.status for job in finished(ours, within=5)} == {Status.DONE}, "by the hint: the poll is far away"
    assert set(heard()) <= {"default"}

    dead = ends_of_every_kind(enqueue, wait_for, effects)
    two.manage("jobqueue_redrive", "--type", "probe.boom_in", "--yes")
    until(lambda: Job.objects.get(pk=dead.pk).lease_epoch == 4, what="run twice again")
    with connection.cursor() as cursor:
        cursor.execute("UPDATE jobqueue_job SET finished_at = finished_at - interval '1 min' WHERE status = 3")
    two.manage("jobqueue_prune", "--status", "done", "--older-than", "1s")
    assert not Job.objects.filter(pk=running.pk).exists()
    assert "dead letters" in two.manage("jobqueue_ops")
    assert ask(two.default, OWN_CONNECTIONS) == 0
    assert not Group.objects.exists()


def ends_of_every_kind(enqueue: Enqueue, wait_for: WaitFor, effects: Effects) -> Job:
    """Have jobs end well, late, dead and cancelled; returns the dead one."""
    flaky, dead, orm = enqueue("flaky", failures=1), enqueue("boom_in", text="boom"), enqueue("orm")
    stopped, outside = enqueue("tidy_stop", seconds=60), enqueue("complete", name="g")
    effects.wait("start", job_id=stopped.pk)
    Job.objects.cancel(stopped.pk)
    assert wait_for(stopped, Status.CANCELLED, within=5).outcome == Outcome.CANCELLED
    assert wait_for(flaky).attempts == 2
    assert wait_for(dead, Status.DEAD).attempts == 2
    assert wait_for(orm).result == 0, "the handler's own queries go to the default database"
    assert "needs an open transaction.atomic(using='jobs')" in wait_for(outside, Status.DEAD).last_error
    until(lambda: Job.objects.filter(job_type="jobqueue.notify", status=Status.DONE).exists(), what="told of it")
    return dead
