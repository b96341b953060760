"""Private PostgreSQL servers that a scenario may stop, kill, promote and fill up: 18 of the wheel, 15 of Debian's.

    server = PrivateServer(home, version=15, tls=True, config={"max_connections": "20"})
    server.create()
    server.kill(); server.start()
    standby = server.standby(other_home, name="standby")

A server keeps its port over restarts. `home` must be a folder that the server's account can reach: not pytest's
tmp_path, which only its owner can enter (see new_home).
"""

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import psutil
import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from project import postgres
from project.postgres import DATABASE, SUPERUSER
from tests.faults.tools import missing, need
from tests.worker.waiting import until

Version = Literal[15, 18]
Mode = Literal["smart", "fast", "immediate"]
Params = Sequence[Any] | Mapping[str, Any] | None


def new_home() -> Path:
    """Return a new folder for a server; destroy() removes it."""
    return Path(tempfile.mkdtemp(prefix="jobqueue-private-"))


class PrivateServer(postgres.Server):
    """One server, made by create() and removed by destroy(); all methods are for one process at a time."""

    address = "127.0.0.1"

    def __init__(
        self,
        home: Path,
        *,
        version: Version = 18,
        tls: bool = False,
        config: Mapping[str, str] | None = None,
        disk_mb: int | None = None,
    ) -> None:
        """`disk_mb` gives it a disk of its own, of that size, which fill_disk() fills up; by root only."""
        super().__init__(home)
        self.version, self.tls, self.config, self.disk_mb = version, tls, dict(config or {}), disk_mb
        self.before_end: Callable[[], None] = lambda: None  # what a test does to lose no connection of its own
        if version == 15:
            self.programs_folder = Path(need("postgresql-15")).parent
            self.locale = ("--locale=C",)
        elif tls:
            msg = "the wheel's PostgreSQL 18 has no TLS: ask for version 15"
            raise ValueError(msg)

    # -- life -----------------------------------------------------------------------------------------------------

    def create(self) -> "PrivateServer":
        """Create the data and the database `jobqueue`, and start; returns itself."""
        self._prepare_home()
        if self.disk_mb is not None:
            self._mount_disk(self.disk_mb)
        self._create_data()
        with (self.data / "postgresql.conf").open("a") as configuration:
            for name, value in self.config.items():
                configuration.write(f"{name} = '{value}'\n")
        if self.tls:
            self._create_certificate()
        self.start()
        self._create_database()
        return self

    def start(self) -> None:
        """Start on the same port as before, crash recovery included, and return when it takes connections."""
        if not (self.home / "port").exists():
            (self.home / "port").write_text(f"{self._free_port()}\n")
        self._disown_pid_file()
        done: list[subprocess.CompletedProcess[bytes]] = []

        def started() -> bool:  # backends of a killed server may still be leaving, and hold its memory
            done.append(self._start_on(self.port))
            return done[-1].returncode == 0

        until(started, within=30, what=lambda: str(self._failure("could not start", done[-1])))

    def stop(self, mode: Mode = "fast") -> bool:
        """Stop; `immediate` is a crash that the next start recovers from. Returns whether it ran."""
        if self.pid() is None:
            return False
        self.before_end()
        done = self._pg_ctl("stop", "-m", mode)
        if done.returncode != 0:
            raise self._failure("could not stop", done)
        return True

    def kill(self) -> None:
        """Kill the postmaster by SIGKILL, and wait until the processes that it had started are gone."""
        pid = self.pid()
        assert pid is not None, "the server does not run"
        self.before_end()
        family = [psutil.Process(pid), *psutil.Process(pid).children()]
        family[0].kill()
        _, alive = psutil.wait_procs(family, timeout=20)
        assert not alive, alive

    def restart(self, mode: Mode = "fast") -> None:
        """Stop and start again."""
        self.stop(mode)
        self.start()

    def destroy(self) -> None:
        """Stop it and delete its folder."""
        with contextlib.suppress(Exception):
            self.stop("immediate")
        if self.disk_mb is not None:
            subprocess.run(["umount", str(self.home)], check=False)
        shutil.rmtree(self.home, ignore_errors=True)

    @property
    def running(self) -> bool:
        """Whether it takes connections, for all that its pid file says."""
        return self.pid() is not None and self._pid_file()[7:8] == ["ready"]

    @property
    def port(self) -> int:
        """The port, the same while it is stopped."""
        return int((self.home / "port").read_text())

    @property
    def log_text(self) -> str:
        """What the server has logged so far."""
        return self.log.read_text(errors="replace")

    # -- connections ----------------------------------------------------------------------------------------------

    @property
    def password(self) -> str:
        """The password of the superuser, and of whomever create_role() makes."""
        return (self.home / "password").read_text().strip()

    def conninfo(self, database: str = DATABASE, *, user: str = SUPERUSER, **options: Any) -> str:
        """Return a libpq connection string."""
        wanted = {"sslmode": "require", **options} if self.tls else options
        return make_conninfo(
            host=self.address, port=self.port, dbname=database, user=user, password=self.password, **wanted
        )

    def url(self, database: str = DATABASE, *, user: str = SUPERUSER) -> str:
        """Return the URL of a database, also while the server is stopped."""
        return f"postgresql://{user}:{self.password}@{self.address}:{self.port}/{database}" + (
            "?sslmode=require" if self.tls else ""
        )

    def execute(self, statement: str, params: Params = None, *, database: str = DATABASE) -> list[tuple[Any, ...]]:
        """Run one statement as superuser, on a connection of its own in autocommit; returns its rows (none: [])."""
        with psycopg.connect(self.conninfo(database, application_name="scenario"), autocommit=True) as raw:
            # Whatever a scenario has made the default, its own orders go through.
            raw.execute("SET default_transaction_read_only = off; SET statement_timeout = 0; SET lock_timeout = 0")
            cursor = raw.execute(statement.encode(), params)
            return cursor.fetchall() if cursor.description else []

    def create_role(self, name: str, options: str = "LOGIN") -> None:
        """Create a role that logs in by the superuser's password."""
        role = sql.SQL("CREATE ROLE {} {} PASSWORD {}").format(
            sql.Identifier(name),
            sql.SQL(options),
            sql.Literal(self.password),
        )
        self.execute(role.as_string())

    def set(self, **config: str | int | None) -> None:
        """Set by ALTER SYSTEM (None: back to the default) and reload; returns when new connections have it.

        What takes effect at a start only waits for restart().
        """
        for name, value in config.items():
            change = sql.SQL("ALTER SYSTEM RESET {}") if value is None else sql.SQL("ALTER SYSTEM SET {} = {}")
            self.execute(change.format(sql.Identifier(name), sql.Literal(str(value))).as_string())
        self._reload()

    def reset(self) -> None:
        """Run, with whatever set() and ALTER ROLE or DATABASE ... SET have changed taken back; for no standby."""
        self.make_room()
        changes = self.data / "postgresql.auto.conf"
        if any(not line.startswith("#") for line in changes.read_text().splitlines()):
            self.stop()
            changes.write_text("")
        if not self.running:
            self.start()
        for (name,) in self.execute("SELECT rolname FROM pg_roles WHERE rolconfig IS NOT NULL"):
            self.execute(sql.SQL("ALTER ROLE {} RESET ALL").format(sql.Identifier(name)).as_string())
        self.execute(f"ALTER DATABASE {DATABASE} RESET ALL")

    # -- disk -----------------------------------------------------------------------------------------------------

    def fill_disk(self) -> None:
        """Leave no room on the disk that it has for itself."""
        assert self.disk_mb is not None, "only a small disk of its own is filled"
        with (self.home / "ballast").open("ab", buffering=0) as ballast, contextlib.suppress(OSError):
            while True:
                ballast.write(bytes(4096))

    def make_room(self) -> None:
        """Undo fill_disk()."""
        (self.home / "ballast").unlink(missing_ok=True)

    def _mount_disk(self, megabytes: int) -> None:
        if os.geteuid() != 0:
            missing("only root can mount a small disk")
        options = f"size={megabytes}m,mode=0711"
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(self.home)], capture_output=True)
        if done.returncode != 0:
            missing(f"no small disk can be mounted: {done.stderr.decode().strip()}")

    # -- replication ----------------------------------------------------------------------------------------------

    def standby(self, home: Path, *, name: str) -> "PrivateServer":
        """Make and start a standby that streams from this server; `name` is for synchronous_standby_names."""
        other = PrivateServer(home, version=self.version, tls=self.tls, config=self.config)
        self.copy_to(other, name=name)
        return other

    def copy_to(self, other: "PrivateServer", *, name: str) -> None:
        """Make a server that has no data yet a standby of this one, and start it."""
        other._prepare_home()
        shutil.copy(self.home / "password", other.home / "password")
        other.data.mkdir(mode=0o700)
        for path in (other.home / "password", other.data):
            other._hand_over(path)
        source = self.conninfo("", application_name=name)
        done = other._run("pg_basebackup", "-D", str(other.data), "-d", source, "-R", "-X", "stream", "-c", "fast")
        if done.returncode != 0:
            raise other._failure("could not be copied", done)
        (other.home / "created").touch()
        other.start()

    def demote(self) -> None:
        """Restart as a standby that has nobody to follow, as a primary is after a failover; promote() ends that."""
        self.stop()
        (self.data / "standby.signal").touch()
        self.start()

    def promote(self) -> None:
        """Make a standby a primary; returns when it is."""
        done = self._pg_ctl("promote")
        if done.returncode != 0:
            raise self._failure("could not be promoted", done)

    # -- inside ---------------------------------------------------------------------------------------------------

    def _reload(self) -> None:
        before = self.execute("SELECT pg_conf_load_time()")
        self.execute("SELECT pg_reload_conf()")
        # A new connection has what the postmaster has read by then.
        until(lambda: self.execute("SELECT pg_conf_load_time()") != before, what="the new settings")

    def _create_certificate(self) -> None:
        key, certificate = self.data / "server.key", self.data / "server.crt"
        command = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-subj", "/CN=127.0.0.1"]
        subprocess.run(
            [need("openssl"), *command, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True
        )
        key.chmod(0o600)
        for path in (key, certificate):
            self._hand_over(path)
        with (self.data / "postgresql.conf").open("a") as configuration:
            configuration.write("ssl = on\n")
        access = self.data / "pg_hba.conf"
        access.write_text(access.read_text().replace("\nhost ", "\nhostssl "))
