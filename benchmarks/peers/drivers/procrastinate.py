"""procrastinate: its own command as the worker, LISTEN on; jobs stay in its table with a status."""

from __future__ import annotations

import procrastinate

from . import postgres
from .base import DSN, TUNED, Driver, program
from .tally import mark

app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=DSN))


@app.task(name="noop")
async def noop(number: int) -> None:
    """Do nothing but count the run."""
    mark(number)


class Peer(Driver):
    """The documented client, synchronous, and `procrastinate worker`."""

    packages = ("procrastinate", "psycopg")
    settings = {
        "default": "procrastinate worker: concurrency 1, LISTEN, jobs kept",
        "tuned": "procrastinate worker --concurrency 20: LISTEN, jobs kept",
    }
    bulk_size = 5_000

    def setup(self) -> None:
        with app.open():
            app.schema_manager.apply_schema()

    def open(self) -> None:
        app.open()

    def enqueue(self, number: int) -> None:
        noop.defer(number=number)

    def enqueue_bulk(self, numbers: range) -> None:
        noop.batch_defer(*({"number": number} for number in numbers))

    def enqueue_later(self, numbers: range, seconds: int) -> None:
        later = noop.configure(schedule_in={"seconds": seconds})
        for start in range(numbers.start, numbers.stop, 1_000):
            later.batch_defer(*({"number": number} for number in range(start, min(start + 1_000, numbers.stop))))

    def waiting(self) -> int:
        return postgres.count("procrastinate_jobs", "status = 'todo' AND coalesce(scheduled_at <= now(), true)")

    def finished(self) -> int:
        return postgres.count("procrastinate_jobs", "status = 'succeeded'")

    def commands(self, workers: int) -> list[list[str]]:
        command = [program("procrastinate"), f"--app={__name__}.app", "--log-level=warning", "worker"]
        return [command + (["--concurrency=20"] if TUNED else [])] * workers
