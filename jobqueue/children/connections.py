"""Keep a handler's database connections warm between jobs; drop those that it left in a state, or that died idle."""

from __future__ import annotations

import contextlib
import select
import threading
import time
from typing import Any

from django.conf import settings
from django.db import DatabaseError, connections
from django.db.backends.signals import connection_created

IDLE = 0  # psycopg.pq.TransactionStatus.IDLE
TRUSTED_SECONDS = 60.0  # a connection unused for longer is asked whether it still works

_opened = False  # whether this process has opened a connection yet: most short jobs never do
_last = threading.local()  # .used_at: when this thread's last job ended


def _note_opened(**_: object) -> None:
    global _opened
    _opened = True


connection_created.connect(_note_opened, dispatch_uid="jobqueue.children.connections")


def any_opened() -> bool:
    """Tell whether this process has opened a connection yet."""
    return _opened


def drop_dead_connections() -> None:
    """Drop those of this thread that the server or the network has ended since the last job."""
    if not _opened:
        return
    long_idle = time.monotonic() - getattr(_last, "used_at", 0.0) > TRUSTED_SECONDS
    for connection in connections.all(initialized_only=True):
        if connection.connection is not None and (
            _is_hung_up(connection.connection) or (long_idle and not connection.is_usable())
        ):
            _drop(connection)


def tidy_connections() -> None:
    """Drop every connection of this thread that is closed, broken, or still in a transaction; keep the others."""
    if not _opened:
        return
    for connection in connections.all(initialized_only=True):
        if connection.connection is None and not connection.in_atomic_block:
            continue
        if _is_dirty(connection):
            _drop(connection)
        elif settings.DEBUG:
            connection.queries_log.clear()
    _last.used_at = time.monotonic()


def _drop(connection: Any) -> None:
    with contextlib.suppress(DatabaseError, Exception):
        connection.close()
    # A wrapper that was closed inside an atomic block stays unusable: the next job gets a new one.
    del connections[connection.alias]


def _is_hung_up(raw: Any) -> bool:
    """Ask the kernel, not the server: its other end is closed. It costs a microsecond."""
    try:
        poll = select.poll()
        poll.register(raw.fileno(), select.POLLRDHUP)
        return bool(poll.poll(0))
    except (OSError, ValueError, DatabaseError, AttributeError):
        return True


def _is_dirty(connection: Any) -> bool:
    raw = connection.connection
    if connection.in_atomic_block or raw is None or getattr(raw, "closed", False):
        return True
    info = getattr(raw, "info", None)
    if info is not None and getattr(info, "transaction_status", IDLE) != IDLE:
        return True
    if connection.get_autocommit() != connection.settings_dict["AUTOCOMMIT"]:
        return True
    if connection.errors_occurred:
        if not connection.is_usable():
            return True
        connection.errors_occurred = False
    return False
