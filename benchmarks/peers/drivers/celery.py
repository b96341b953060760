"""Celery with Redis as its broker: processes that are sent messages; no results, as for any task that gives none."""

from __future__ import annotations

import sys

from celery import Celery

from .base import REDIS_URL, TUNED
from .redis_store import RedisPeer
from .tally import mark

# A worker pops a message and writes it down as unacknowledged a moment later: in between Redis has it nowhere.
LOOKS = 5

app = Celery("benchmarks", broker=REDIS_URL or None)
if TUNED:
    # Events, gossip and the like are off by the command line; what is left is a message's way to one process.
    app.conf.worker_prefetch_multiplier = 64


@app.task(name="noop", ignore_result=True)
def noop(number: int) -> None:
    """Do nothing but count the run."""
    mark(number)


class Peer(RedisPeer):
    """`celery worker`. No bulk API: a group sends its messages one by one."""

    packages = ("celery", "kombu", "redis")
    settings = {
        "default": "celery worker: prefork, a process a core, prefetch 4 each; Redis without persistence",
        "tuned": (
            "celery worker --pool=solo, prefetch 64, without gossip, mingle and heartbeat; Redis without persistence"
        ),
    }
    bulk_size = None

    def enqueue(self, number: int) -> None:
        noop.delay(number)
        self.enqueued += 1

    def enqueue_later(self, numbers: range, seconds: int) -> None:
        # Sent at once: a worker takes them all, far beyond its prefetch, and holds them in memory until they are due.
        for number in numbers:
            noop.apply_async((number,), countdown=seconds)
            self.enqueued += 1

    def waiting(self) -> int:
        return int(self.client.llen("celery"))

    def held(self) -> int:
        return max(self._held_now() for _ in range(LOOKS))

    def commands(self, workers: int) -> list[list[str]]:
        common = [sys.executable, "-m", "celery", f"--app={__name__}:app", "worker", "--loglevel=WARNING"]
        tuned = ["--pool=solo", "--without-gossip", "--without-mingle", "--without-heartbeat"] if TUNED else []
        return [[*common, f"--hostname=worker{number}@%h", *tuned] for number in range(workers)]

    def _held_now(self) -> int:
        with self.client.pipeline() as pipeline:
            pipeline.llen("celery")
            pipeline.hlen("unacked")
            return sum(map(int, pipeline.execute()))
