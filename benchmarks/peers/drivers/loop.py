"""A driver whose client is asynchronous: one event loop, entered once a verb, so that no job pays for entering it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

from .base import Driver

try:
    from uvloop import new_event_loop  # where the peer brings it, its users run on it
except ImportError:
    from asyncio import new_event_loop

Result = TypeVar("Result")


class LoopDriver(Driver):
    """Write the same methods as coroutines, by these names."""

    def __init__(self) -> None:
        self.loop = new_event_loop()

    def run(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine to its end in the one loop."""
        result: Result = self.loop.run_until_complete(coroutine)
        return result

    async def connect(self) -> None:
        """Connect the client: what open() is elsewhere."""

    async def send(self, number: int) -> None:
        """Enqueue one job."""
        raise NotImplementedError

    async def send_bulk(self, numbers: range) -> None:
        """Enqueue many jobs by one call."""
        raise NotImplementedError

    def open(self) -> None:
        self.run(self.connect())

    def enqueue(self, number: int) -> None:
        self.run(self.send(number))

    def enqueue_bulk(self, numbers: range) -> None:
        self.run(self.send_bulk(numbers))

    def one_by_one(self, numbers: range, seconds: float) -> dict[str, float]:
        async def work() -> dict[str, float]:
            began = time.perf_counter()
            count = 0
            for number in numbers:
                await self.send(number)
                count += 1
                if time.perf_counter() - began >= seconds:
                    break
            return {"count": count, "seconds": time.perf_counter() - began}

        return self.run(work())

    def paced(self, numbers: range, every_ms: float) -> list[int]:
        async def work() -> list[int]:
            began = time.monotonic_ns()
            returned = []
            for position, number in enumerate(numbers):
                await asyncio.sleep(max(0.0, (began + position * every_ms * 1e6 - time.monotonic_ns()) / 1e9))
                await self.send(number)
                returned.append(time.monotonic_ns())
            return returned

        return self.run(work())
