"""Drain the queue in one process, without children: only to see what they cost. No product does this.

The handler runs by the executor that the children use, claims and settles are the worker's statements on the worker's
kind of connection, each on a thread of its own: the next batch is claimed and the last one settled while one runs.
There is nothing here that keeps a lease, ends a handler that runs too long, or survives one that crashes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jobqueue.children.protocol import Work
    from jobqueue.managers import ClaimedJob, CostLine, Done
    from jobqueue.managers.rows import Run

WORKER_ID = "in-process"
BATCH = 200
LEASE = timedelta(minutes=2)


class Reporter:
    """What a handler may tell; no-ops tell nothing."""

    def cost(self, work: Work, line: CostLine) -> None:
        """Refuse: it would be lost."""
        raise NotImplementedError

    def progress(self, work: Work, value: dict[str, Any]) -> None:
        """Refuse: it would be lost."""
        raise NotImplementedError

    def cancelled(self, work: Work) -> bool:
        """Tell that nobody asked to cancel."""
        return False


def drain(claim: Callable[[], Future[list[ClaimedJob]]], settle: Callable[[Sequence[Done]], Future[Any]]) -> int:
    """Run jobs until a claim brings none, and return their number."""
    from jobqueue.children.executor import UNHEARD, Executor
    from jobqueue.children.protocol import Work
    from jobqueue.managers import Done

    ended: list[Done] = []

    def end(work: Work, done: Any) -> int:
        assert isinstance(done, Done), done
        ended.append(done)
        return UNHEARD

    executor = Executor(worker_id=WORKER_ID, reporter=Reporter(), settle=end)
    count, coming, settled = 0, claim(), settle([])
    while batch := coming.result():
        coming = claim()
        for job in batch:
            head = (job.id, job.lease_epoch, job.job_type, job.queue, job.attempts, job.max_attempts)
            executor.execute(Work(*head, job.payload_bytes, job.payload, job.trace_context))
        settled.result()
        settled, ended = settle(ended), []
        count += len(batch)
    settled.result()
    return count


def _settle(run: Run, jobs: Sequence[Done]) -> None:
    from jobqueue.managers import settling

    if jobs:
        found = settling.settle_done(run, worker_id=WORKER_ID, jobs=jobs)
        assert len(found) == len(jobs), f"settled {len(found)} of {len(jobs)}"


def main() -> None:
    """Drain the benchmarks' database, and print how many jobs that were."""
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchmarks.settings")
    django.setup()
    from jobqueue.managers import Span, leasing
    from jobqueue.managers.sessions import Session

    with (
        ThreadPoolExecutor(1) as claimer,
        ThreadPoolExecutor(1) as settler,
        closing(Session("default", "claim")) as claims,
        closing(Session("default", "settle")) as settles,
    ):
        spans = [Span("default", BATCH)]
        count = drain(
            lambda: claimer.submit(leasing.claim, claims.run, spans=spans, worker_id=WORKER_ID, lease=LEASE),
            lambda jobs: settler.submit(_settle, settles.run, jobs),
        )
    print(json.dumps({"jobs": count}))


if __name__ == "__main__":
    main()
