"""Raw connections to the test database, for races that are played in lock-step.

Two connections with explicit transactions; the test decides who goes first and waits for the server's
own word (`pg_blocking_pids`) that the other one is blocked, never for time to pass.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, LiteralString

import psycopg
from django.db import connection as django_connection
from django.db.models import Model
from psycopg import sql
from psycopg.conninfo import make_conninfo

WAIT_SECONDS = 10


def database_conninfo() -> str:
    """Return the connection string of the database that the running test uses."""
    settings = django_connection.settings_dict
    return make_conninfo(
        dbname=settings["NAME"],
        user=settings["USER"],
        password=settings["PASSWORD"],
        host=settings["HOST"],
        port=settings["PORT"],
    )


class SecondConnection:
    """A connection of its own, in a transaction from its first statement on."""

    def __init__(self, conninfo: str) -> None:
        self.raw = psycopg.connect(conninfo, autocommit=False, application_name="second_connection")
        self.pid = self.raw.info.backend_pid
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="second-connection")

    def execute(self, query: str, params: Mapping[str, Any] | Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
        """Run one statement and return its rows, none where it returns no rows."""
        cursor = self.raw.execute(query.encode(), params)
        return cursor.fetchall() if cursor.description is not None else []

    def lock(self, row: Model, strength: LiteralString = "UPDATE") -> None:
        """Lock one row until commit or rollback."""
        table, key = row._meta.db_table, row._meta.pk
        query = sql.SQL("SELECT 1 FROM {} WHERE {} = %s FOR {}").format(
            sql.Identifier(table), sql.Identifier(key.get_attname()), sql.SQL(strength)
        )
        self.raw.execute(query, [row.pk])

    def start(self, call: Callable[..., Any], *arguments: Any, **named: Any) -> Future[Any]:
        """Call in this connection's own thread, where it may block; `wait_until_blocked(self.pid)` tells when."""
        return self._thread.submit(call, *arguments, **named)

    def start_execute(self, query: str, params: Mapping[str, Any] | Sequence[Any] | None = None) -> Future[Any]:
        """Run one statement that is expected to block, in a thread."""
        return self.start(self.execute, query, params)

    def commit(self) -> None:
        """End the transaction, keeping its changes."""
        self.raw.commit()

    def rollback(self) -> None:
        """End the transaction, dropping its changes."""
        self.raw.rollback()

    def close(self) -> None:
        """Close, which rolls back; a statement still blocked is cancelled first, so that no test hangs here."""
        self.raw.cancel_safe(timeout=WAIT_SECONDS)
        self._thread.shutdown(wait=True)
        self.raw.close()


class Watcher:
    """Ask the server who waits for whom, on a connection that is itself in no transaction."""

    def __init__(self, conninfo: str) -> None:
        self.raw = psycopg.connect(conninfo, autocommit=True, application_name="watcher")

    def blockers(self, pid: int) -> list[int]:
        """Return the backends that the given one waits for."""
        row = self.raw.execute("SELECT pg_blocking_pids(%s)", [pid]).fetchone()
        return list(row[0]) if row else []

    def wait_until_blocked(self, pid: int, *, by: int | None = None) -> None:
        """Return once the backend waits for a lock (of that other backend); fail after ten seconds."""
        self._until(lambda: by in self.blockers(pid) if by else bool(self.blockers(pid)), f"{pid} is not blocked")

    def wait_until_any_blocked(self, *, by: int) -> int:
        """Return the first backend found waiting for the given one: for code whose connection is not at hand."""
        found: list[int] = []

        def look() -> bool:
            rows = self.raw.execute("SELECT pid FROM pg_stat_activity WHERE %s = ANY(pg_blocking_pids(pid))", [by])
            found.extend(row[0] for row in rows.fetchall())
            return bool(found)

        self._until(look, f"nothing waits for {by}")
        return found[0]

    def _until(self, holds: Callable[[], bool], complaint: str) -> None:
        give_up = time.monotonic() + WAIT_SECONDS
        while not holds():
            if time.monotonic() > give_up:
                raise AssertionError(f"{complaint} after {WAIT_SECONDS} s")


class Listener:
    """A connection that listens for wake-ups, as a worker's does."""

    def __init__(self, conninfo: str, channel: LiteralString = "jobqueue") -> None:
        self.raw = psycopg.connect(conninfo, autocommit=True, application_name="listener")
        self._payloads: list[str] = []
        self.raw.add_notify_handler(lambda notify: self._payloads.append(notify.payload))
        self.raw.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))

    def heard(self) -> list[str]:
        """Return the payloads that came since the last call, in order."""
        # The server signals listeners before the sender's commit returns: one round trip brings what was sent.
        self.raw.execute("SELECT 1")
        payloads = self._payloads.copy()
        self._payloads.clear()
        return payloads


@contextmanager
def opened(*connections: SecondConnection | Watcher) -> Iterator[None]:
    """Close all of them at the end, the blocked ones first."""
    try:
        yield
    finally:
        for each in connections:
            each.close() if isinstance(each, SecondConnection) else each.raw.close()
