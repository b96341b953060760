"""A worker thread's own connection: named, time-limited, READ COMMITTED, reconnecting, cut from another thread."""

import threading
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.db import DatabaseError, IntegrityError, OperationalError, connections, transaction
from django.db.backends.signals import connection_created

from jobqueue.managers import Span, leasing, sessions
from jobqueue.managers.sessions import BY_KEY, PLANNED_ONCE, Session
from jobqueue.models import Job, Queue
from tests.connections import Watcher

SLOW_COMMIT = """
CREATE FUNCTION probe_slow_commit() RETURNS trigger LANGUAGE plpgsql
    AS $$ BEGIN PERFORM pg_sleep(5); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER probe_slow_commit AFTER INSERT ON jobqueue_queue DEFERRABLE INITIALLY DEFERRED
   FOR EACH ROW WHEN (NEW.name = 'slow') EXECUTE FUNCTION probe_slow_commit()
"""

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def session() -> Iterator[Session]:
    session = Session("default", "jobqueue test", timeout=timedelta(seconds=5))
    try:
        yield session
    finally:
        session.close()


def value(session: Session, statement: str) -> Any:
    return session.run(statement)[0][0]


def end_backend(session: Session, watcher: Watcher) -> None:
    """End the session's backend, and return when the server has."""
    pid = session.connect().info.backend_pid
    watcher.raw.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])


def test_it_is_a_connection_of_its_own_named_by_role(session: Session) -> None:
    """Case C70: application_name tells who it is."""
    with connections["default"].cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        django_pid = cursor.fetchone()[0]

    assert value(session, "SELECT pg_backend_pid()") != django_pid
    assert value(session, "SHOW application_name") == "jobqueue test"


def test_receivers_that_ask_by_the_alias_ask_on_it(session: Session) -> None:
    """Case C70: django.contrib.postgres does, and would leave this thread with a second connection for good."""
    seen: list[int] = []

    def ask(connection: Any, **_: Any) -> None:
        with connections[connection.alias].cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            seen.append(cursor.fetchone()[0])

    own = connections["default"]
    connection_created.connect(ask)
    try:
        mine = value(session, "SELECT pg_backend_pid()")
    finally:
        connection_created.disconnect(ask)

    assert seen == [mine]
    assert connections["default"] is own, "given back to the thread"


def test_every_statement_is_limited_and_read_committed(session: Session) -> None:
    """Case C72: the claim statement has a timeout."""
    assert value(session, "SHOW statement_timeout") == "5s"
    assert value(session, "SHOW lock_timeout") == "500ms"
    assert value(session, "SHOW transaction_isolation") == "read committed"
    assert not session.pooled


def test_the_isolation_is_its_own_whatever_the_projects_is(monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"isolation_level": psycopg.IsolationLevel.SERIALIZABLE}
    monkeypatch.setitem(connections["default"].settings_dict, "OPTIONS", options)
    session = Session("default", "jobqueue test")
    try:
        assert value(session, "SHOW transaction_isolation") == "read committed"
        with session.transaction():
            assert value(session, "SHOW transaction_isolation") == "read committed"
    finally:
        session.close()


def test_a_statement_that_takes_too_long_is_stopped_and_the_session_lives() -> None:
    session = Session("default", "jobqueue test", timeout=timedelta(milliseconds=100))
    try:
        with pytest.raises(OperationalError, match="statement timeout"):
            session.run("SELECT pg_sleep(5)")

        assert (value(session, "SELECT 1"), session.connects, session.away) == (1, 1, False)
    finally:
        session.close()


@pytest.mark.parametrize("prepared", [True, False])
def test_statements_are_prepared_unless_the_setting_says_no(prepared: bool, session: Session, settings: Any) -> None:
    """Case C68: off by one setting, for poolers that cannot have them."""
    settings.JOBQUEUE = {**settings.JOBQUEUE, "PREPARED": prepared}
    session.run("SELECT %(x)s::int", {"x": 1})
    session.run("SELECT %(x)s::int", {"x": 2})

    found = session.run("SELECT statement FROM pg_prepared_statements WHERE statement = 'SELECT $1::int'")

    assert bool(found) == prepared


def test_a_claim_is_planned_once() -> None:
    """To plan it took as long as to do it; the server would have done it for each one."""
    session = Session("default", "jobqueue test", options=BY_KEY | PLANNED_ONCE)
    spans, lease = [Span("q", 1)], timedelta(seconds=60)
    try:
        for _ in range(20):
            leasing.claim(session.run, spans=spans, worker_id="w", lease=lease, total=1)

        counts = session.run(
            "SELECT generic_plans, custom_plans FROM pg_prepared_statements WHERE starts_with(statement, %(text)s)",
            {"text": "-- Claim due jobs"},
        )
    finally:
        session.close()

    assert counts == [(20, 0)]


@pytest.mark.parametrize("scoped", [False, True], ids=["direct", "pooled"])
def test_settings_of_the_server_hold_for_the_session_alone(scoped: bool) -> None:
    """`scoped` is what a pooler makes of a session: it says its limits in each transaction."""
    session = Session("default", "jobqueue test", options={"synchronous_commit": "off", "enable_seqscan": "off"})
    try:
        session.connect()
        session._scoped = scoped
        if scoped:
            session.connect().execute("SET synchronous_commit = on")

        assert value(session, "SHOW synchronous_commit") == "off"
        assert value(session, "SHOW enable_seqscan") == "off"
        if scoped:
            assert session.connect().execute("SHOW synchronous_commit").fetchone() == ("on",)
    finally:
        session.close()


def test_each_run_is_committed_at_once(session: Session) -> None:
    """Case C115: no session of the worker is idle in a transaction."""
    session.run("INSERT INTO jobqueue_job (job_type) VALUES ('probe.ok')")

    assert Job.objects.count() == 1
    assert session.connect().info.transaction_status == psycopg.pq.TransactionStatus.IDLE


def test_a_transaction_holds_together(session: Session) -> None:
    with suppress(ZeroDivisionError), session.transaction():
        session.run("INSERT INTO jobqueue_job (job_type) VALUES ('probe.ok')")
        raise ZeroDivisionError
    assert Job.objects.count() == 0

    with session.transaction():
        session.run("INSERT INTO jobqueue_job (job_type) VALUES ('probe.ok')")
        session.run("INSERT INTO jobqueue_job (job_type) VALUES ('probe.ok')")
    assert Job.objects.count() == 2


def test_errors_are_djangos_and_leave_the_session_usable(session: Session) -> None:
    session.run("INSERT INTO jobqueue_job (job_type, dedupe_key) VALUES ('probe.ok', 'k')")

    with pytest.raises(IntegrityError):
        session.run("INSERT INTO jobqueue_job (job_type, dedupe_key) VALUES ('probe.ok', 'k')")

    assert (value(session, "SELECT 1"), session.connects) == (1, 1)


def test_a_broken_connection_is_an_error_once_and_then_replaced(session: Session, watcher: Watcher) -> None:
    """Case C25: no dead connection is used for ever."""
    first = session.server
    assert value(session, "SELECT 1") == 1
    end_backend(session, watcher)

    with pytest.raises(DatabaseError):
        session.run("SELECT 1")
    assert session.away

    assert (value(session, "SELECT 1"), session.connects, session.away) == (1, 2, False)
    assert session.server != first


def test_a_broken_transaction_is_an_error_and_nothing_of_it_stays(session: Session, watcher: Watcher) -> None:
    with suppress(DatabaseError), session.transaction():
        session.run("INSERT INTO jobqueue_job (job_type) VALUES ('probe.ok')")
        end_backend(session, watcher)
        session.run("INSERT INTO jobqueue_job (job_type) VALUES ('probe.ok')")
        pytest.fail("the second statement found no connection and said nothing")

    assert (Job.objects.count(), value(session, "SELECT 1")) == (0, 1)


def test_a_thread_that_waits_for_an_answer_is_cut_loose_from_another(session: Session, watcher: Watcher) -> None:
    """Case C60, C72: a half-open connection must not hold a thread."""
    session.connect()
    errors: list[Exception] = []

    def wait() -> None:
        try:
            session.run("SELECT pg_sleep(4)")
        except DatabaseError as error:
            errors.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    watcher._until(
        lambda: bool(
            watcher.raw.execute(
                "SELECT 1 FROM pg_stat_activity WHERE application_name = 'jobqueue test' AND query LIKE '%pg_sleep(4)'"
            ).fetchone()
        ),
        "the statement does not run",
    )
    session.abort()
    thread.join(timeout=3)

    assert not thread.is_alive()
    assert len(errors) == 1
    assert value(session, "SELECT 1") == 1


def test_an_answer_in_time_is_no_reason_to_cut(session: Session) -> None:
    session.run("SELECT 1")

    session.abort_if_unanswered()

    assert (value(session, "SELECT 1"), session.connects) == (1, 1)


def test_a_database_that_is_not_there_is_said_and_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    wrapper = connections["default"]
    monkeypatch.setitem(wrapper.settings_dict, "PORT", 1)
    session = Session("default", "jobqueue test")

    with pytest.raises(OperationalError):
        session.run("SELECT 1")
    assert session.away
    monkeypatch.undo()

    assert (value(session, "SELECT 1"), session.away) == (1, False)
    session.close()


def test_where_a_pooler_drops_the_limits_each_statement_says_them(session: Session) -> None:
    """Case C68: PgBouncer refuses or ignores start-up parameters; SET LOCAL then does it, without session state."""
    session.connect()
    session._scoped = True

    assert value(session, "SELECT current_setting('statement_timeout')") == "5s"
    assert session.connect().info.transaction_status == psycopg.pq.TransactionStatus.IDLE
    with pytest.raises(DatabaseError):
        session.run("SELECT 1/0")
    assert value(session, "SELECT 1") == 1
    with session.transaction():
        assert value(session, "SELECT current_setting('lock_timeout')") == "500ms"


def test_where_a_pooler_drops_the_isolation_each_transaction_says_it(session: Session) -> None:
    """Guards: the isolation and READ WRITE of the transaction itself, whatever the server process was left with."""
    session.connect().execute("SET default_transaction_isolation = 'serializable'")
    session.connect().execute("SET default_transaction_read_only = on")
    session._scoped = True

    assert value(session, "SHOW transaction_isolation") == "read committed"
    assert value(session, "SHOW transaction_read_only") == "off"
    with session.transaction():
        assert value(session, "SHOW transaction_isolation") == "read committed"


def test_a_commit_whose_answer_is_overdue_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody watched over BEGIN and COMMIT: a silent network held maintenance for a quarter of an hour."""
    monkeypatch.setattr(sessions, "ANSWER_MARGIN", timedelta(0))
    session = Session("default", "jobqueue test", timeout=timedelta(milliseconds=300))
    watch = threading.Timer(0.6, session.abort_if_unanswered)
    with connections["default"].cursor() as cursor:
        cursor.execute(SLOW_COMMIT)

    def commit() -> None:
        with session.transaction():
            session.run("INSERT INTO jobqueue_queue (name) VALUES ('slow')")
            session.run("SELECT set_config('statement_timeout', '0', true)")
            watch.start()

    try:
        with pytest.raises(OperationalError, match="no answer from the database"):
            commit()
        assert session.away
        assert value(session, "SELECT 1") == 1
    finally:
        watch.cancel()
        session.close()
        with connections["default"].cursor() as cursor:
            cursor.execute("DROP FUNCTION probe_slow_commit CASCADE")


def test_a_transaction_that_cannot_begin_says_that_the_database_is_away(session: Session, watcher: Watcher) -> None:
    assert value(session, "SELECT 1") == 1
    end_backend(session, watcher)

    with pytest.raises(DatabaseError), session.transaction():
        pytest.fail("nothing began")

    assert session.away
    assert (value(session, "SELECT 1"), session.connects, session.away) == (1, 2, False)


def test_djangos_orm_works_on_a_connection_that_is_lent(session: Session) -> None:
    pid, before = session.connect().info.backend_pid, connections["default"]

    with session.lent() as alias:
        with transaction.atomic(using=alias), connections[alias].cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid(), current_setting('statement_timeout')")
            assert cursor.fetchone() == (pid, "5s")
            Queue.objects.using(alias).create(name="lent")

    assert connections["default"] is before
    assert Queue.objects.filter(name="lent").exists()
    assert value(session, "SELECT pg_backend_pid()") == pid


def test_what_is_lent_prepares_nothing_and_is_read_committed_whatever_the_projects_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A pooler gives the next transaction another server process, which knows of no prepared statement."""
    options = {"isolation_level": psycopg.IsolationLevel.SERIALIZABLE}
    monkeypatch.setitem(connections["default"].settings_dict, "OPTIONS", options)
    session = Session("default", "jobqueue test")
    try:
        for _ in range(10):
            with session.lent() as alias, transaction.atomic(using=alias), connections[alias].cursor() as cursor:
                cursor.execute("SELECT current_setting('transaction_isolation'), count(*) FROM pg_prepared_statements")
                assert cursor.fetchone() == ("read committed", 0)
        for _ in range(10):
            session.run("SELECT 1")
        assert value(session, "SELECT count(*) FROM pg_prepared_statements") > 0
    finally:
        session.close()


def test_a_lent_connection_is_not_cut_for_many_statements_that_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has its own time: together they may take longer than one, on a busy server above all."""
    monkeypatch.setattr(sessions, "ANSWER_MARGIN", timedelta(0))
    session = Session("default", "jobqueue test", timeout=timedelta(milliseconds=500))
    try:
        with session.lent() as alias, transaction.atomic(using=alias), connections[alias].cursor() as cursor:
            for _ in range(4):
                cursor.execute("SELECT pg_sleep(0.2)")
                session.abort_if_unanswered()
    finally:
        session.close()


def test_a_lent_connection_is_cut_when_one_answer_is_overdue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "ANSWER_MARGIN", timedelta(0))
    session = Session("default", "jobqueue test", timeout=timedelta(milliseconds=300))
    watch = threading.Timer(0.6, session.abort_if_unanswered)

    def ask() -> None:
        with session.lent() as alias, transaction.atomic(using=alias), connections[alias].cursor() as cursor:
            cursor.execute("SELECT set_config('statement_timeout', '0', true)")
            watch.start()
            cursor.execute("SELECT pg_sleep(5)")

    try:
        with pytest.raises(OperationalError, match="no answer from the database"):
            ask()
    finally:
        watch.join()
        session.close()


def test_a_lent_connection_that_is_lost_is_made_anew(session: Session, watcher: Watcher) -> None:
    end_backend(session, watcher)

    with pytest.raises(OperationalError), session.lent() as alias:
        Queue.objects.using(alias).exists()
    assert session.away

    with session.lent() as alias:
        assert not Queue.objects.using(alias).exists()
    assert (session.away, session.connects) == (False, 2)
