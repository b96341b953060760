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
from django.db import DatabaseError, IntegrityError, InterfaceError, OperationalError, connection, connections
from django.db.backends import utils
from django.db.backends.postgresql.base import DatabaseWrapper, ServerBindingCursor
from django.db.backends.utils import CursorWrapper
from hypothesis import given
from hypothesis import strategies as st

from jobqueue.managers import inserting, shortcut
from jobqueue.managers.shortcut import KEPT, WORTH_PREPARING
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
    return cursor if cursor is not None and cursor.raw is connection.connection else None


def prepared() -> int:
    """Return how many statements this session has prepared."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_prepared_statements")
        return int(cursor.fetchone()[0])


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


def test_a_statement_is_prepared_where_it_is_run_again_and_again() -> None:
    for _ in range(WORTH_PREPARING):
        enqueue()
        assert prepared() == 0

    for _ in range(3):
        enqueue()
        assert prepared() == 1

    assert connection.connection.prepare_threshold is None, "nothing else is prepared"


def test_nothing_is_prepared_where_the_settings_say_so(settings: Any) -> None:
    settings.JOBQUEUE = {**settings.JOBQUEUE, "PREPARED": False}

    for _ in range(WORTH_PREPARING + 2):
        enqueue()

    assert kept() is not None
    assert prepared() == 0


@pytest.mark.parametrize(("setting", "expected"), [(True, 1), (False, 0)])
def test_a_threshold_of_the_project_changes_nothing(setting: bool, expected: int, settings: Any) -> None:
    """Guard: Django's default cursors never prepare, so whoever set one may have a pooler all the same."""
    settings.JOBQUEUE = {**settings.JOBQUEUE, "PREPARED": setting}
    connection.ensure_connection()
    connection.connection.prepare_threshold = 1
    for _ in range(WORTH_PREPARING):
        enqueue()
    assert prepared() == 0

    enqueue()

    assert prepared() == expected
    assert connection.connection.prepare_threshold == 1


def test_nothing_is_prepared_behind_a_pooler(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be gone with the next transaction's server; a pooler tells a process id of its own."""
    connection.ensure_connection()
    monkeypatch.setattr(psycopg.ConnectionInfo, "backend_pid", 4711)

    for _ in range(WORTH_PREPARING + 2):
        enqueue()

    assert kept() is not None
    assert prepared() == 0


@pytest.mark.parametrize("fault", ["DISCARD ALL", "DEALLOCATE ALL"])
def test_what_was_prepared_and_forgotten_is_enqueued_once_all_the_same(fault: str) -> None:
    for _ in range(WORTH_PREPARING + 1):
        enqueue()
    with connection.cursor() as cursor:
        cursor.execute(fault)
    before = Job.objects.count()

    enqueue()
    enqueue()

    assert Job.objects.count() == before + 2
    assert prepared() == 0, "once bitten"


def test_after_another_error_nothing_more_is_prepared() -> None:
    for _ in range(WORTH_PREPARING + 1):
        enqueue()
    with pytest.raises(IntegrityError):
        shortcut.fetch_row(connections["default"], "INSERT INTO jobqueue_queue (name) VALUES (NULL)", {})

    assert not kept().prepares
    assert connection.connection.prepare_threshold is None
    enqueue()


def test_a_name_that_somebody_else_prepared_is_no_error() -> None:
    for _ in range(WORTH_PREPARING):
        enqueue()
    with connection.cursor() as cursor:
        cursor.execute("PREPARE _pg3_0 AS SELECT 1")

    enqueue()
    enqueue()

    assert not kept().prepares


@pytest.mark.parametrize("names", ["new_id, created_microseconds", "another, answer"])
def test_a_prepared_call_follows_the_search_path(names: str) -> None:
    """Projects set it for each tenant: a job must not go to the tenant before, whatever the procedure answers there."""
    first, second = names.split(", ")
    arguments = f"text, text, int, text, int, text, text, int, text, INOUT {first} bigint, INOUT {second} bigint"
    for _ in range(WORTH_PREPARING + 1):
        enqueue()
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            CREATE SCHEMA tenant;
            CREATE PROCEDURE tenant.jobqueue_enqueue({arguments}) LANGUAGE plpgsql
            AS 'BEGIN {first} := -7; {second} := 0; END';
            SET search_path = tenant, public;
            """
        )
    try:
        assert Job.objects.enqueue("probe.ok").pk == -7
    finally:
        with connection.cursor() as cursor:
            cursor.execute("SET search_path = public; DROP SCHEMA tenant CASCADE")
    enqueue()


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


@pytest.mark.parametrize("used", [False, True])
def test_a_replaced_execute_sees_the_enqueue(used: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tracers replace it with a function that looks the same: functools.wraps copies even the module's name."""
    if used:
        enqueue()
    seen: list[str] = []
    original = CursorWrapper.execute

    @functools.wraps(original)
    def traced(self: CursorWrapper, sql: str, params: Any = None) -> Any:
        seen.append(sql)
        return original(self, sql, params)

    monkeypatch.setattr(CursorWrapper, "execute", traced)

    Job.objects.enqueue("probe.ok")

    assert ["CALL jobqueue_enqueue" in sql for sql in seen] == [True]


@pytest.mark.parametrize("used", [False, True])
def test_a_replaced_wrapper_sees_the_enqueue(used: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """So is a database made read-only."""
    if used:
        enqueue()

    class Forbidding(CursorWrapper):
        def __init__(self, *args: Any) -> None:
            raise AssertionError("read-only")

    monkeypatch.setattr(utils, "CursorWrapper", Forbidding)

    with pytest.raises(AssertionError, match="read-only"):
        Job.objects.enqueue("probe.ok")


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (DatabaseWrapper, "create_cursor"),
        (DatabaseWrapper, "make_cursor"),
        (CursorWrapper, "_execute"),
        (CursorWrapper, "_execute_with_wrappers"),
    ],
)
def test_a_replaced_step_of_djangos_is_taken(owner: type, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    original, seen = getattr(owner, name), []

    @functools.wraps(original)
    def traced(*args: Any, **kwargs: Any) -> Any:
        seen.append(name)
        return original(*args, **kwargs)

    monkeypatch.setattr(owner, name, traced)

    Job.objects.enqueue("probe.ok")

    assert seen == [name]


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


def test_a_connection_that_binds_on_the_server_keeps_a_cursor() -> None:
    """OPTIONS["server_side_binding"]."""
    connection.ensure_connection()
    connection.connection.cursor_factory = ServerBindingCursor

    enqueue()

    assert kept() is not None


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


def test_of_threads_that_share_a_connection_one_has_the_cursor() -> None:
    """Two of them would fetch each other's rows."""
    enqueue()
    wrapper, first = connections["default"], kept()
    wrapper.inc_thread_sharing()

    def other() -> tuple[Any, ...]:
        assert shortcut._kept_cursor(wrapper) is None
        return shortcut.fetch_row(wrapper, "SELECT 7", {}) or ()

    try:
        with ThreadPoolExecutor(1) as thread:
            assert thread.submit(other).result(5) == (7,)
        assert shortcut._kept_cursor(wrapper) is first
    finally:
        wrapper.dec_thread_sharing()


def test_the_connection_of_another_thread_is_refused() -> None:
    wrapper = connections["default"]
    wrapper.ensure_connection()

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
