"""One client process: `python -m benchmarks.client ROLE AMOUNT`. It connects, says "ready", and works once a line.

- enqueue SECONDS: Job.objects.enqueue(), each a transaction of its own (autocommit)
- atomic SECONDS: the same in an atomic block each, as in a view
- insert SECONDS: the limit, the same row by a prepared INSERT in autocommit mode
- many COUNT: one enqueue_many()
- copy COUNT: the limit, the same rows by COPY, row by row as psycopg writes them
- copy-text COUNT: the limit of the limit, COPY of text that was made before the clock started
- paced COUNT: one enqueue every 20 ms; tells when each was committed
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

WARM_UP = 200
EVERY_NS = 20_000_000
FAR_IDS = 1_000_000_000  # where copy-text begins, since it writes to the same table as copy


def main(role: str, amount: float) -> None:
    """Work whenever told, and print one line of JSON each time."""
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchmarks.settings")
    django.setup()
    work = ROLES[role](amount)
    print("ready", flush=True)
    while sys.stdin.readline():
        print(json.dumps(work()), flush=True)


def _for_seconds(step: Callable[[int], Any], seconds: float) -> Callable[[], dict[str, Any]]:
    """Return the work of doing one step after another for a while."""
    for number in range(WARM_UP):
        step(number)

    def work() -> dict[str, Any]:
        count, began = 0, time.perf_counter()
        end = began + seconds
        while time.perf_counter() < end:
            step(count)
            count += 1
        return {"count": count, "seconds": time.perf_counter() - began}

    return work


def _enqueue(seconds: float) -> Callable[[], dict[str, Any]]:
    from jobqueue.models import Job

    from .jobs import NOTHING, payload

    return _for_seconds(lambda number: Job.objects.enqueue(NOTHING, payload(number)), seconds)


def _atomic(seconds: float) -> Callable[[], dict[str, Any]]:
    from django.db import transaction

    from jobqueue.models import Job

    from .jobs import NOTHING, payload

    def step(number: int) -> None:
        with transaction.atomic():
            Job.objects.enqueue(NOTHING, payload(number))

    return _for_seconds(step, seconds)


def _insert(seconds: float) -> Callable[[], dict[str, Any]]:
    from . import database, limit

    cursor = database.connect().cursor()
    return _for_seconds(lambda number: cursor.execute(limit.INSERT, limit.row(number)), seconds)


def _many(count: float) -> Callable[[], dict[str, Any]]:
    from jobqueue.models import Job

    from .jobs import NOTHING, payload

    specs = [(NOTHING, payload(number)) for number in range(int(count))]
    Job.objects.enqueue_many(specs[:10])

    def work() -> dict[str, Any]:
        began = time.perf_counter()
        jobs = Job.objects.enqueue_many(specs)
        seconds = time.perf_counter() - began
        assert None not in jobs
        return {"count": len(jobs), "seconds": seconds}

    return work


def _copy(count: float) -> Callable[[], dict[str, Any]]:
    from . import database, limit

    connection = database.connect()
    starts = itertools.count(0, int(count))

    def work() -> dict[str, Any]:
        rows = limit.copy_rows(next(starts), int(count))
        began = time.perf_counter()
        limit.copy(connection, rows)
        return {"count": len(rows), "seconds": time.perf_counter() - began}

    return work


def _copy_text(count: float) -> Callable[[], dict[str, Any]]:
    from . import database, limit

    connection = database.connect()
    starts = itertools.count(FAR_IDS, int(count))

    def work() -> dict[str, Any]:
        rows = limit.copy_rows(next(starts), int(count))
        text = "".join("\t".join(map(str, row)) + "\n" for row in rows).encode()
        began = time.perf_counter()
        with connection.cursor().copy(limit.COPY) as stream:
            stream.write(text)
        return {"count": len(rows), "seconds": time.perf_counter() - began}

    return work


def _paced(count: float) -> Callable[[], dict[str, Any]]:
    from django.db import connection, transaction

    from jobqueue.models import Job

    from .jobs import STAMP

    connection.ensure_connection()
    committed: list[int] = []

    def step(number: int) -> None:
        with transaction.atomic():
            # Before the enqueue, so that this hook runs before the product's own.
            transaction.on_commit(lambda: committed.append(time.monotonic_ns()))
            Job.objects.enqueue(STAMP, {"number": number})

    def work() -> dict[str, Any]:
        committed.clear()
        began = time.monotonic_ns()
        for number in range(int(count)):
            time.sleep(max(0, began + number * EVERY_NS - time.monotonic_ns()) / 1e9)
            step(number)
        return {"committed_ns": committed}

    return work


ROLES: dict[str, Callable[[float], Callable[[], dict[str, Any]]]] = {
    "enqueue": _enqueue,
    "atomic": _atomic,
    "insert": _insert,
    "many": _many,
    "copy": _copy,
    "copy-text": _copy_text,
    "paced": _paced,
}

if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
