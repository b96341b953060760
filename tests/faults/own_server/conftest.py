"""Have tests and their workers use a private PostgreSQL, which the scenario may do anything to.

`@pytest.mark.server(version=15, tls=True, config={"max_connections": "20"})` chooses another server than the plain
18. One server serves all tests of the same choice; each finds it running, as it was made, and its tables empty.
The effects of handlers go to a database of the server that all other tests use, which no scenario here ends.
"""

import os
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import connection
from psycopg import sql
from psycopg.conninfo import make_conninfo

from project.postgres import DATABASE, SUPERUSER
from tests.faults.servers import PrivateServer, Version, new_home
from tests.worker.effects import Effects

KEPT_TABLES = ["django_migrations", "django_content_type", "auth_permission"]


class Servers:
    """The private servers of this session, one for each choice."""

    def __init__(self) -> None:
        self._made: dict[str, PrivateServer] = {}

    def get(self, *, version: Version = 18, **choice: Any) -> PrivateServer:
        """Return the server of that choice, running and as it was made."""
        key = repr((version, sorted(choice.items())))
        if key in self._made and self._made[key].home.exists():
            self._made[key].reset()
        else:
            self._made[key] = PrivateServer(new_home(), version=version, **choice).create()
        return self._made[key]

    def destroy(self) -> None:
        """Leave nothing of them."""
        for server in self._made.values():
            server.destroy()


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    """Return the private servers, made when they are first asked for."""
    servers = Servers()
    try:
        yield servers
    finally:
        servers.destroy()


@pytest.fixture
def server(servers: Servers, request: pytest.FixtureRequest) -> Iterator[PrivateServer]:
    """Return this test's server; whatever the test left of it, it runs again afterwards."""
    mark = request.node.get_closest_marker("server")
    server = servers.get(**(mark.kwargs if mark else {}))
    yield server
    if server.home.exists():
        server.make_room()
        if not server.running:
            server.start()


@pytest.fixture
def transactional_db(server: PrivateServer, django_db_blocker: pytest.FixtureRequest) -> Iterator[None]:
    """Point Django's connection at the server, migrated and empty; pytest-django's own test database stays unused."""
    original = dict(connection.settings_dict)
    connection.close()
    server.before_end = connection.close  # the next use connects again
    address = {"HOST": server.address, "PORT": str(server.port), "USER": SUPERUSER, "PASSWORD": server.password}
    connection.settings_dict.update(NAME=DATABASE, **address)
    try:
        with django_db_blocker.unblock():  # type: ignore[attr-defined]  # pytest-django's
            empty(server)
            yield
    finally:
        connection.close()
        connection.settings_dict.update(original)


@pytest.fixture(scope="session")
def effects_conninfo() -> Iterator[str]:
    """Return a new database on the server that stays."""
    stays, name = settings.DATABASES["default"], f"probe_effects_{os.getpid()}"
    login = {"user": stays["USER"], "password": stays["PASSWORD"], "host": stays["HOST"], "port": stays["PORT"]}
    with psycopg.connect(make_conninfo(dbname="postgres", **login), autocommit=True) as raw:
        raw.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        try:
            yield make_conninfo(dbname=name, **login)
        finally:
            raw.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture
def effects(effects_conninfo: str, transactional_db: None) -> Iterator[Effects]:
    """Return what handlers really did, also while the private server is away."""
    effects = Effects(effects_conninfo)
    try:
        yield effects
    finally:
        effects.close()


@pytest.fixture
def db(transactional_db: None) -> None:
    """Do without a transaction around the test: workers must see its rows."""


def empty(server: PrivateServer) -> None:
    """Migrate the server's database, or empty its tables, with no other connection left from the test before."""
    with psycopg.connect(server.conninfo(), autocommit=True) as raw:
        raw.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        rows = raw.execute("SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace")
        tables = [name for (name,) in rows if name not in KEPT_TABLES]
        if tables:
            names = sql.SQL(", ").join(sql.Identifier(name) for name in tables)
            raw.execute(sql.SQL("TRUNCATE {} RESTART IDENTITY CASCADE").format(names))
        else:
            call_command("migrate", verbosity=0)
