"""One statement by psycopg's own cursor, kept with Django's connection, where nobody would miss Django's.

Of a statement of 0.4 ms Django's cursor and its binding on the client take a tenth: a cursor is made, wrapped and
closed, parameters are escaped into the text. A kept cursor that binds on the server does without, and prepares the
statement where it is used again and again and no pooler stands between. What is watched or changed by others goes the
ordinary way: debug cursors, execute wrappers, instrumentation, backends of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from threading import get_ident
from types import FunctionType
from typing import Any

import psycopg
from django.apps import apps
from django.db.backends import utils
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.postgresql.base import Cursor, DatabaseWrapper, ServerBindingCursor
from psycopg.errors import DuplicatePreparedStatement, FeatureNotSupported, InvalidSqlStatementName
from psycopg.rows import tuple_row

from jobqueue.conf import get_settings

# What a backend may override, or an instrumentation replace, to see or change each cursor: the search path of a tenant
# is set so. All of them must be Django's own.
MAKES_CURSORS = ("cursor", "_cursor", "create_cursor", "make_cursor", "_prepare_cursor")
DJANGOS_CURSORS: frozenset[Any] = frozenset({Cursor, ServerBindingCursor})
WRAPPER = utils.CursorWrapper  # the class too may be replaced, before or after this module is imported
RUNS_STATEMENTS = ("__init__", "execute", "_execute_with_wrappers", "_execute")

# The attribute of Django's connection that keeps the cursor.
KEPT = "jobqueue_cursor"

# A connection with so many uses behind it will likely see more: preparing and the look for poolers take round trips.
WORTH_PREPARING = 5
ONLY_WHEN_ASKED = 2**31  # how often psycopg would have to see a statement to prepare it by itself
# Somebody's DISCARD ALL, a pooler that hides itself, another procedure after a migration. Nothing has run then.
REFUSED_AS_PREPARED = (InvalidSqlStatementName, DuplicatePreparedStatement, FeatureNotSupported)


def fetch_row(connection: BaseDatabaseWrapper, statement: str, params: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """Run one statement on an open connection, outside of any transaction, and return its first row, or None.

    Raises django.db errors.
    """
    kept = _kept_cursor(connection)
    if kept is None:
        with connection.cursor() as ordinary:
            ordinary.execute(statement, params)
            row: tuple[Any, ...] | None = ordinary.fetchone()
            return row
    with connection.wrap_database_errors:
        return kept.fetch_row(statement, params)


class KeptCursor:
    """A cursor of one connection for statements that are run again and again."""

    __slots__ = ("_cursor", "_uses", "execute", "prepares", "raw")

    def __init__(self, raw: psycopg.Connection[Any]) -> None:
        self.raw, self.prepares = raw, False
        self.execute = WRAPPER.execute  # what this cursor stands in for
        self._cursor = psycopg.Cursor(raw, row_factory=tuple_row)
        self._uses = 0

    def fetch_row(self, statement: str, params: Mapping[str, Any]) -> tuple[Any, ...] | None:
        """Return the first row, or None. Raises psycopg's errors."""
        if self.prepares:
            try:
                return self._fetch_prepared(statement, params)
            except REFUSED_AS_PREPARED:
                pass
        self._uses += 1
        if self._uses == WORTH_PREPARING:
            self.prepares = self._may_prepare()
        # Django's default cursors never prepare, whatever psycopg is told of their connection: nor does this one.
        return self._cursor.execute(statement, params, prepare=False).fetchone()

    def _fetch_prepared(self, statement: str, params: Mapping[str, Any]) -> tuple[Any, ...] | None:
        raw, self.prepares = self.raw, False
        # Django's None would refuse to prepare even what asks for it; a number would have psycopg prepare the rest too.
        before, raw.prepare_threshold = raw.prepare_threshold, ONLY_WHEN_ASKED
        try:
            row = self._cursor.execute(statement, params, prepare=True).fetchone()
        finally:
            raw.prepare_threshold = before
        self.prepares = True  # after whatever error: not again on this connection
        return row

    def _may_prepare(self) -> bool:
        if not get_settings().PREPARED:
            return False
        # A pooler tells its clients a process id that it made up, and may give each transaction another server.
        pid = self._cursor.execute("SELECT pg_backend_pid()", prepare=False).fetchone()
        return pid == (self.raw.info.backend_pid,)


def _kept_cursor(connection: BaseDatabaseWrapper) -> KeptCursor | None:
    """Return the cursor kept with the connection, or None where this statement is to go Django's way."""
    own = vars(connection)
    # Methods of the instance's own: Django's tests forbid a database so, and the debug toolbar listens so.
    if connection.execute_wrappers or connection.queries_logged or not own.keys().isdisjoint(MAKES_CURSORS):
        return None
    if own["health_check_enabled"] and not own["health_check_done"]:
        return None  # Django's way looks whether the server is still there, once a request
    if own["_thread_ident"] != get_ident():
        return None  # Django refuses, or shares: two threads would fetch each other's rows from one cursor
    kept: KeptCursor | None = own.get(KEPT)
    if kept is None or kept.raw is not connection.connection:
        if not _is_plain(connection):
            return None
        kept = own[KEPT] = KeptCursor(connection.connection)
    return kept if utils.CursorWrapper is WRAPPER and WRAPPER.execute is kept.execute else None


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
        and WRAPPER.__module__ == utils.__name__
        and all(_is_djangos(getattr(WRAPPER, name)) for name in RUNS_STATEMENTS)
    )


def _is_djangos(function: object) -> bool:
    # A replacement often has the name and module of what it replaces, but never its globals.
    return type(function) is FunctionType and function.__globals__["__name__"].startswith("django.")
