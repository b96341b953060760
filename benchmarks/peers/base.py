"""One peer with settings of its own, as the works and the rows of `check speed` use it.

A sample of `with Peer("pgqueuer", tuned=True) as peer` is taken within `with peer.turn()`, so that nothing of the peer
takes anything from the next one: reset() for a fresh database, schema and tally; fill(10_000) for jobs of the numbers 0
to 9,999; within `with peer.workers(2)` tally.began(0, 10_000) tells how many of their handlers have begun; finished()
tells how many jobs its store shows as done.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import psycopg
from psycopg import sql

from benchmarks import database
from benchmarks.worker import ROOT

from . import processes, venvs
from .catalogue import PEERS
from .errors import PeerFailed
from .processes import DriverProcess, Workers
from .tally import Tally, new_tally

FILL_SECONDS = 900.0


@dataclass(frozen=True, kw_only=True)
class Sample:
    """What one run of one work gave."""

    peer: str
    work: str
    tuned: bool
    workers: int
    jobs: int  # that took part
    values: dict[str, float] = field(default_factory=dict)  # by name with its unit, as "jobs/s" or "p50 ms"
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the sample as JSON has it."""
        return asdict(self)


class Peer:
    """A driver with its database and tally. Everything that it starts is gone at the end of the block."""

    def __init__(self, name: str, *, tuned: bool = False) -> None:
        self.entry = PEERS[name]
        self.name, self.tuned = name, tuned
        self.about: dict[str, Any] = {}  # versions, python, settings, tunable, bulk_size, deferrable
        self.estimates: dict[int, float] = {}  # jobs a second that short runs have shown, by workers
        self.jobs = 0  # enqueued since reset(): the next number
        self.tally: Tally
        self._stack = ExitStack()
        self._run = ExitStack()
        self._redis_url = ""
        self._driver: DriverProcess

    @property
    def database(self) -> str:
        """The name of its own database."""
        return f"{database.own_name()}_{self.entry.module}"

    def __enter__(self) -> Self:
        self._python = venvs.interpreter(self.entry)
        with self._stack:
            self.tally = self._stack.enter_context(new_tally())
            if self.entry.redis:
                from . import redis  # only here: most runs need none

                self._redis_url = self._stack.enter_context(redis.server())
            self._stack.callback(self._drop)
            self._stack.enter_context(self._run)
            # Now, so that a peer that does not even start is out at once.
            self._start_driver()
            self.rest()
            self._stack = self._stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()

    def reset(self) -> None:
        """Begin anew: an empty database with the peer's schema, an empty store, a driver connected to it."""
        self.rest()
        with _server() as server:
            server.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(self.database)))
        self.tally.empty()
        self.jobs = 0
        self._start_driver()
        self._driver.call("setup")

    def rest(self) -> None:
        """End the driver and drop the database, so that neither it nor the server's autovacuum takes from the next."""
        self._run.close()
        self._drop()

    @contextmanager
    def turn(self) -> Iterator[Self]:
        """Have the peer rest after the block, however that ends."""
        try:
            yield self
        finally:
            self.rest()

    def call(self, verb: str, **arguments: Any) -> Any:
        """Ask the driver for one verb (see drivers/base.py), `within` so many seconds (3 minutes)."""
        return self._driver.call(verb, **arguments)

    def take_numbers(self, count: int) -> int:
        """Return the first of so many numbers that no other job has. Raises PeerFailed beyond the tally's size."""
        first, self.jobs = self.jobs, self.jobs + count
        if self.jobs > self.tally.size:
            raise PeerFailed(f"more than {self.tally.size:,} jobs in one run")
        return first

    def fill(self, count: int) -> None:
        """Enqueue so many due jobs by the fastest API, and leave the same state before each run: see settle()."""
        self.call("fill", first=self.take_numbers(count), count=count, within=FILL_SECONDS)
        self.settle()

    def settle(self) -> None:
        """Vacuum, analyse and write out, so that no run pays for the filling before it."""
        with self.connect() as connection:
            connection.execute("VACUUM ANALYZE", prepare=False)
            connection.execute("CHECKPOINT", prepare=False)

    def finished(self) -> int:
        """Return how many jobs its store shows as done well."""
        return int(self.call("finished"))

    @contextmanager
    def workers(self, count: int = 1) -> Iterator[Workers]:
        """Run so many workers by the peer's own program for the length of the block."""
        told = self.call("commands", workers=count)
        with processes.workers(told["commands"], {**self.environment(), **told["environment"]}) as running:
            yield running

    @contextmanager
    def connect(self) -> Iterator[psycopg.Connection[Any]]:
        """Open a connection of the harness's own to the peer's database, in autocommit mode."""
        with contextlib.closing(psycopg.connect(self.dsn, autocommit=True)) as connection:
            yield connection

    @property
    def dsn(self) -> str:
        """The libpq URL of its database."""
        return database.url(self.database)

    def environment(self) -> dict[str, str]:
        """Return the environment of all its processes: nothing of this project's own settings but where things are."""
        parts = urlsplit(self.dsn)
        ours = ("JOBQUEUE_", "DJANGO_", "BENCHMARKS_", "PG")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(ours) and name != "DEBUG"}
        return {
            **kept,
            "PYTHONPATH": str(ROOT),
            "PEER_DSN": self.dsn,
            "PEER_TUNED": "1" if self.tuned else "0",
            "PEER_REDIS_URL": self._redis_url,
            "PEER_TALLY": str(self.tally.path),
            # For peers whose programs read libpq's variables only.
            "PGHOST": parts.hostname or "",
            "PGPORT": str(parts.port or 5432),
            "PGUSER": parts.username or "",
            "PGPASSWORD": parts.password or "",
            "PGDATABASE": self.database,
        }

    def _start_driver(self) -> None:
        command = [str(self._python), "-m", "benchmarks.peers.drivers", self.entry.module]
        self._driver = self._run.enter_context(DriverProcess(command, self.environment()))
        self.about = self._driver.call("describe")

    def _drop(self) -> None:
        with _server() as server:
            server.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(self.database)))


@contextmanager
def _server() -> Iterator[psycopg.Connection[Any]]:
    with contextlib.closing(psycopg.connect(database.url(), autocommit=True)) as connection:
        yield connection
