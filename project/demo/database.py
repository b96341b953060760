"""The demo's own database, beside the one that DATABASE_URL names and made anew at every start."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlsplit

import environ
import psycopg
from psycopg import errors, sql

SUFFIX = "_demo"
# What the demo made it may delete: a database of that name with another comment, or none, is somebody's own.
COMMENT = "made by the demo of jobqueue, which deletes it at its next start"


def make_database(url: str) -> str:
    """Make the demo's database empty and return its URL.

    Without the right to make one, and when the URL names a demo database itself, that database is used as it is.
    Exits when the demo's database is in use or is not the demo's.
    """
    config = environ.Env.db_url_config(url)
    name = f"{config['NAME']}{SUFFIX}"
    if config["NAME"].endswith(SUFFIX):
        return url
    try:
        with _connect(config) as connection:
            _make_anew(connection, name)
    except errors.InsufficientPrivilege:
        return url
    return urlsplit(url)._replace(path=f"/{quote(name, safe='')}").geturl()


def _connect(config: Mapping[str, Any]) -> "psycopg.Connection[tuple[str | None]]":
    keys = {"NAME": "dbname", "USER": "user", "PASSWORD": "password", "HOST": "host", "PORT": "port"}  # names  # nosec B105
    given = {keys[key]: config[key] for key in keys if config.get(key)}
    return psycopg.connect(**given, **config.get("OPTIONS", {}), autocommit=True)


def _make_anew(connection: "psycopg.Connection[tuple[str | None]]", name: str) -> None:
    found = connection.execute(
        "SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = %s", [name]
    ).fetchone()
    if found is not None and found[0] != COMMENT:
        raise SystemExit(
            f"the database {name} was not made by the demo: rename it, or let DATABASE_URL name it to use it"
        )
    # Asked here, since DROP DATABASE waits five seconds for others to leave.
    if connection.execute("SELECT FROM pg_stat_activity WHERE datname = %s LIMIT 1", [name]).fetchone() is not None:
        raise SystemExit(f"the database {name} is in use: is another demo running?")
    connection.execute(sql.SQL("DROP DATABASE IF EXISTS {}").format(sql.Identifier(name)))
    connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    connection.execute(sql.SQL("COMMENT ON DATABASE {} IS {}").format(sql.Identifier(name), sql.Literal(COMMENT)))
