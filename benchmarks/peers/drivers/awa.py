"""awa, whose core is in Rust: workers by its API, since it has no command for them; it counts its finished jobs."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import awa
import psycopg

from .base import DSN, TUNED, Driver
from .tally import mark

QUEUE = "default"
READY_SECONDS = 1.0


@dataclass
class Noop:
    """The arguments of the job; their class is its kind."""

    number: int


class Peer(Driver):
    """The documented synchronous client, and a worker by AsyncClient.start()."""

    packages = ("awa-pg",)
    settings = {
        "default": "AsyncClient.start([('default', 10)])",
        "tuned": "200 workers, 2 claimers, claim batch 256, polls every 50 ms, 20 connections",
    }
    bulk_size = 5_000

    def setup(self) -> None:
        command = [sys.executable, "-m", "awa", "--database-url", DSN, "migrate"]
        subprocess.run(command, check=True, capture_output=True)
        # Its queue storage becomes active with the first worker, and only then is there an enqueue by COPY.
        asyncio.run(_first_worker())

    def open(self) -> None:
        self.client = awa.Client(DSN)

    def enqueue(self, number: int) -> None:
        self.client.insert(Noop(number), queue=QUEUE)

    def enqueue_bulk(self, numbers: range) -> None:
        self.client.enqueue_many_copy([Noop(number) for number in numbers], queue=QUEUE)

    def enqueue_later(self, numbers: range, seconds: int) -> None:
        at = datetime.now(UTC) + timedelta(seconds=seconds)
        for start in range(numbers.start, numbers.stop, 1_000):
            chunk = range(start, min(start + 1_000, numbers.stop))
            self.client.enqueue_many_copy([Noop(number) for number in chunk], queue=QUEUE, run_at=at)

    def waiting(self) -> int:
        return sum(queue.available for queue in self.client.queue_stats())

    def finished(self) -> int:
        # Until autovacuum comes its count takes seconds for some thousand jobs, which would count as the drain.
        with psycopg.connect(DSN, autocommit=True) as connection:
            connection.execute("ANALYZE awa.ready_entries, awa.lease_claims, awa.receipt_completion_batches")
        return sum(queue.completed_last_hour for queue in self.client.queue_stats())

    def commands(self, workers: int) -> list[list[str]]:
        return [[sys.executable, "-c", f"from {__name__} import serve; serve()"]] * workers


def serve() -> None:
    """Run a worker until SIGTERM."""
    asyncio.run(_serve())


async def _serve() -> None:
    client = _worker(20 if TUNED else 10)
    if TUNED:
        queue = {"name": QUEUE, "max_workers": 200, "claimers": 2, "claim_batch_size": 256}
        await client.start([queue], poll_interval_ms=50)
    else:
        await client.start([(QUEUE, 10)])
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await stop.wait()
    await client.shutdown()


async def _first_worker() -> None:
    client = _worker(10)
    await client.start([(QUEUE, 1)])
    await asyncio.sleep(READY_SECONDS)
    await client.shutdown()
    await client.close()


def _worker(connections: int) -> Any:
    client = awa.AsyncClient(DSN, max_connections=connections)

    @client.task(Noop, queue=QUEUE)
    async def noop(job: Any) -> None:
        mark(job.args.number)

    return client
