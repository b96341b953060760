"""RQ: a job is a hash in Redis; its default worker forks a process for every job."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from rq import Queue

from .base import REDIS_URL, TUNED, program
from .redis_store import RedisPeer
from .tally import mark

QUEUE = "default"
# The last two: taken by a worker that has not said so yet, and being run.
LISTS = (f"rq:queue:{QUEUE}", f"rq:queue:{QUEUE}:intermediate")
SETS = tuple(f"rq:{state}:{QUEUE}" for state in ("wip", "failed", "scheduled", "deferred"))


def noop(number: int) -> None:
    """Do nothing but count the run."""
    mark(number)


class Peer(RedisPeer):
    """`rq worker`, and `rq worker-pool` of workers that do not fork where tuned."""

    packages = ("rq", "redis")
    settings = {
        "default": "rq worker: a fork a job, jobs kept for 500 s; Redis without persistence",
        "tuned": "rq worker-pool of 2 SimpleWorkers (no fork), jobs deleted (result_ttl 0); Redis without persistence",
    }

    def open(self) -> None:
        self.queue = Queue(QUEUE, connection=self.client)
        self.options: dict[str, Any] = {"result_ttl": 0} if TUNED else {}

    def enqueue(self, number: int) -> None:
        self.queue.enqueue(noop, number, **self.options)
        self.enqueued += 1

    def enqueue_bulk(self, numbers: range) -> None:
        self.queue.enqueue_many([Queue.prepare_data(noop, (number,), **self.options) for number in numbers])
        self.enqueued += len(numbers)

    def enqueue_later(self, numbers: range, seconds: int) -> None:
        # To no queue but to a set, from which a scheduler (`--with-scheduler`) would move them when due.
        for number in numbers:
            self.queue.enqueue_in(timedelta(seconds=seconds), noop, number, **self.options)
            self.enqueued += 1

    def waiting(self) -> int:
        return int(self.client.llen(LISTS[0]))

    def held(self) -> int:
        with self.client.pipeline() as pipeline:
            for name in LISTS:
                pipeline.llen(name)
            for name in SETS:
                pipeline.zcard(name)
            return sum(map(int, pipeline.execute()))

    def commands(self, workers: int) -> list[list[str]]:
        tuned = ["worker-pool", "--num-workers=2", "--worker-class=rq.worker.SimpleWorker"]
        command = [program("rq"), *(tuned if TUNED else ["worker"]), "--quiet", "--url", REDIS_URL, QUEUE]
        return [command] * workers
