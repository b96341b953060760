"""Migrations of a release beside the traffic of a big table: nobody's enqueue waits for one."""

import io
import re
import subprocess
import sys

import psycopg
import pytest
from django.core.management import call_command
from django.db import OperationalError, connection, models
from django.db.migrations.loader import MigrationLoader

from jobqueue.models import Job
from jobqueue.models.building import BuildIndex
from jobqueue.states import Status
from tests.connections import database_conninfo
from tests.worker.kinds import Launch
from tests.worker.launching import ROOT
from tests.worker.waiting import until

from .clients import Enqueuer, OldEnqueuer
from .measured import Recovery
from .migration_rules import complaints, statements
from .servers import PrivateServer

FIRST, LAST = "0001_initial", "0010_console_indexes"
BLOCKED_SECONDS = 1.0


@pytest.fixture
def transactional_db(big_table: None) -> None:
    """Use the big table where real migrations run."""


def later_migrations() -> list[str]:
    """Return the names of the migrations after the first, in order."""
    return [name for app, name in sorted(MigrationLoader(None).disk_migrations) if app == "jobqueue" and name != FIRST]


@pytest.mark.short
@pytest.mark.parametrize("backwards", [False, True], ids=["forwards", "backwards"])
@pytest.mark.parametrize("name", later_migrations())
@pytest.mark.django_db
def test_no_migration_after_the_first_hurts_a_table_in_use(name: str, backwards: bool) -> None:
    """C117: no lock that an enqueue waits for, no rewrite; indexes concurrently, and again after a cut."""
    out = io.StringIO()
    call_command("sqlmigrate", "jobqueue", name, backwards=backwards, stdout=out, no_color=True)
    migration = MigrationLoader(None).disk_migrations["jobqueue", name]

    assert complaints(statements(out.getvalue()), atomic=migration.atomic, backwards=backwards) == []


@pytest.mark.short
@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ('CREATE INDEX "x" ON "jobqueue_job" ("owner")', "blocks every enqueue"),
        ('CREATE UNIQUE INDEX "x" ON "jobqueue_job" ("owner")', "blocks every enqueue"),
        ('CREATE INDEX CONCURRENTLY "x" ON "jobqueue_job" ("owner")', "cannot be run again"),
        ('ALTER TABLE "jobqueue_job" ADD COLUMN "tag" text NOT NULL', "not known to be harmless"),
        ('ALTER TABLE "jobqueue_job" ADD COLUMN "tag" uuid DEFAULT gen_random_uuid() NOT NULL', "not known"),
        ('ALTER TABLE "jobqueue_job" ALTER COLUMN "attempts" TYPE integer', "not known to be harmless"),
        ('ALTER TABLE "jobqueue_job" ALTER COLUMN "owner" SET NOT NULL', "not known to be harmless"),
        ('ALTER TABLE "jobqueue_job" ADD CONSTRAINT "c" CHECK (attempts >= 0)', "not known to be harmless"),
        ('ALTER TABLE "jobqueue_job" ADD CONSTRAINT "u" UNIQUE ("owner")', "not known to be harmless"),
        ('DROP INDEX IF EXISTS "jobqueue_job_dead"', "drops an index under a lock"),
        ("UPDATE jobqueue_job SET owner = ''", "not known to be harmless"),
        ("LOCK TABLE jobqueue_job", "not known to be harmless"),
        ("VACUUM FULL jobqueue_job", "not known to be harmless"),
        ('ALTER TABLE "jobqueue_job" DROP COLUMN "owner" CASCADE', "not known to be harmless"),
        ('DROP TABLE "jobqueue_job" CASCADE', "not known to be harmless"),
    ],
)
def test_what_would_hurt_is_refused(sql: str, words: str) -> None:
    """C117: the check itself."""
    assert words in "".join(complaints(statements(f"BEGIN; {sql}; COMMIT;"), atomic=False))


@pytest.mark.short
@pytest.mark.parametrize(
    ("sql", "atomic", "refused"),
    [
        ('DROP INDEX CONCURRENTLY IF EXISTS "x"; CREATE INDEX CONCURRENTLY "x" ON "jobqueue_job" ("owner")', False, 0),
        ('DROP INDEX CONCURRENTLY IF EXISTS "x"; CREATE INDEX CONCURRENTLY "x" ON "jobqueue_job" ("owner")', True, 1),
        ('CREATE TABLE "jobqueue_new" ("id" bigint); CREATE INDEX "n" ON "jobqueue_new" ("id")', True, 0),
        ('ALTER TABLE "jobqueue_job" ADD COLUMN "tag" text NULL', True, 0),
        ('ALTER TABLE "jobqueue_job" ADD COLUMN "tag" text DEFAULT \'\' NOT NULL', True, 0),
        ("ALTER TABLE jobqueue_job SET (fillfactor = 90)", True, 0),
    ],
)
def test_what_is_harmless_passes(sql: str, atomic: bool, refused: int) -> None:
    """C117: the check is no bar to what a release needs."""
    assert len(complaints(statements(sql), atomic=atomic)) == refused


def migrate(environment: dict[str, str], name: str) -> None:
    """Run `manage.py migrate` as a deploy does that must not wait for locks."""
    subprocess.run(
        [sys.executable, "manage.py", "migrate", "jobqueue", name, "-v", "0"],
        cwd=ROOT,
        env={**environment, "PGOPTIONS": "-c lock_timeout=3s"},
        check=True,
        timeout=60,
    )


def index(name: str) -> bool | None:
    """Tell whether an index is valid, None where there is none."""
    with psycopg.connect(database_conninfo(), autocommit=True) as raw:
        row = raw.execute("SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)", [name]).fetchone()
    return None if row is None else bool(row[0])


def build(operation: BuildIndex) -> None:
    """Run the operation as a migration of the next release would."""
    state = MigrationLoader(connection).project_state()
    after = state.clone()
    operation.state_forwards("jobqueue", after)
    with connection.schema_editor(atomic=False) as editor:
        operation.database_forwards("jobqueue", editor, state, after)


def test_migrations_beside_four_workers_and_two_enqueuers_block_nobody(
    launch: Launch, worker_env: dict[str, str], recovery: Recovery, scale_server: PrivateServer
) -> None:
    """C117: on 2.6 million rows, from the first release forward, one by one; then an index, cut off once.

    A deploy migrates first, so the clients beside the migrations are those of the first release; workers and clients of
    this one start when it is done, and the next release's index is built beside them. Whatever was enqueued is run.
    """
    tag = models.Index(fields=["owner", "id"], name="jobqueue_job_next_release")
    migrate(worker_env, "0001")
    with OldEnqueuer() as old, OldEnqueuer() as older:
        for name in later_migrations():
            migrate(worker_env, name)

    workers = [launch("--processes", "1", RETENTION_DONE_SECONDS=10**8) for _ in range(4)]
    with Enqueuer() as one, OldEnqueuer() as other:
        with connection.cursor() as cursor:
            cursor.execute("SET statement_timeout = '600ms'")
        with pytest.raises(OperationalError):
            build(BuildIndex("job", tag))
        connection.close()
        assert index(tag.name) is False, "a build that was cut off leaves its ruin"
        build(BuildIndex("job", tag))
        assert index(tag.name) is True
        build(BuildIndex("job", tag))

    clients = (old, older, one, other)
    assert [error for client in clients for error in client.errors] == []
    waits = re.findall(r".*still waiting for \w+ on (?:relation|extension|tuple).*", scale_server.log_text)
    assert waits == [], "nobody waits for a lock on a table for a second"
    longest = max(client.longest for client in clients)
    recovery("the longest enqueue beside the migrations", longest, within=BLOCKED_SECONDS)
    assert min(client.enqueued for client in clients) > 50
    due = Job.objects.filter(status__in=[Status.PENDING, Status.RUNNING])
    until(lambda: not due.exists(), within=60, what="all that was enqueued meanwhile done")
    assert [worker.code for worker in workers] == [None] * 4
    assert "Traceback" not in "".join(worker.log for worker in workers)


def test_a_migrate_that_was_cut_off_is_run_again(worker_env: dict[str, str]) -> None:
    """C117: its connection ended while it builds the indexes of 2.6 million rows; the next one builds them all."""
    migrate(worker_env, "0009")
    command = [sys.executable, "manage.py", "migrate", "jobqueue", "0010", "-v", "0"]
    cut = subprocess.Popen(command, cwd=ROOT, env=worker_env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    with psycopg.connect(database_conninfo(), autocommit=True) as raw:
        until(
            lambda: raw.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_progress_create_index").fetchone(),
            within=60,
            what="an index that is built",
        )
    told, _ = cut.communicate(timeout=60)
    assert (cut.returncode, b"terminating connection" in told) == (1, True), told

    migrate(worker_env, "0010")

    with psycopg.connect(database_conninfo(), autocommit=True) as raw:
        ruins = raw.execute("SELECT indexrelid::regclass::text FROM pg_index WHERE NOT indisvalid").fetchall()
    assert ruins == []
    operations = MigrationLoader(None).disk_migrations["jobqueue", LAST].operations
    wanted = [operation.index.name for operation in operations if isinstance(operation, BuildIndex)]
    assert [name for name in wanted if not index(name)] == []
