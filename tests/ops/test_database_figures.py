"""The snapshot's database: who holds old snapshots, dead rows and vacuum, sizes, connections, NOTIFY."""

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from django.db import connection, transaction
from psycopg import sql

from jobqueue.models import Job
from jobqueue.ops.database import DatabaseFigures, table_names
from jobqueue.states import Status
from tests.connections import SecondConnection, database_conninfo
from tests.factories import JobFactory, WorkerFactory, ago
from tests.worker.waiting import until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("patient")]


def database() -> DatabaseFigures:
    taken = Job.objects.ops(fresh=True)
    assert taken.unknown == frozenset()
    return taken.database


def test_the_holder_of_the_oldest_snapshot_is_named(second_connection: SecondConnection) -> None:
    """Case C104: a report that reads for hours is found before anything is slow."""
    second_connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    second_connection.execute("SELECT 1")
    for _ in range(3):
        JobFactory.create()

    figures = database()

    holder = figures.oldest_snapshot_by
    assert holder is not None
    assert (holder.kind, holder.name, holder.pid) == ("session", "second_connection", second_connection.pid)
    assert (holder.state, holder.user) == ("idle in transaction", connection.settings_dict["USER"])
    assert 0 < figures.oldest_snapshot_sec < 60
    assert figures.oldest_snapshot_xids >= 3
    until(lambda: database().oldest_snapshot_sec > figures.oldest_snapshot_sec, what="an age that grows")


def test_a_writer_holds_one_too(second_connection: SecondConnection) -> None:
    """At READ COMMITTED an idle transaction has no snapshot, but its own writes keep it from being passed by."""
    second_connection.execute("CREATE TEMPORARY TABLE written AS SELECT 1")

    holder = database().oldest_snapshot_by

    assert holder is not None
    assert holder.pid == second_connection.pid


def test_an_idle_transaction_without_a_snapshot_holds_nothing_back(second_connection: SecondConnection) -> None:
    second_connection.execute("SELECT 1")

    figures = database()

    assert figures.oldest_snapshot_by is None or figures.oldest_snapshot_by.pid != second_connection.pid


def test_a_session_in_another_database_holds_nothing_of_ours_back() -> None:
    with psycopg.connect(psycopg.conninfo.make_conninfo(database_conninfo(), dbname="postgres")) as other:
        other.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        other.execute("SELECT 1")

        holder = database().oldest_snapshot_by

    assert holder is None or holder.pid != other.info.backend_pid


def test_ones_own_statement_is_no_holder_and_ones_own_old_transaction_is() -> None:
    connection.ensure_connection()
    own = connection.connection.info.backend_pid
    with transaction.atomic():
        assert own not in _holders()

        until(lambda: own in _holders(), what="the own transaction, a second old")


def _holders() -> list[int | None]:
    holder = database().oldest_snapshot_by
    return [holder.pid] if holder else []


def test_dead_rows_and_the_last_vacuum_are_told() -> None:
    """Case C104."""
    JobFactory.create_batch(20)
    Job.objects.filter(status=Status.PENDING).update(priority=7)

    def jobs() -> Any:
        return next(one for one in database().tables if one.table == "jobqueue_job")

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_force_next_flush()")
    until(lambda: jobs().dead_rows >= 20, what=lambda: f"20 dead rows, not {jobs()}")
    before = jobs()
    with connection.cursor() as cursor:
        cursor.execute("VACUUM jobqueue_job")

    until(lambda: jobs().last_vacuum not in (None, before.last_vacuum), what="a time of the vacuum")
    assert jobs().table_bytes > 0
    assert jobs().index_bytes > 0


def test_all_our_tables_are_told_the_one_of_jobs_first() -> None:
    assert [one.table for one in database().tables] == table_names()
    assert table_names()[0] == "jobqueue_job"
    assert {"jobqueue_attempt", "jobqueue_stat", "jobqueue_cost", "jobqueue_worker"} <= {*table_names()}


@pytest.fixture
def named() -> Iterator[Callable[[str], None]]:
    """Return the function that opens a connection with an application_name."""
    opened = []

    def open_one(name: str) -> None:
        opened.append(psycopg.connect(database_conninfo(), application_name=name, autocommit=True))

    yield open_one
    for each in opened:
        each.close()


def test_connections_of_ours_are_counted_by_role(named: Callable[[str], None]) -> None:
    for name in ("jobqueue dispatch w:1", "jobqueue dispatch w:2", "jobqueue lease w:1", "jobqueuer", "web"):
        named(name)

    figures = database()

    assert {role: figures.connections[role] for role in ("dispatch", "lease")} == {"dispatch": 2, "lease": 1}
    assert not {"", "web", "jobqueuer"} & {*figures.connections}
    assert 6 <= figures.connections_used <= figures.connections_max


def test_skews_and_notify_are_of_living_workers() -> None:
    WorkerFactory.create(worker_id="a", clock_skew_seconds=2.5, listening=False)
    WorkerFactory.create(worker_id="b", listening=None)
    WorkerFactory.create(worker_id="c", clock_skew_seconds=9, listening=True, heartbeat_at=ago(3_600))
    assert (database().clock_skew_sec, database().notify) == ({"a": 2.5}, False)

    WorkerFactory.create(worker_id="d", clock_skew_seconds=-1, listening=True)

    assert (database().clock_skew_sec, database().notify) == ({"a": 2.5, "d": -1}, True)
    assert 0 <= database().notify_queue_usage <= 1


def test_notify_that_is_off_is_not_in_use(settings: Any) -> None:
    settings.JOBQUEUE = {**settings.JOBQUEUE, "NOTIFY": False}
    WorkerFactory.create(listening=True)

    assert database().notify is False


@pytest.fixture
def restricted() -> Iterator[str]:
    """Return a user who may read our tables, but not all that other users' sessions do."""
    user = "jobqueue_restricted"
    with connection.cursor() as cursor:
        cursor.execute(f"DROP ROLE IF EXISTS {user}")
        cursor.execute(f"CREATE ROLE {user}")
        cursor.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {user}")
        try:
            yield user
        finally:
            cursor.execute("RESET ROLE")
            cursor.execute(f"DROP OWNED BY {user}")
            cursor.execute(f"DROP ROLE {user}")


def test_a_user_without_the_right_to_see_all_sessions_is_told_so(
    restricted: str, second_connection: SecondConnection
) -> None:
    second_connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    second_connection.execute("SELECT 1")
    assert database().sees_all_sessions is True

    with connection.cursor() as cursor:
        cursor.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(restricted)))
        figures = database()

    assert figures.sees_all_sessions is False
    assert figures.oldest_snapshot_by is not None
    assert (figures.oldest_snapshot_by.pid, figures.oldest_snapshot_by.state) == (second_connection.pid, "")
    assert figures.oldest_snapshot_sec is None
    assert figures.connections_used >= 2
    assert figures.tables[0].table_bytes > 0
