"""Fixtures of all tests: the database, second connections for races, the environment of real workers."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from django.conf import settings
from django.db import connection
from django.test.utils import setup_databases, teardown_databases
from psycopg import sql
from psycopg.conninfo import make_conninfo

from jobqueue.models import Attempt, Job, Worker
from jobqueue.ops import alert_subjects, months, snapshot
from tests.connections import Listener, SecondConnection, Watcher, database_conninfo
from tests.factories import AttemptFactory, JobFactory, WorkerFactory

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(autouse=True)
def no_shared_snapshot() -> None:
    """Have no test read the figures that another one shares."""
    snapshot.forget()
    months.forget()
    alert_subjects.forget()


@pytest.fixture(scope="session")
def django_db_modify_db_settings(request: pytest.FixtureRequest) -> Iterator[None]:
    """Give each of several test runs on one server a database of its own.

    The name is taken by an advisory lock, which the server drops with the connection: a run that was killed
    leaves no lock, but perhaps a database, to which workers of that run may still be connected.
    """
    database = settings.DATABASES["default"]
    with psycopg.connect(_maintenance_conninfo(), autocommit=True) as lock:
        base = f"test_{database['NAME']}"
        names = [base, *(f"{base}_{number}" for number in range(2, 100))]
        free = next(name for name in names if _take(lock, name))
        connection.settings_dict["TEST"]["NAME"] = free
        lock.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(free)))
        yield


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """Make the test database also where no test is marked as using it, but a fixture of a wider scope does.

    pytest-django would have those run on the database that they were to leave alone.
    """
    database = connection.settings_dict
    if database["NAME"] == database["TEST"]["NAME"]:
        yield
        return
    with django_db_blocker.unblock():
        made = setup_databases(verbosity=0, interactive=False, aliases=dict.fromkeys([connection.alias]))
    yield
    with django_db_blocker.unblock():
        teardown_databases(made, verbosity=0)


def _take(lock: "psycopg.Connection[tuple[bool]]", name: str) -> bool:
    """Take a name, unless another run has it or workers that outlived one still use it: they would join in."""
    row = lock.execute(
        "SELECT pg_try_advisory_lock(hashtextextended(%(name)s, 0))"
        " AND NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = %(name)s)",
        {"name": name},
    ).fetchone()
    return bool(row and row[0])


def _maintenance_conninfo() -> str:
    database = connection.settings_dict
    return make_conninfo(
        dbname="postgres",
        user=database["USER"],
        password=database["PASSWORD"],
        host=database["HOST"],
        port=database["PORT"],
    )


@pytest.fixture
def open_connection(transactional_db: None) -> Iterator[Callable[[], SecondConnection]]:
    """Return a function that opens further connections; all are closed at the end."""
    opened: list[SecondConnection] = []

    def open_one() -> SecondConnection:
        opened.append(SecondConnection(database_conninfo()))
        return opened[-1]

    try:
        yield open_one
    finally:
        for each in opened:
            each.close()


@pytest.fixture
def second_connection(open_connection: Callable[[], SecondConnection]) -> SecondConnection:
    """Return a raw connection with a transaction of its own; the test's rows are committed for it to see."""
    return open_connection()


@pytest.fixture
def watcher(transactional_db: None) -> Iterator[Watcher]:
    """Return the connection that tells who is blocked by whom."""
    watcher = Watcher(database_conninfo())
    try:
        yield watcher
    finally:
        watcher.raw.close()


@pytest.fixture
def wait_until_blocked(watcher: Watcher) -> Callable[..., None]:
    """Return the function that waits until the backend with that pid waits for a lock."""
    return watcher.wait_until_blocked


@pytest.fixture
def make_job(db: None) -> Callable[..., Job]:
    """Return the function that inserts a job as it is told, PENDING by default: make_job(status=Status.DEAD)."""
    return JobFactory.create


@pytest.fixture
def make_attempt(db: None) -> Callable[..., Attempt]:
    """Return the function that inserts a failed attempt: make_attempt(job=job, number=2)."""
    return AttemptFactory.create


@pytest.fixture
def make_worker(db: None) -> Callable[..., Worker]:
    """Return the function that inserts a worker, busy unless idle=True."""
    return WorkerFactory.create


@pytest.fixture
def heard(transactional_db: None) -> Iterator[Callable[[], list[str]]]:
    """Return the function that tells which wake-ups were sent since it was last called, as often as each was sent."""
    listener = Listener(database_conninfo())
    try:
        yield listener.heard
    finally:
        listener.raw.close()


@pytest.fixture
def worker_env(transactional_db: None) -> dict[str, str]:
    """Return the environment for a real `manage.py runworker` that works on the test database."""
    database = connection.settings_dict
    login = f"{quote(database['USER'])}:{quote(database['PASSWORD'], safe='')}"
    url = f"postgresql://{login}@{database['HOST']}:{database['PORT']}/{database['NAME']}"
    return {
        **os.environ,
        "DATABASE_URL": url,
        "DJANGO_SETTINGS_MODULE": "tests.settings",
        "PYTHONPATH": str(ROOT),
        "PYTHONUNBUFFERED": "1",
    }
