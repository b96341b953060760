"""Whether a long transaction elsewhere hurts: it keeps every dead row version from being cleaned away.

Each claimed row leaves a dead entry at the head of the claim index. While an old snapshot is held, none can be removed,
and a claim that scans from the head walks over all of them. Measured at the end of a long drain, where it would show.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from benchmarks import database, figures, seeding
from benchmarks.figures import Figure
from benchmarks.plan import Plan
from benchmarks.sampling import take
from benchmarks.worker import Worker

from .drain import ended_well

JOBS = 300_000


def measure(plan: Plan) -> list[Figure]:
    """Return the one figure: the last tenth's rate under a held snapshot as a share of the rate without it."""
    jobs = plan.size(JOBS, least=1_000)
    with database.connect() as connection:

        def sample() -> dict[str, float]:
            rates = {}
            for kind in ("free", "held"):
                rates[f"whole, {kind}"], rates[f"last tenth, {kind}"] = _drain(connection, jobs, hold=kind == "held")
            return rates

        samples = take(plan, "horizon", sample)
    # Against the better of the two, so that a drain that slows down by itself is no excuse.
    reference = max(("whole, free", "last tenth, free"), key=samples.median)
    return [
        Figure(
            row="horizon",
            work=f"{jobs:,} jobs through one runworker under a held snapshot: the last tenth, against the rate without",
            value=100 * samples.median("last tenth, held") / samples.median(reference),
            unit="%",
            bar=70,
            better="higher",
            product=figures.rate(samples.values["last tenth, held"]),
            limit=figures.rate(samples.values[reference]),
            samples=samples.values,
            notes=[f"the whole drain: {figures.rate(samples.values['whole, held'])} held; against: {reference}"],
            noise=samples.noise,
        )
    ]


def _drain(connection: database.Connection, jobs: int, *, hold: bool) -> tuple[float, float]:
    """Drain so many jobs. Returns jobs a second: of the whole drain, and of its last tenth."""
    seeding.enqueue(connection, jobs)
    with _held_snapshot() if hold else _nothing(), Worker("--drain") as worker:
        worker.wait(60 + jobs / 300)
    ended = ended_well(connection, jobs)
    tenth = max(1, jobs // 10)
    edge = connection.execute(
        "SELECT finished_at FROM jobqueue_job ORDER BY finished_at DESC OFFSET %s LIMIT 1", [tenth]
    ).fetchone()
    assert edge is not None
    return jobs / (ended.last - ended.first).total_seconds(), tenth / max((ended.last - edge[0]).total_seconds(), 0.001)


@contextmanager
def _held_snapshot() -> Iterator[None]:
    """Hold a snapshot in another session, as a report or a dump does that takes hours."""
    with psycopg.connect(database.url()) as other:
        other.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        other.execute("SELECT count(*) FROM jobqueue_worker")
        yield
        other.rollback()


@contextmanager
def _nothing() -> Iterator[None]:
    yield
