"""chancy: its own command as the worker; jobs stay in its table with a state."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from chancy import Chancy, Queue, job

from . import postgres
from .base import DSN, TUNED, program
from .loop import LoopDriver
from .tally import mark

app = Chancy(DSN)


@job(queue="default")
def noop(*, number: int) -> None:
    """Do nothing but count the run, in a process of the default executor."""
    mark(number)


@job(queue="default")
async def noop_async(*, number: int) -> None:
    """Do nothing but count the run, in the worker's own event loop."""
    mark(number)


class Peer(LoopDriver):
    """The documented client and `chancy worker start`."""

    packages = ("chancy", "psycopg")
    settings = {
        "default": "chancy worker start: process executor, a process a core, polls every 5 s",
        "tuned": "chancy worker start: asynchronous executor of 100, eager polling, polls every 1 s",
    }

    def setup(self) -> None:
        async def migrate() -> None:
            async with Chancy(DSN) as chancy:
                await chancy.migrate()
                await chancy.declare(self._queue())

        self.run(migrate())

    async def connect(self) -> None:
        self.client = Chancy(DSN)
        await self.client.__aenter__()

    async def send(self, number: int) -> None:
        await self.client.push(self._job(number))

    async def send_bulk(self, numbers: range) -> None:
        await self._push([self._job(number) for number in numbers])

    def enqueue_later(self, numbers: range, seconds: int) -> None:
        at = datetime.now(UTC) + timedelta(seconds=seconds)
        for start in range(numbers.start, numbers.stop, 10_000):
            chunk = range(start, min(start + 10_000, numbers.stop))
            self.run(self._push([self._job(number).with_scheduled_at(at) for number in chunk]))

    def waiting(self) -> int:
        return postgres.count("chancy_jobs", "state = 'pending' AND coalesce(scheduled_at <= now(), true)")

    def finished(self) -> int:
        return postgres.count("chancy_jobs", "state = 'succeeded'")

    def commands(self, workers: int) -> list[list[str]]:
        command = [program("chancy"), "--app", f"{__name__}.app", "worker", "start", "--worker-id"]
        return [[*command, f"worker-{number}"] for number in range(workers)]

    def _queue(self) -> Queue:
        if not TUNED:
            return Queue(name="default")
        return Queue(
            name="default",
            executor="chancy.executors.asyncex.AsyncExecutor",
            concurrency=100,
            polling_interval=1,
            eager_polling=True,
        )

    def _job(self, number: int) -> Any:
        return (noop_async if TUNED else noop).job.with_kwargs(number=number)

    async def _push(self, jobs: list[Any]) -> None:
        async for _ in self.client.push_many(jobs, batch_size=1_000):
            pass
