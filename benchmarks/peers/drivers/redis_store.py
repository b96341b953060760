"""What the peers whose store is Redis have in common: it is emptied first, and it forgets what is finished."""

from __future__ import annotations

import redis

from .base import REDIS_URL, Driver


class RedisPeer(Driver):
    """A driver that counts what it enqueued: finished is what the store no longer has anywhere."""

    client: redis.Redis

    def setup(self) -> None:
        self.client = redis.Redis.from_url(REDIS_URL)
        self.client.flushall()
        self.enqueued = 0

    def held(self) -> int:
        """Return how many jobs the store still has, waiting, taken, put off or failed."""
        raise NotImplementedError

    def finished(self) -> int:
        return self.enqueued - self.held()
