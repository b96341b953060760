"""A real PgBouncer in transaction mode, with authentication, in front of a database server.

    pooler = PgBouncer(host="127.0.0.1", port=5432, user="postgres", password="...", default_pool_size=4)
    pooler.start()
    pooler.admin("PAUSE")
    pooler.stop()

It keeps its port over restarts. Root may not run it, so for root it runs as the account of the embedded server.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
from psycopg.conninfo import make_conninfo

from project.postgres_programs import account
from tests.worker.waiting import until

from .tools import need

# What a session may have set: where a pooler hands the process to the next client, nothing of the last must be left.
STATE = """
SELECT pg_backend_pid(),
       array(SELECT 'prepared: ' || statement FROM pg_prepared_statements)
    || array(SELECT 'listens: ' || channel FROM pg_listening_channels() AS channel)
    || array(SELECT 'advisory lock' FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid())
    || array(SELECT 'set: ' || name || '=' || setting FROM pg_settings WHERE source = 'session'
             AND name NOT IN ('application_name', 'client_encoding', 'DateStyle', 'TimeZone'))
    || array(SELECT 'temporary: ' || relname FROM pg_class WHERE relnamespace = pg_my_temp_schema())
"""


class PgBouncer:
    """One pooler; `settings` go into its configuration."""

    def __init__(self, *, host: str, port: int, user: str, password: str, **settings: object) -> None:
        self._program = need("pgbouncer")
        self._home = Path(tempfile.mkdtemp(prefix="jobqueue-pgbouncer-"))
        self._login = {"user": user, "password": password}
        self._process: subprocess.Popen[bytes] | None = None
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self.settings: dict[str, object] = {"pool_mode": "transaction", "default_pool_size": 4, **settings}
        self._write(host, port)

    def _write(self, host: str, port: int) -> None:
        users, configuration = self._home / "users.txt", self._home / "pgbouncer.ini"
        users.touch(mode=0o600)
        users.write_text('"{user}" "{password}"\n'.format(**self._login))
        fixed = {
            "listen_addr": "127.0.0.1",
            "listen_port": self.port,
            "unix_socket_dir": "",
            "auth_type": "scram-sha-256",
            "auth_file": users,
            "admin_users": self._login["user"],
            "max_client_conn": 500,
            "query_wait_timeout": 30,  # a client that waits longer is a fault, and pytest's own limit tells less
            "logfile": self._home / "log",
        }
        lines = [f"{name} = {value}" for name, value in (fixed | self.settings).items()]
        configuration.write_text(
            "\n".join(["[databases]", f"* = host={host} port={port}", "[pgbouncer]", *lines]) + "\n"
        )
        if them := account():
            for path in (self._home, users, configuration):
                os.chown(path, them["user"], them["group"])

    # -- life -----------------------------------------------------------------------------------------------------

    def start(self) -> "PgBouncer":
        """Start, and return itself when it answers."""
        self._process = subprocess.Popen(
            [self._program, "-q", str(self._home / "pgbouncer.ini")],
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **account(),
        )
        until(self._answers, what=lambda: f"pgbouncer's start:\n{self.log}")
        return self

    def stop(self) -> None:
        """Cut all connections and end."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End as by a crash."""
        self._end(signal.SIGKILL)

    def destroy(self) -> None:
        """Leave nothing of it."""
        self.kill()
        shutil.rmtree(self._home, ignore_errors=True)

    def _end(self, number: int) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(10)
            self._process = None

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.log
        with contextlib.suppress(psycopg.OperationalError):
            return bool(self.admin("SHOW VERSION"))
        return False

    # -- use ------------------------------------------------------------------------------------------------------

    @property
    def log(self) -> str:
        """What it has written."""
        path = self._home / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    def conninfo(self, database: str) -> str:
        """Return the connection string of a database through the pooler."""
        return make_conninfo(dbname=database, host="127.0.0.1", port=self.port, connect_timeout=5, **self._login)

    def url(self, database: str) -> str:
        """Return the same as a URL."""
        login = f"{quote(self._login['user'])}:{quote(self._login['password'], safe='')}"
        return f"postgresql://{login}@127.0.0.1:{self.port}/{database}"

    def admin(self, command: str) -> list[tuple[Any, ...]]:
        """Run a command of its console and return the rows, if any."""
        with psycopg.connect(self.conninfo("pgbouncer"), autocommit=True) as console:
            cursor = console.execute(command.encode())
            return cursor.fetchall() if cursor.description else []

    def left_set(self, database: str) -> list[str]:
        """Return what sessions have left set on the pooled server connections: all of these are taken at once."""
        pool, found = int(str(self.settings["default_pool_size"])), {}
        with contextlib.ExitStack() as stack:
            for _ in range(pool):
                client = psycopg.connect(self.conninfo(database), prepare_threshold=None, application_name="looks")
                stack.callback(client.close)
                try:
                    # In a transaction, so that no other client gets this one.
                    row = client.execute(STATE).fetchone()
                except psycopg.OperationalError as error:
                    raise AssertionError(f"a server connection is not to be had: {self._told()}") from error
                assert row is not None
                found[row[0]] = row[1]
        assert len(found) == pool, "each client held a server connection of its own"
        return sorted({each for state in found.values() for each in state})

    def _told(self) -> str:
        return "\n".join(
            f"{each}: {row}" for each in ("POOLS", "SERVERS", "CLIENTS") for row in self.admin(f"SHOW {each}")
        )
