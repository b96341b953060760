"""How long an idle worker takes from the commit of an enqueue to the first line of the handler.

Both ends read the same clock, CLOCK_MONOTONIC, which all processes of a machine share.
"""

from __future__ import annotations

import time

from benchmarks import database, figures
from benchmarks.clients import Clients
from benchmarks.figures import Figure
from benchmarks.plan import Plan
from benchmarks.sampling import take
from benchmarks.tally import Tally, new_tally
from benchmarks.worker import Worker

JOBS = 1_000
WARM_UP = 25  # plans, caches and the children's first job
WAIT_SECONDS = 30.0


def measure(plan: Plan) -> list[Figure]:
    """Return the figures of the middle and of the slowest hundredth."""
    jobs = plan.size(JOBS, least=50)
    with database.connect() as connection:

        def sample() -> dict[str, float]:
            waits = idle_to_started(connection, jobs)
            percentiles = {"p50 ms": figures.percentile(waits, 0.5), "p99 ms": figures.percentile(waits, 0.99)}
            return {**percentiles, "max ms": max(waits)}

        samples = take(plan, "latency", sample)
    work = f"commit of the enqueue to first line of the handler, {jobs:,} jobs, one every 20 ms"
    return [
        Figure(
            row=f"latency-{name}",
            work=f"{work}: {name}",
            value=samples.median(f"{name} ms"),
            unit="ms",
            bar=bar,
            better="lower",
            product=figures.milliseconds(samples.values[f"{name} ms"]),
            samples=samples.values,
            noise=samples.noise,
        )
        for name, bar in (("p50", 4), ("p99", 15))
        if plan.wants(f"latency-{name}")
    ]


def idle_to_started(connection: database.Connection, jobs: int) -> list[float]:
    """Enqueue jobs one by one to an idle worker. Returns how many milliseconds each waited."""
    database.empty(connection)
    total = WARM_UP + jobs
    with new_tally(total) as tally, Worker(tally=tally.path) as worker, Clients("paced", total) as clients:
        worker.wait_until_idle(connection)
        committed = clients.go()[0]["committed_ns"]
        _wait_for_all(tally)
        return [(begun - at) / 1e6 for begun, at in zip(tally.values, committed, strict=True)][WARM_UP:]


def _wait_for_all(tally: Tally) -> None:
    give_up = time.monotonic() + WAIT_SECONDS
    while not all(tally.values):
        if time.monotonic() > give_up:
            missing = sum(not value for value in tally.values)
            raise TimeoutError(f"{missing} jobs had not begun {WAIT_SECONDS:.0f} s after the last enqueue")
        time.sleep(0.01)
