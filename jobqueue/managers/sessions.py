"""One database connection of one worker thread: its own, named by role, time-limited, READ COMMITTED, reconnecting.

Every statement is a transaction of its own. Time limits and isolation are asked for in the start-up packet. Where a
pooler stands between (PgBouncer), each statement is wrapped in a transaction that says them itself (SET LOCAL) and is
not prepared. So nothing needs session state. A pooler is known by what it drops, or by the process id: it tells its
clients one that it made up. A connection that no answer comes back on is cut by abort(), from another thread.
"""

from __future__ import annotations

import contextlib
import copy
import logging
import os
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
from django.db import DatabaseError, InterfaceError, OperationalError, connections

from jobqueue.conf import get_settings

from .settling import sqlstate

if TYPE_CHECKING:
    from django.db.backends.postgresql.base import DatabaseWrapper

logger = logging.getLogger("jobqueue.database")

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 5.0
ANSWER_MARGIN = timedelta(seconds=3)
CONNECT_SECONDS = 5
KEEPALIVE = {"keepalives": 1, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}
LOCK_MILLISECONDS = 500  # only a settle ever waits for a row lock
READ_ONLY = "25006"
UNANSWERED = "no answer from the database, connection cut"
LOOK = """
SELECT (SELECT setting FROM pg_settings WHERE name = 'statement_timeout'),
       current_setting('default_transaction_isolation'), pg_backend_pid(),
       inet_server_addr()::text, inet_server_port(), pg_postmaster_start_time(), pg_is_in_recovery()
"""
# What a role or database may set that would end a connection kept for good, or a statement within its own limit. Not in
# the start-up packet, since a version refuses names that it does not know.
LIFT_LIMITS = """
SELECT set_config(name, '0', false) FROM pg_settings
WHERE name IN ('idle_session_timeout', 'transaction_timeout') AND setting <> '0'
"""
BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
LIMITS = "SELECT set_config('statement_timeout', %s, true), set_config('lock_timeout', %s, true)"
# For statements that look rows up by key. On a small table, or one whose statistics are old, the planner would rather
# read all of it for a batch of a thousand. Without jit, which it would use for whatever it is asked to avoid.
BY_KEY = {"enable_seqscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off", "jit": "off"}
# For statements that are right with one plan at every size of their tables: to make it anew each time took as long as a
# claim of one job. Not for those that join a batch with the table: a plan made while it is small reads all of it later.
PLANNED_ONCE = {"plan_cache_mode": "force_generic_plan"}
PLANNED_EACH = {"plan_cache_mode": "force_custom_plan"}


class Session:
    """A connection made by Django's backend (custom engines, tokens, TLS and OPTIONS hold) for one thread's use.

    run() raises django.db errors; after one that broke the connection the next run() connects again. `away` says that
    the last attempt found no database; pause() then waits, longer each time, with jitter.
    """

    def __init__(
        self,
        alias: str,
        role: str,
        *,
        timeout: timedelta | None = None,
        wake: threading.Event | None = None,
        options: Mapping[str, str] | None = None,
    ) -> None:
        """`options` are settings of the server, by name, for its statements alone."""
        self.alias, self.role, self._options = alias, role, options or {}
        self.timeout = timeout or get_settings().statement_timeout
        self.connects = 0
        self.away = False
        self.server: tuple[Any, ...] = ()  # (address, port, start time): another server, or a restarted one, shows here
        self._wake = wake or threading.Event()
        self._wrapper: DatabaseWrapper | None = None
        self._scoped = self._in_transaction = False
        self._pause = FIRST_PAUSE
        self._asked_at: float | None = None
        self._cut = False

    def run(self, statement: str, params: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        """Run one statement in a transaction of its own and return its rows (none: [])."""
        with self._asking(self._connected()):
            scoped = self._scoped and not self._in_transaction
            rows = self._scoped_run(statement, params) if scoped else self._plain_run(statement, params)
        self._pause = FIRST_PAUSE
        return rows

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Run several statements as one READ COMMITTED transaction."""
        wrapper = self._connected()
        try:
            with self._asking(wrapper):
                self._execute(BEGIN)
                if self._scoped:
                    self._execute(self._scope, self._limits())
            self._in_transaction = True
            try:
                yield
            finally:
                self._in_transaction = False
            with self._asking(wrapper):
                self._execute("COMMIT")
        except BaseException:
            if self._wrapper is wrapper:  # else it broke, and nothing is left of the transaction
                with contextlib.suppress(DatabaseError), self._asking(wrapper):
                    self._execute("ROLLBACK")
            raise

    @contextlib.contextmanager
    def lent(self) -> Iterator[str]:
        """Have Django's ORM work on this connection, in this thread, for one short transaction; gives the alias.

        Another connection for it would have no limits on time, and none of what finds out that a server is gone.
        """
        wrapper, before = self._connected(), connections[self.alias]
        raw: psycopg.Connection[Any] = wrapper.connection
        kept = raw.prepare_threshold, raw.isolation_level
        # Its cursors prepare by themselves, which no pooler bears.
        raw.prepare_threshold, raw.isolation_level = None, psycopg.IsolationLevel.READ_COMMITTED
        connections[self.alias] = wrapper
        try:
            with self._asking(wrapper), wrapper.execute_wrapper(self._watched):
                yield self.alias
        finally:
            connections[self.alias] = before
            if not raw.closed:
                raw.prepare_threshold, raw.isolation_level = kept

    @property
    def pooled(self) -> bool:
        """Whether a pooler was found between this connection and the server."""
        return self._scoped

    def connect(self) -> psycopg.Connection[Any]:
        """Return the psycopg connection underneath, connected."""
        connection: psycopg.Connection[Any] = self._connected().connection
        return connection

    def close(self) -> None:
        """Close the connection; the next run() opens another."""
        wrapper, self._wrapper = self._wrapper, None
        if wrapper is not None:
            with contextlib.suppress(DatabaseError, psycopg.Error):
                wrapper.close()

    def pause(self) -> None:
        """Wait before the next try against a database that is away: doubling from 0.2 s to 5 s, with jitter."""
        self._wake.wait(self._pause * (0.5 + random.random() / 2))
        self._pause = min(self._pause * 2, LONGEST_PAUSE)

    def abort_if_unanswered(self) -> None:
        """Cut the connection, from another thread, when a statement's answer is long overdue: it may be half open."""
        asked_at, wrapper = self._asked_at, self._wrapper
        if asked_at is None or wrapper is None or wrapper.connection is None:
            return
        if time.monotonic() - asked_at > (self.timeout + ANSWER_MARGIN).total_seconds():
            self._asked_at, self._cut = None, True  # its own thread tells of it, in the one line of this loss
            self.abort()

    def abort(self) -> None:
        """Shut the socket down under a thread that waits on it; that thread gets an OperationalError."""
        wrapper = self._wrapper
        raw = None if wrapper is None else wrapper.connection  # once: its own thread may take it away meanwhile
        if raw is None or raw.closed:
            return
        with (
            contextlib.suppress(OSError, psycopg.Error),
            socket.socket(fileno=os.dup(raw.fileno())) as sock,
        ):
            sock.shutdown(socket.SHUT_RDWR)

    # -- inside ---------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _asking(self, wrapper: DatabaseWrapper) -> Iterator[None]:
        """Ask something of the server: abort_if_unanswered() sees to it that it is answered or cut."""
        self._asked_at = time.monotonic()
        try:
            with wrapper.wrap_database_errors:
                yield
        except DatabaseError as error:
            self._after_error(error)
            self._raise_if_cut(error)
            raise
        finally:
            self._asked_at = None

    def _watched(self, execute: Callable[..., Any], *statement: Any) -> Any:
        """Count the time to an answer anew: each statement of those that Django's ORM makes has its own."""
        self._asked_at = time.monotonic()
        answer = execute(*statement)
        self._asked_at = time.monotonic()
        return answer

    def _plain_run(self, statement: str, params: Mapping[str, Any] | None) -> list[tuple[Any, ...]]:
        # Behind a pooler the next execution may go to another server process, which has prepared nothing.
        cursor = self._execute(statement, params, prepare=get_settings().PREPARED and not self._scoped)
        return cursor.fetchall() if cursor.description else []

    def _scoped_run(self, statement: str, params: Mapping[str, Any] | None) -> list[tuple[Any, ...]]:
        with self.connect().pipeline():
            self._execute(BEGIN)
            self._execute(self._scope, self._limits())
            cursor = self._execute(statement, params)
            self._execute("COMMIT")
        return cursor.fetchall() if cursor.description else []

    def _execute(
        self, statement: str, params: Mapping[str, Any] | tuple[Any, ...] | None = None, *, prepare: bool | None = False
    ) -> psycopg.Cursor[Any]:
        # psycopg's own cursor: Django's binds on the client by default and then nothing can be prepared.
        cursor: psycopg.Cursor[Any] = psycopg.Cursor(self.connect())
        return cursor.execute(statement, params, prepare=prepare)

    @property
    def _scope(self) -> str:
        return LIMITS + "".join(f", set_config('{name}', '{value}', true)" for name, value in self._options.items())

    def _limits(self) -> tuple[str, str]:
        milliseconds = int(self.timeout.total_seconds() * 1000)
        return str(milliseconds), str(min(milliseconds // 2, LOCK_MILLISECONDS))

    def _connected(self) -> DatabaseWrapper:
        if self._wrapper is None or self._wrapper.connection is None or self._wrapper.connection.closed:
            self.close()
            self._asked_at = time.monotonic() + self._connect_seconds()  # which libpq itself looks after
            try:
                self._open()
            except (OperationalError, InterfaceError) as error:
                self.away = True
                self.close()
                self._raise_if_cut(error)
                raise
            finally:
                self._asked_at = None
            self.connects += 1
            self.away = False
        assert self._wrapper is not None
        return self._wrapper

    def _connect_seconds(self) -> float:
        """Return how long connecting may take: libpq gives each of several hosts its time."""
        settings = connections.settings[self.alias]
        each = settings.get("OPTIONS", {}).get("connect_timeout", CONNECT_SECONDS)
        return max(float(each), CONNECT_SECONDS) * (str(settings.get("HOST", "")).count(",") + 1)

    def _raise_if_cut(self, error: DatabaseError | InterfaceError) -> None:
        """Say why, where abort_if_unanswered() is the reason for an error: the socket alone looks as if lost."""
        cut, self._cut = self._cut, False
        if cut:
            raise OperationalError(UNANSWERED) from error

    def _open(self) -> None:
        timeout, lock = self._limits()
        asked = (
            f"-c statement_timeout={timeout} -c lock_timeout={lock} -c default_transaction_isolation=read\\ committed"
        ) + "".join(f" -c {name}={value}" for name, value in self._options.items())
        try:
            self._open_with(asked)
        except OperationalError as error:
            if "startup parameter" not in str(error):  # what PgBouncer says of parameters that it does not track
                raise
            self._open_with("")
        assert self._wrapper is not None
        connection = self._wrapper.connection
        with self._wrapper.wrap_database_errors:
            timeout_here, isolation, pid, *server, is_standby = connection.execute(LOOK).fetchone()
        if is_standby:
            msg = "the database is a read-only standby: waiting for a primary"
            raise OperationalError(msg)
        self._scoped = (timeout_here, isolation) != (timeout, "read committed") or pid != connection.info.backend_pid
        self.server = tuple(server)
        if not self._scoped:
            with self._wrapper.wrap_database_errors:
                connection.execute(LIFT_LIMITS)

    def _open_with(self, startup: str) -> None:
        wrapper = connections.create_connection(self.alias)
        options = {**KEEPALIVE, **copy.copy(wrapper.settings_dict.get("OPTIONS", {}))}
        options.pop("pool", None)  # a connection kept for good is not borrowed from the web's pool
        options["application_name"] = self.role[:63]
        options["prepare_threshold"] = 5  # Django's None would refuse to prepare even what asks for it
        options["connect_timeout"] = options.get("connect_timeout", CONNECT_SECONDS)
        options["options"] = f"{options.get('options', '')} {startup}".strip()
        wrapper.settings_dict = {**wrapper.settings_dict, "OPTIONS": options, "CONN_MAX_AGE": None, "AUTOCOMMIT": True}
        self._wrapper = wrapper  # type: ignore[assignment]
        wrapper.inc_thread_sharing()  # abort() comes from the thread that watches
        # Receivers of connection_created may ask by the alias (django.contrib.postgres does): else that opened this
        # thread's own connection beside this one, for good.
        before, connections[self.alias] = connections[self.alias], wrapper
        try:
            wrapper.ensure_connection()  # connect() alone would raise the errors of psycopg, not those of Django
        finally:
            connections[self.alias] = before

    def _after_error(self, error: DatabaseError) -> None:
        wrapper = self._wrapper
        if wrapper is None or wrapper.connection is None:
            return
        status = wrapper.connection.info.transaction_status
        demoted = sqlstate(error) == READ_ONLY  # after a failover this server is no primary: look for the new one
        if demoted or wrapper.connection.closed or status == psycopg.pq.TransactionStatus.UNKNOWN:
            self.away = True
            self.close()
        elif self._scoped and not self._in_transaction and status != psycopg.pq.TransactionStatus.IDLE:
            with contextlib.suppress(psycopg.Error):
                self._execute("ROLLBACK")
