"""huey with Redis: a job is taken off a list before it is run, so that a worker that dies loses it."""

from __future__ import annotations

from huey import RedisHuey

from .base import REDIS_URL, TUNED, program
from .redis_store import RedisPeer
from .tally import mark

queue = RedisHuey("benchmarks", url=REDIS_URL)


@queue.task()
def noop(number: int) -> None:
    """Do nothing but count the run."""
    mark(number)


class Peer(RedisPeer):
    """`huey_consumer`. No bulk API: map() sends its jobs one by one."""

    packages = ("huey", "redis")
    settings = {
        "default": "huey_consumer: 1 thread; Redis without persistence",
        "tuned": "huey_consumer: 2 processes, no periodic tasks; Redis without persistence",
    }
    bulk_size = None

    def enqueue(self, number: int) -> None:
        noop(number)
        self.enqueued += 1

    def enqueue_later(self, numbers: range, seconds: int) -> None:
        # Straight to the set of the scheduled ones. schedule() sends them to the list of the due ones, from which a
        # consumer takes each to put it there, and for a moment Redis would have it nowhere.
        for number in numbers:
            queue.add_schedule(noop.s(number, delay=seconds))
            self.enqueued += 1

    def waiting(self) -> int:
        return int(queue.pending_count())

    def held(self) -> int:
        return int(queue.pending_count() + queue.scheduled_count())

    def commands(self, workers: int) -> list[list[str]]:
        tuned = ["--workers=2", "--worker-type=process", "--no-periodic"] if TUNED else []
        # A stop by SIGTERM lets the running job end; by default it takes SIGINT for that.
        return [[program("huey_consumer"), f"{__name__}.queue", "--quiet", "--graceful-signal=TERM", *tuned]] * workers
