"""Keep a handler's database connections warm between jobs, and drop those that it left in a state."""

from __future__ import annotations

import contextlib
from typing import Any

from django.conf import settings
from django.db import DatabaseError, connections
from django.db.backends.signals import connection_created

IDLE = 0  # psycopg.pq.TransactionStatus.IDLE

_opened = False  # whether this process has opened a connection yet: most short jobs never do


def _note_opened(**_: object) -> None:
    global _opened
    _opened = True


connection_created.connect(_note_opened, dispatch_uid="jobqueue.children.connections")


def tidy_connections() -> None:
    """Drop every connection of this thread that is closed, broken, or still in a transaction; keep the others."""
    if not _opened:
        return
    for connection in connections.all(initialized_only=True):
        if connection.connection is None and not connection.in_atomic_block:
            continue
        if _is_dirty(connection):
            with contextlib.suppress(DatabaseError, Exception):
                connection.close()
            # A wrapper that was closed inside an atomic block stays unusable: the next job gets a new one.
            del connections[connection.alias]
        elif settings.DEBUG:
            connection.queries_log.clear()


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
