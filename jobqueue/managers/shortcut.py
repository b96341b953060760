"""One statement by psycopg's own cursor, kept with Django's connection, where nobody would miss Django's.

Around a statement of 0.3 ms Django's cursor and its binding on the client take a sixth: a cursor is made, wrapped and
closed, parameters are escaped into the text. A kept cursor that binds on the server does without. What is watched or
changed by others goes the ordinary way: debug cursors, execute wrappers, instrumentation, backends of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import FunctionType
from typing import Any

import psycopg
from django.apps import apps
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.postgresql.base import Cursor, DatabaseWrapper, ServerBindingCursor
from django.db.backends.utils import CursorWrapper
from psycopg.rows import tuple_row

# What a backend may override, or an instrumentation replace, to see or change each cursor: the search path of a tenant
# is set so. All of them must be Django's own.
MAKES_CURSORS = ("cursor", "_cursor", "create_cursor", "make_cursor", "_prepare_cursor")
DJANGOS_CURSORS: frozenset[Any] = frozenset({Cursor, ServerBindingCursor})
RUNS_STATEMENTS = ("execute", "_execute_with_wrappers", "_execute")

# The attribute of Django's connection, which is of one thread, that keeps the cursor.
KEPT = "jobqueue_cursor"


def fetch_row(connection: BaseDatabaseWrapper, statement: str, params: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """Run one statement on an open connection, outside of any transaction, and return its first row, or None.

    Raises django.db errors.
    """
    cursor = _kept_cursor(connection)
    if cursor is None:
        with connection.cursor() as ordinary:
            ordinary.execute(statement, params)
            row: tuple[Any, ...] | None = ordinary.fetchone()
            return row
    with connection.wrap_database_errors:
        return cursor.execute(statement, params).fetchone()


def _kept_cursor(connection: BaseDatabaseWrapper) -> psycopg.Cursor[tuple[Any, ...]] | None:
    """Return the cursor kept with the connection, or None where this statement is to go Django's way."""
    own = vars(connection)
    # A cursor() of the instance's own: Django's tests forbid a database so, and the debug toolbar listens so.
    if "cursor" in own or connection.execute_wrappers or connection.queries_logged:
        return None
    if own["health_check_enabled"] and not own["health_check_done"]:
        return None  # Django's way looks whether the server is still there, once a request
    connection.validate_thread_sharing()
    cursor: psycopg.Cursor[tuple[Any, ...]] | None = own.get(KEPT)
    if cursor is None or cursor.connection is not connection.connection:
        if not _is_plain(connection):
            return None
        cursor = own[KEPT] = psycopg.Cursor(connection.connection, row_factory=tuple_row)
    return cursor


def _is_plain(connection: BaseDatabaseWrapper) -> bool:
    """Tell whether cursors of this connection are Django's and psycopg's, and nobody else's."""
    raw: Any = connection.connection
    kind = type(connection)
    return (
        apps.ready  # before that Django warns of each statement
        and type(raw) is psycopg.Connection
        and raw.cursor_factory in DJANGOS_CURSORS
        and all(getattr(kind, name) is getattr(DatabaseWrapper, name) for name in MAKES_CURSORS)
        and all(_is_djangos(getattr(DatabaseWrapper, name)) for name in MAKES_CURSORS)
        and all(_is_djangos(getattr(CursorWrapper, name)) for name in RUNS_STATEMENTS)
    )


def _is_djangos(function: object) -> bool:
    # A replacement often has the name and module of what it replaces, but never its globals.
    return type(function) is FunctionType and function.__globals__["__name__"].startswith("django.")
