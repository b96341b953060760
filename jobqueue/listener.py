"""Listen for hints that there is work, or that a job is to be cancelled. A hint only: polling finds what it misses.

The connection is Django's, or one by JOBQUEUE["LISTEN_DSN"] where a pooler stands between. A pooler that lends one
server process to many clients is found before LISTEN is said: it would stay on that process and reach whoever has it
next. After LISTEN a hint is sent by the way that enqueuers take, and waited for. Where hints cannot come, the listener
says so once, and the worker polls. Every few seconds it asks the server something, so that a connection that died
silently is noticed.
"""

from __future__ import annotations

import logging
import select
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from typing import Any, Protocol

import psycopg
from django.db import DatabaseError, connections
from psycopg.conninfo import conninfo_to_dict

from jobqueue.conf import get_settings
from jobqueue.logs import Quietly
from jobqueue.managers.sessions import CONNECT_SECONDS, KEEPALIVE, Session
from jobqueue.managers.waking import CANCEL_PREFIX, CHANNEL

logger = logging.getLogger("jobqueue.listener")

PROBE_SECONDS = 10.0
ECHO_SECONDS = 2.0
DEAF_PAUSE_SECONDS = 60.0
ECHO_PREFIX = "!echo "
LOOKS_AT_POOLER = 10
PROCESS = "SELECT pg_backend_pid()"


class Hint(Protocol):
    """What the listener calls, on its own thread."""

    def __call__(self, queue: str | None, cancels: bool = False) -> None:
        """Take a hint: work in a queue, or cancel requests to look for."""


class ListenSession(Session):
    """A session to the server itself: by LISTEN_DSN where one is set."""

    def _open_with(self, startup: str) -> None:
        dsn = get_settings().LISTEN_DSN
        if not dsn:
            super()._open_with(startup)
            return
        wrapper: Any = connections.create_connection(self.alias)
        wrapper.inc_thread_sharing()
        self._wrapper = wrapper
        with wrapper.wrap_database_errors:
            given: dict[str, Any] = {"connect_timeout": CONNECT_SECONDS, **KEEPALIVE, **conninfo_to_dict(dsn)}
            given["options"] = f"{given.get('options', '')} {startup}".strip()
            given["application_name"] = self.role[:63]
            wrapper.connection = psycopg.connect(**given, autocommit=True)


def lends_process(one: Session, other: Session) -> bool:
    """Tell whether a pooler lends the server process of a connection to others between two transactions.

    It does where the process changes, or serves a second connection too; of a pooler that is little used each asks
    the same one in turn.
    """
    processes: set[int] = set()
    others: set[int] = set()
    for _ in range(LOOKS_AT_POOLER):
        processes.add(one.run(PROCESS)[0][0])
        others.add(other.run(PROCESS)[0][0])
        if len(processes) > 1 or processes & others:
            return True
    return False


class Listener(threading.Thread):
    """Waits on LISTEN and passes hints on."""

    def __init__(self, alias: str, worker_id: str, *, hint: Hint) -> None:
        super().__init__(name="jobqueue-listener", daemon=True)
        self._ended = threading.Event()
        self._worker_id, self._hint = worker_id, hint
        self.session = ListenSession(
            alias, f"jobqueue listener {worker_id}", timeout=timedelta(seconds=5), wake=self._ended
        )
        self.heard_itself = False
        self._told = False
        self._quietly = Quietly(logger)

    def end(self) -> None:
        """Have the thread end."""
        self._ended.set()
        self.session.abort()

    def run(self) -> None:
        """Listen until end(), connecting again whenever the connection is lost."""
        while not self._ended.is_set():
            try:
                self._listen()
            except (DatabaseError, psycopg.Error, OSError) as error:
                if not self._ended.is_set():
                    self._quietly.warning(
                        "listener lost its connection, the worker polls error=%s", str(error).strip().split("\n")[0]
                    )
                    self.heard_itself = False
                    self.session.close()
                    self.session.pause()
                    self._hint(None)  # something may have been missed
        self.session.close()

    def _listen(self) -> None:
        connection = self.session.connect()
        if self.session.pooled and self._is_lent():
            self._be_deaf()
            return
        self.session.run(f"LISTEN {CHANNEL}")
        echo = f"{ECHO_PREFIX}{self._worker_id}"
        self._send(echo)
        self.heard_itself = self._wait(connection, ECHO_SECONDS, until=echo)
        if not self.heard_itself:
            self._be_deaf()
            return
        self._hint(None)  # whatever was enqueued or cancelled while nobody listened
        self._hint(None, cancels=True)
        while not self._ended.is_set():
            self._wait(connection, PROBE_SECONDS)
            self.session.run("SELECT 1")  # unanswered: the main loop cuts the connection

    def _is_lent(self) -> bool:
        with self._second_session(type(self.session)) as second:
            return lends_process(self.session, second)

    def _send(self, payload: str) -> None:
        """Send a hint by the way that enqueuers take: a LISTEN_DSN that leads to another database is noticed, too."""
        params = {"channel": CHANNEL, "payload": payload}
        with self._second_session(Session) if get_settings().LISTEN_DSN else nullcontext(self.session) as sender:
            sender.run("SELECT pg_notify(%(channel)s, %(payload)s)", params)

    def _be_deaf(self) -> None:
        """Say once that no hint can come, and try again after a while."""
        if not self._told:
            why = "LISTEN_DSN leads to a pooler or elsewhere?" if get_settings().LISTEN_DSN else "a pooler?"
            logger.warning(
                "LISTEN brings nothing here (%s): the worker polls; set JOBQUEUE['LISTEN_DSN'] to the server", why
            )
            self._told = True
        self.session.close()
        self._ended.wait(DEAF_PAUSE_SECONDS)

    @contextmanager
    def _second_session(self, kind: type[Session]) -> Iterator[Session]:
        session = kind(self.session.alias, self.session.role, timeout=self.session.timeout, wake=self._ended)
        try:
            yield session
        finally:
            session.close()

    def _wait(self, connection: psycopg.Connection[Any], seconds: float, until: str | None = None) -> bool:
        """Pass hints on for a while. Returns whether the payload waited for came."""
        end = time.monotonic() + seconds
        poll = select.poll()  # psycopg itself would look ten times a second
        poll.register(connection.fileno(), select.POLLIN)
        while not self._ended.is_set():
            for notice in connection.notifies(timeout=0):
                if notice.payload == until:
                    return True
                self._pass_on(notice.payload)
            left = end - time.monotonic()
            if left <= 0:
                break
            poll.poll(left * 1000)
        return False

    def _pass_on(self, payload: str) -> None:
        if payload.startswith(CANCEL_PREFIX):
            if payload == CANCEL_PREFIX + self._worker_id:
                self._hint(None, cancels=True)
        elif not payload.startswith("!") and len(payload) <= 63:
            self._hint(payload)
