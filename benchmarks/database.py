"""The benchmarks' own database on the server of DATABASE_URL: made new for a run, dropped after it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import psycopg
from psycopg import sql

Connection = psycopg.Connection[Any]

NAME_VARIABLE = "BENCHMARKS_DATABASE"
DEFAULT_NAME = "jobqueue_benchmarks"
TWIN_SUFFIX = "_twin"
TABLES = "jobqueue_job, jobqueue_attempt, jobqueue_stat, jobqueue_cost, jobqueue_action, jobqueue_worker"


def server_url() -> str:
    """Return DATABASE_URL, or the URL of the checkout's own server, which is started if need be."""
    named = os.environ.get("DATABASE_URL")
    if not named:
        from project import postgres

        named = os.environ["DATABASE_URL"] = postgres.ensure_running()
    return named


def url(name: str | None = None) -> str:
    """Return the URL of a database on that server, by default the benchmarks' own."""
    return urlsplit(_libpq_url())._replace(path="/" + (name or own_name())).geturl()


def connect(name: str | None = None) -> Connection:
    """Open a bare connection in autocommit mode that prepares every statement at its first use."""
    connection = psycopg.connect(url(name), autocommit=True, prepare_threshold=0)
    connection.execute("SET application_name = 'jobqueue benchmarks'")
    return connection


@contextmanager
def own_database(name: str, *, keep: bool = False) -> Iterator[None]:
    """Make and migrate the database; a second run of the same name waits until this one is done."""
    os.environ[NAME_VARIABLE] = name
    with psycopg.connect(_libpq_url(), autocommit=True) as server:
        server.execute("SELECT pg_advisory_lock(hashtextextended(%s, 0))", ["jobqueue benchmarks " + name])
        _drop(server, name)
        server.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        try:
            _migrate()
            yield
        finally:
            _disconnect()
            if not keep:
                _drop(server, name)


def own_name() -> str:
    """Return the name of the benchmarks' database."""
    return os.environ[NAME_VARIABLE]


def twin_name() -> str:
    """Return the name of the second one, which exists within twin_database() only."""
    return own_name() + TWIN_SUFFIX


@contextmanager
def twin_database() -> Iterator[None]:
    """Empty the database and copy it to a second one, for as long as that is needed; at the end it is empty again."""
    name, twin = own_name(), twin_name()
    with connect() as connection:
        empty(connection)
    _disconnect()
    with psycopg.connect(_libpq_url(), autocommit=True) as server:
        server.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(twin)))
        server.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(twin), sql.Identifier(name)), prepare=False
        )
        try:
            yield
        finally:
            _disconnect()
            server.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(twin)))
            with connect() as connection:
                empty(connection)


def empty(connection: Connection) -> None:
    """Delete every row of the product's tables, and start the ids anew."""
    connection.execute(f"TRUNCATE {TABLES} RESTART IDENTITY")


def settle_down(connection: Connection, table: str = "jobqueue_job") -> None:
    """Leave the same state before each measured run: vacuumed, analysed, everything written out."""
    connection.execute(f"VACUUM ANALYZE {table}", prepare=False)
    connection.execute("CHECKPOINT", prepare=False)


def _libpq_url() -> str:
    """Return the server's URL with the scheme that libpq knows, whichever of Django's spellings was given."""
    return urlsplit(server_url())._replace(scheme="postgresql").geturl()


def _migrate() -> None:
    from django.core.management import call_command

    call_command("migrate", verbosity=0)


def _disconnect() -> None:
    from django.db import connections

    connections.close_all()


def _drop(server: Connection, name: str) -> None:
    for each in (name, name + TWIN_SUFFIX):
        server.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(each)))
