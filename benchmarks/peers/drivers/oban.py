"""oban for Python: its own command as the worker; jobs stay in its table with a state."""

from __future__ import annotations

import subprocess
from datetime import timedelta
from typing import Any

from oban import Oban, worker

from . import postgres
from .base import DSN, TUNED, program
from .loop import LoopDriver
from .tally import mark


@worker(queue="default")
class Noop:
    """Do nothing but count the run."""

    async def process(self, job: Any) -> None:
        """Run one job."""
        mark(job.args["number"])


class Peer(LoopDriver):
    """The documented client and `oban start`."""

    packages = ("oban", "psycopg", "uvloop")
    settings = {
        "default": "oban start --queues default:10",
        "tuned": "oban start --queues default:100 --pool-max-size 20",
    }

    def setup(self) -> None:
        subprocess.run([program("oban"), "install", "--dsn", DSN], check=True, capture_output=True)

    async def connect(self) -> None:
        self.client = Oban(pool=await Oban.create_pool(dsn=DSN))

    async def send(self, number: int) -> None:
        await self.client.enqueue(_job(number))

    async def send_bulk(self, numbers: range) -> None:
        await self.client.enqueue_many([_job(number) for number in numbers])

    def enqueue_later(self, numbers: range, seconds: int) -> None:
        later = timedelta(seconds=seconds)

        async def work() -> None:
            for start in range(numbers.start, numbers.stop, 1_000):
                chunk = range(start, min(start + 1_000, numbers.stop))
                await self.client.enqueue_many([_job(number, scheduled_in=later) for number in chunk])

        self.run(work())

    def waiting(self) -> int:
        return postgres.count("oban_jobs", "state = 'available'")

    def finished(self) -> int:
        return postgres.count("oban_jobs", "state = 'completed'")

    def commands(self, workers: int) -> list[list[str]]:
        # --cron-modules only has the module of the handler imported.
        command = [program("oban"), "start", "--dsn", DSN, "--log-level", "error", "--cron-modules", __name__]
        command += ["--queues", "default:100", "--pool-max-size", "20"] if TUNED else ["--queues", "default:10"]
        return [[*command, "--node", f"node-{number}"] for number in range(workers)]


def _job(number: int, **options: Any) -> Any:
    return Noop.new({"number": number}, **options)  # type: ignore[attr-defined]  # the decorator adds it
