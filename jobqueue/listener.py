"""Listen for hints that there is work, or that a job is to be cancelled. A hint only: polling finds what it misses.

The connection is Django's, or one by JOBQUEUE["LISTEN_DSN"] where a pooler stands between. After LISTEN it sends itself
a hint and waits for it: where that does not come back (a pooler in transaction mode), it says so once, and the worker
polls. Every few seconds it asks the server something, so that a connection that died silently is noticed.
"""

from __future__ import annotations

import logging
import threading
import time
from datetime import timedelta
from typing import Any, Protocol

import psycopg
from django.db import DatabaseError

from jobqueue.conf import get_settings
from jobqueue.managers.sessions import Session
from jobqueue.managers.waking import CANCEL_PREFIX, CHANNEL

logger = logging.getLogger("jobqueue.listener")

PROBE_SECONDS = 10.0
ECHO_SECONDS = 2.0
DEAF_PAUSE_SECONDS = 60.0
ECHO_PREFIX = "!echo "


class Hint(Protocol):
    """What the listener calls, on its own thread."""

    def __call__(self, queue: str | None, cancels: bool = False) -> None:
        """Take a hint: work in a queue, or cancel requests to look for."""


class ListenSession(Session):
    """A session to the server itself: by LISTEN_DSN where one is set."""

    def _open(self) -> None:
        super()._open()
        dsn = get_settings().LISTEN_DSN
        if dsn and self._wrapper is not None:
            self._wrapper.close()
            with self._wrapper.wrap_database_errors:
                self._wrapper.connection = psycopg.connect(
                    dsn, autocommit=True, application_name=self.role[:63], connect_timeout=5, keepalives_idle=10
                )


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
                    logger.warning(
                        "listener lost its connection, the worker polls error=%s", str(error).strip().split("\n")[0]
                    )
                    self.heard_itself = False
                    self.session.close()
                    self.session.pause()
                    self._hint(None)  # something may have been missed
        self.session.close()

    def _listen(self) -> None:
        connection = self.session.connect()
        self.session.run(f"LISTEN {CHANNEL}")
        echo = f"{ECHO_PREFIX}{self._worker_id}"
        self.session.run("SELECT pg_notify(%(channel)s, %(echo)s)", {"channel": CHANNEL, "echo": echo})
        self.heard_itself = self._wait(connection, ECHO_SECONDS, until=echo)
        if not self.heard_itself:
            if not self._told:
                logger.warning(
                    "LISTEN brings nothing here (a pooler?): the worker polls; set JOBQUEUE['LISTEN_DSN'] to the server"
                )
                self._told = True
            self.session.close()
            self._ended.wait(DEAF_PAUSE_SECONDS)
            return
        self._hint(None)  # whatever was enqueued or cancelled while nobody listened
        self._hint(None, cancels=True)
        while not self._ended.is_set():
            self._wait(connection, PROBE_SECONDS)
            self.session.run("SELECT 1")  # unanswered: the main loop cuts the connection

    def _wait(self, connection: psycopg.Connection[Any], seconds: float, until: str | None = None) -> bool:
        """Pass hints on for a while. Returns whether the payload waited for came."""
        end = time.monotonic() + seconds
        while not self._ended.is_set() and (left := end - time.monotonic()) > 0:
            for notice in connection.notifies(timeout=left, stop_after=1):
                if notice.payload == until:
                    return True
                self._pass_on(notice.payload)
        return False

    def _pass_on(self, payload: str) -> None:
        if payload.startswith(CANCEL_PREFIX):
            if payload == CANCEL_PREFIX + self._worker_id:
                self._hint(None, cancels=True)
        elif not payload.startswith("!") and len(payload) <= 63:
            self._hint(payload)
