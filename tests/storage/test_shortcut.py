"""The cursor that an enqueue keeps: who must see or change each statement still does."""

import asyncio
import functools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from django.apps import apps
from django.core.exceptions import SynchronousOnlyOperation
from django.db import DatabaseError, InterfaceError, OperationalError, connection, connections
from django.db.backends.postgresql.base import DatabaseWrapper
from django.db.backends.utils import CursorWrapper
from hypothesis import given
from hypothesis import strategies as st

from jobqueue.managers import inserting, shortcut
from jobqueue.managers.shortcut import KEPT
from jobqueue.models import Job
from tests.connections import SecondConnection

pytestmark = pytest.mark.django_db(transaction=True)

MICROSECONDS = st.datetimes(datetime(2020, 1, 1), datetime(2240, 1, 1), timezones=st.just(UTC))


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """A connection that has kept nothing yet, and keeps nothing for others."""
    connection.close()
    yield
    connection.close()


def kept() -> Any:
    """Return the cursor kept with this thread's connection, None where there is none for the connection of now."""
    cursor = vars(connections["default"]).get(KEPT)
    return cursor if cursor is not None and cursor.connection is connection.connection else None


def enqueue() -> Job:
    job = Job.objects.enqueue("probe.ok", {"name": "Åsa", "n": 3}, dedupe_key=None, owner="o")
    assert job is not None
    row = Job.objects.get(pk=job.pk)
    assert (row.payload, row.owner, row.created_at) == ({"name": "Åsa", "n": 3}, "o", job.created_at)
    return job


def test_the_cursor_is_kept_as_long_as_its_connection() -> None:
    enqueue()
    first = kept()
    enqueue()
    assert first is not None
    assert kept() is first

    connection.close()
    enqueue()

    assert kept() is not None
    assert kept() is not first


def test_the_cursor_binds_on_the_server_and_prepares_nothing() -> None:
    """Guard: a prepared statement would be gone behind a pooler that gives the next transaction another server."""
    for _ in range(7):
        enqueue()

    assert type(kept()) is psycopg.Cursor
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_prepared_statements")
        assert cursor.fetchone() == (0,)


def test_an_execute_wrapper_sees_the_enqueue() -> None:
    seen: list[str] = []

    def watch(execute: Any, sql: str, *rest: Any) -> Any:
        seen.append(sql)
        return execute(sql, *rest)

    enqueue()
    with connection.execute_wrapper(watch):
        Job.objects.enqueue("probe.ok")

    assert ["CALL jobqueue_enqueue" in sql for sql in seen] == [True]


def test_a_debug_cursor_logs_the_enqueue(settings: Any) -> None:
    enqueue()
    settings.DEBUG = True
    connections["default"].queries_log.clear()

    Job.objects.enqueue("probe.ok")

    assert ["CALL jobqueue_enqueue" in query["sql"] for query in connection.queries] == [True]


def test_a_cursor_method_of_the_instance_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Django's SimpleTestCase forbids a database so, the debug toolbar listens so."""
    enqueue()

    def forbidden() -> None:
        raise AssertionError("database queries are not allowed here")

    monkeypatch.setattr(connections["default"], "cursor", forbidden)

    with pytest.raises(AssertionError, match="not allowed here"):
        Job.objects.enqueue("probe.ok")


def test_a_replaced_execute_sees_the_enqueue(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tracers replace it with a function that looks the same: functools.wraps copies even the module's name."""
    seen: list[str] = []
    original = CursorWrapper.execute

    @functools.wraps(original)
    def traced(self: CursorWrapper, sql: str, params: Any = None) -> Any:
        seen.append(sql)
        return original(self, sql, params)

    monkeypatch.setattr(CursorWrapper, "execute", traced)

    Job.objects.enqueue("probe.ok")

    assert ["CALL jobqueue_enqueue" in sql for sql in seen] == [True]
    assert kept() is None


def test_a_backend_that_prepares_each_cursor_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Backends for tenants set the search path so."""
    seen: list[str | None] = []

    class Tenants(DatabaseWrapper):
        def _cursor(self, name: str | None = None) -> Any:
            seen.append(name)
            return super()._cursor(name)  # type: ignore[misc]  # the stubs leave it out

    monkeypatch.setattr(connections["default"], "__class__", Tenants)

    Job.objects.enqueue("probe.ok")

    assert seen == [None]
    assert kept() is None


@pytest.mark.parametrize("how", ["another class", "another cursor", "apps not ready"])
def test_what_is_not_plain_goes_djangos_way(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    connection.ensure_connection()
    assert shortcut._is_plain(connections["default"])
    raw: Any = connection.connection
    if how == "another class":
        monkeypatch.setattr(raw, "__class__", type("Traced", (psycopg.Connection,), {}))
    elif how == "another cursor":
        raw.cursor_factory = type("Traced", (raw.cursor_factory,), {})
    else:
        monkeypatch.setattr(apps, "ready", False)

    assert not shortcut._is_plain(connections["default"])


def test_a_connection_that_is_to_be_checked_first_is(second_connection: SecondConnection) -> None:
    """CONN_HEALTH_CHECKS: the first statement of a request finds that the server hung up, and connects again."""
    enqueue()
    own, pid = vars(connections["default"]), connection.connection.info.backend_pid
    own["health_check_enabled"], own["health_check_done"] = True, False
    second_connection.execute(f"SELECT pg_terminate_backend({pid}, 5000)")

    enqueue()

    assert connection.connection.info.backend_pid != pid
    assert kept() is None
    enqueue()
    assert kept() is not None, "once a request is enough"


def test_a_lost_connection_is_djangos_error_and_the_next_one_works(second_connection: SecondConnection) -> None:
    enqueue()
    pid = connection.connection.info.backend_pid
    second_connection.execute(f"SELECT pg_terminate_backend({pid}, 5000)")

    with pytest.raises((OperationalError, InterfaceError)):
        Job.objects.enqueue("probe.ok")
    connection.close_if_unusable_or_obsolete()

    enqueue()


def test_the_connection_of_another_thread_is_refused() -> None:
    enqueue()
    wrapper = connections["default"]

    with ThreadPoolExecutor(1) as thread, pytest.raises(DatabaseError, match="created in thread"):
        thread.submit(shortcut.fetch_row, wrapper, "SELECT 1", {}).result(5)


def test_an_event_loop_is_refused() -> None:
    enqueue()

    async def within() -> None:
        Job.objects.enqueue("probe.ok")

    with pytest.raises(SynchronousOnlyOperation):
        asyncio.run(within())


@given(MICROSECONDS)
def test_the_instant_of_an_enqueue_is_exact(instant: datetime) -> None:
    microseconds = (instant - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)

    assert inserting.instant_of(microseconds, UTC) == instant
