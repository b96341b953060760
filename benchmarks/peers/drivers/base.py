"""What a driver is, and the loop that serves its verbs: a line of JSON in, a line of JSON out.

A request is {"verb": NAME, ...arguments}; the answer is {"value": ...} or {"error": TEXT}. The jobs of a run are
numbered from 0; the handler of each calls tally.mark(number) first, and does nothing else.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import platform
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

TUNED = os.environ.get("PEER_TUNED") == "1"
DSN = os.environ.get("PEER_DSN", "")  # postgresql://…: this peer's own database, which is empty before setup()
REDIS_URL = os.environ.get("PEER_REDIS_URL", "")  # a server of the run's own, for the peers that need one
ERROR_CHARACTERS = 2_000


class Driver:
    """Everything that the harness wants of a peer. The client's connection is opened by open(), after setup()."""

    packages: ClassVar[Sequence[str]] = ()  # whose versions are told; the peer's own comes first
    # In words, for the report; no "tuned" where the defaults are the best that there is.
    settings: ClassVar[dict[str, str]] = {"default": ""}
    bulk_size: int | None = 1_000  # jobs a call of enqueue_bulk(); None where the peer has no bulk API
    deferrable = True  # whether enqueue_later() exists

    def setup(self) -> None:
        """Lay the peer's schema in the empty database."""
        raise NotImplementedError

    def open(self) -> None:
        """Connect the client that enqueues."""

    def enqueue(self, number: int) -> None:
        """Enqueue one job, committed at the return, by the API that the peer's users are told to use."""
        raise NotImplementedError

    def enqueue_bulk(self, numbers: range) -> None:
        """Enqueue so many jobs by one call of the bulk API, committed at the return."""
        raise NotImplementedError

    def enqueue_later(self, numbers: range, seconds: int) -> None:
        """Enqueue jobs that become due only in so many seconds; by the fastest way, since it is not measured."""
        raise NotImplementedError

    def waiting(self) -> int:
        """Return how many due jobs the store has that have not been taken yet."""
        raise NotImplementedError

    def finished(self) -> int:
        """Return how many jobs the store shows as done well, of all that were enqueued since setup()."""
        raise NotImplementedError

    def commands(self, workers: int) -> list[list[str]]:
        """Return the command line of each worker, the peer's own program wherever it has one."""
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        """Return what the workers need in their environment beside PEER_DSN and the like."""
        return {}

    # The loops below may be replaced where a peer must not pay for being called from outside its event loop.

    def one_by_one(self, numbers: range, seconds: float) -> dict[str, float]:
        """Enqueue one after another until the numbers or the seconds run out. Returns {"count", "seconds"}."""
        began = time.perf_counter()
        count = 0
        for number in numbers:
            self.enqueue(number)
            count += 1
            if time.perf_counter() - began >= seconds:
                break
        return {"count": count, "seconds": time.perf_counter() - began}

    def in_bulk(self, numbers: range, seconds: float) -> dict[str, float]:
        """Enqueue call after call until the numbers or the seconds run out. Returns {"count", "seconds"}."""
        assert self.bulk_size is not None
        began = time.perf_counter()
        count = 0
        for start in range(numbers.start, numbers.stop, self.bulk_size):
            chunk = range(start, min(start + self.bulk_size, numbers.stop))
            self.enqueue_bulk(chunk)
            count += len(chunk)
            if time.perf_counter() - began >= seconds:
                break
        return {"count": count, "seconds": time.perf_counter() - began}

    def paced(self, numbers: range, every_ms: float) -> list[int]:
        """Enqueue one every so many milliseconds. Returns when each call returned, in CLOCK_MONOTONIC nanoseconds."""
        began = time.monotonic_ns()
        returned = []
        for position, number in enumerate(numbers):
            time.sleep(max(0.0, (began + position * every_ms * 1e6 - time.monotonic_ns()) / 1e9))
            self.enqueue(number)
            returned.append(time.monotonic_ns())
        return returned

    # The verbs as the protocol has them.

    def verb_describe(self) -> dict[str, Any]:
        return {
            "versions": {name: importlib.metadata.version(name) for name in self.packages},
            "python": platform.python_version(),
            "settings": self.settings.get("tuned" if TUNED else "default", self.settings["default"]),
            "tunable": "tuned" in self.settings,
            "bulk_size": self.bulk_size,
            "deferrable": self.deferrable,
        }

    def verb_setup(self) -> None:
        self.setup()
        self.open()

    def verb_fill(self, first: int, count: int) -> dict[str, float]:
        way = self.one_by_one if self.bulk_size is None else self.in_bulk
        return way(range(first, first + count), float("inf"))

    def verb_one_by_one(self, first: int, count: int, seconds: float) -> dict[str, float]:
        return self.one_by_one(range(first, first + count), seconds)

    def verb_in_bulk(self, first: int, count: int, seconds: float) -> dict[str, float]:
        return self.in_bulk(range(first, first + count), seconds)

    def verb_later(self, first: int, count: int, seconds: int) -> None:
        self.enqueue_later(range(first, first + count), seconds)

    def verb_paced(self, first: int, count: int, every_ms: float) -> list[int]:
        return self.paced(range(first, first + count), every_ms)

    def verb_waiting(self) -> int:
        return self.waiting()

    def verb_finished(self) -> int:
        return self.finished()

    def verb_commands(self, workers: int) -> dict[str, Any]:
        return {"commands": self.commands(workers), "environment": self.environment()}


def program(name: str) -> str:
    """Return the path of a program that was installed beside this interpreter."""
    return str(Path(sys.executable).parent / name)


def serve(driver: Driver) -> None:
    """Answer one request after another until standard input ends."""
    # What the peer prints must not come between the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"value": getattr(driver, "verb_" + request.pop("verb"))(**request)}
        except Exception as error:  # noqa: BLE001 - a peer may raise anything; the harness shows it in its row
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"[:ERROR_CHARACTERS]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def main() -> None:
    """Serve the driver that the command line names: a module of this package with a class of the name Peer."""
    serve(importlib.import_module(f"{__package__}.{sys.argv[1]}").Peer())
    # Threads and pools that a peer leaves running must not keep this process alive.
    os._exit(0)
