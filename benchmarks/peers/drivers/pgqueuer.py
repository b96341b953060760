"""PgQueuer over asyncpg: its own command as the worker, which runs on uvloop; finished jobs move to its log table."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from .base import DSN, TUNED, program
from .loop import LoopDriver
from .tally import mark

NAME = "noop"


@asynccontextmanager
async def application() -> AsyncIterator[PgQueuer]:
    """Give `pgq run` its application, on a connection of its own, as the peer's documents show."""
    connection = await asyncpg.connect(DSN)
    queue = PgQueuer(AsyncpgDriver(connection))

    @queue.entrypoint(NAME)
    async def noop(job: Job) -> None:
        assert job.payload is not None
        mark(int(job.payload))

    try:
        yield queue
    finally:
        await connection.close()


class Peer(LoopDriver):
    """The documented client and `pgq run`."""

    packages = ("pgqueuer", "asyncpg", "uvloop")
    settings = {
        "default": "pgq run: batch 10, asyncpg, uvloop",
        "tuned": "pgq run --batch-size 200: asyncpg, uvloop",
    }
    bulk_size = 1_000

    def setup(self) -> None:
        async def install() -> None:
            connection = await asyncpg.connect(DSN)
            await Queries(AsyncpgDriver(connection)).install()
            await connection.close()

        self.run(install())

    async def connect(self) -> None:
        self.connection = await asyncpg.connect(DSN)
        self.queries = Queries(AsyncpgDriver(self.connection))

    async def send(self, number: int) -> None:
        await self.queries.enqueue(NAME, b"%d" % number)

    async def send_bulk(self, numbers: range) -> None:
        many = len(numbers)
        await self.queries.enqueue([NAME] * many, [b"%d" % number for number in numbers], [0] * many)

    def enqueue_later(self, numbers: range, seconds: int) -> None:
        async def work() -> None:
            for start in range(numbers.start, numbers.stop, 1_000):
                chunk = range(start, min(start + 1_000, numbers.stop))
                payloads = [b"%d" % number for number in chunk]
                after = [timedelta(seconds=seconds)] * len(chunk)
                await self.queries.enqueue([NAME] * len(chunk), payloads, [0] * len(chunk), after)

        self.run(work())

    def waiting(self) -> int:
        return self._number("SELECT count(*) FROM pgqueuer WHERE status = 'queued' AND execute_after <= now()")

    def finished(self) -> int:
        return self._number("SELECT count(*) FROM pgqueuer_log WHERE status = 'successful'")

    def commands(self, workers: int) -> list[list[str]]:
        command = [program("pgq"), "run", f"{__name__}:application", "--log-level", "WARNING"]
        return [command + (["--batch-size", "200"] if TUNED else [])] * workers

    def _number(self, query: str) -> int:
        return int(self.run(self.connection.fetchval(query)))
