"""One session of a worker, and its listener, behind a pooler: what they find out, and what they leave there."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection, connections
from psycopg import sql
from psycopg.conninfo import make_conninfo

from jobqueue.listener import Listener
from jobqueue.managers import sessions
from jobqueue.managers.sessions import Session
from jobqueue.managers.shortcut import KEPT, WORTH_PREPARING, KeptCursor
from jobqueue.models import Job
from tests.connections import database_conninfo
from tests.faults.pgbouncer import PgBouncer
from tests.worker.waiting import until

from .test_pgbouncer import DEAF, database

DROPS_OPTIONS = {"ignore_startup_parameters": "extra_float_digits,options"}
LIMIT = timedelta(seconds=5)


@pytest.fixture
def session() -> Iterator[Session]:
    """Return a session through the pooler."""
    session = Session("default", "jobqueue test", timeout=LIMIT)
    try:
        yield session
    finally:
        session.close()


@contextmanager
def database_default(name: str, value: str) -> Iterator[None]:
    """Have every new connection to the test database start with a setting."""
    names = [sql.Identifier(database()), sql.Identifier(name)]
    with connection.cursor() as cursor:
        cursor.execute(sql.SQL("ALTER DATABASE {} SET {} TO {}").format(*names, sql.Literal(value)))
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute(sql.SQL("ALTER DATABASE {} RESET {}").format(*names))


@pytest.mark.pooler(**DROPS_OPTIONS)
def test_a_pooler_is_known_although_the_limits_are_as_asked_for(session: Session, pooler: PgBouncer) -> None:
    """C68: the database's own default happens to be the worker's limit; nothing is prepared all the same."""
    with database_default("statement_timeout", f"{LIMIT.seconds}s"):
        pooler.admin("RECONNECT")
        others = [Session("default", "jobqueue test", timeout=LIMIT) for _ in range(3)]
        try:
            for number in range(20):
                for each in (session, *others):
                    assert each.run("SELECT %(x)s::int, current_setting('statement_timeout')", {"x": number}) == [
                        (number, "5s")
                    ]
            assert session.pooled
        finally:
            for each in others:
                each.close()

    assert pooler.left_set(database()) == []


@pytest.mark.short
@pytest.mark.pooler(server_round_robin=1)
def test_enqueues_one_by_one_through_a_pooler_prepare_nothing(pooler: PgBouncer) -> None:
    """C68: a web process's kept cursor finds the pooler out before it would prepare its statement."""
    jobs = [Job.objects.enqueue("probe.ok", {"number": number}) for number in range(3 * WORTH_PREPARING)]

    assert isinstance(vars(connections["default"]).get(KEPT), KeptCursor)
    assert Job.objects.filter(pk__in=[job.pk for job in jobs if job]).count() == 3 * WORTH_PREPARING
    assert pooler.left_set(database()) == []


@pytest.mark.short
def test_a_transaction_through_a_pooler_prepares_nothing(session: Session, pooler: PgBouncer) -> None:
    """C68: its statements are one transaction, but the next transaction may be on another server process."""
    for _ in range(3):
        with session.transaction():
            for number in range(10):
                session.run("SELECT %(x)s::int", {"x": number})

    assert pooler.left_set(database()) == []


def test_a_connection_that_the_pooler_does_not_serve_is_cut(
    session: Session, pooler: PgBouncer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C68, C72: accepted while PAUSEd, with its very first statement unanswered: no thread hangs there for good."""
    monkeypatch.setattr(sessions, "CONNECT_SECONDS", 1)
    session.timeout = timedelta(seconds=0.1)
    session.run("SELECT 1")
    session.close()
    errors: list[Exception] = []

    def run() -> None:
        try:
            session.run("SELECT 1")
        except OperationalError as error:
            errors.append(error)

    def cut() -> bool:
        session.abort_if_unanswered()
        return not thread.is_alive()

    pooler.admin("PAUSE")
    thread = threading.Thread(target=run)
    thread.start()
    try:
        until(cut, within=8, what="the thread's end")
    finally:
        pooler.admin("RESUME")
        thread.join(10)

    assert len(errors) == 1
    session.timeout = LIMIT
    assert session.run("SELECT 1") == [(1,)]


@pytest.fixture
def listening() -> Iterator[Callable[[], Listener]]:
    """Return the function that starts a listener of worker w1."""
    started: list[Listener] = []

    def start() -> Listener:
        started.append(Listener("default", "w1", hint=lambda queue, cancels=False: None))
        started[-1].start()
        return started[-1]

    try:
        yield start
    finally:
        for listener in started:
            listener.end()
            listener.join(10)


@pytest.mark.parametrize("leads_to", ["the pooler", "another database", "the pooler, by LISTEN_DSN"])
def test_a_listener_that_can_hear_nothing_says_so_and_leaves_no_listen_behind(
    leads_to: str,
    listening: Callable[[], Listener],
    pooler: PgBouncer,
    settings: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """C68: a LISTEN on a lent server process would reach whoever has it next, and look as if it worked."""
    dsn = {
        "the pooler": None,
        "another database": make_conninfo(database_conninfo(), dbname="postgres"),
        "the pooler, by LISTEN_DSN": pooler.conninfo(database()),
    }[leads_to]
    settings.JOBQUEUE = {**settings.JOBQUEUE, "LISTEN_DSN": dsn}

    listener = listening()
    until(lambda: DEAF in caplog.text, within=10, what="the line")

    assert not listener.heard_itself
    assert caplog.text.count(DEAF) == 1
    assert pooler.left_set(database()) == []


def test_a_listener_by_a_session_pooler_hears(
    listening: Callable[[], Listener], pooler: PgBouncer, settings: Any
) -> None:
    """C68: a pooler that lends nothing carries LISTEN."""
    pooler.admin("SET pool_mode = session")
    settings.JOBQUEUE = {**settings.JOBQUEUE, "LISTEN_DSN": None}

    listener = listening()

    until(lambda: listener.heard_itself, within=10, what="the listener to hear itself")
    assert listener.session.pooled
