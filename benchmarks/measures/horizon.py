"""Whether a long transaction elsewhere hurts: it keeps every dead row version from being cleaned away.

Each claimed row leaves a dead entry at the head of the claim index. While an old snapshot is held, none can be removed,
and a claim that scans from the head walks over all of them. Measured at the end of a long drain, where it would show.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext

import psycopg

from benchmarks import database, figures, seeding
from benchmarks.apps import CLAIMS_VARIABLE
from benchmarks.figures import Figure
from benchmarks.plan import Plan
from benchmarks.sampling import Samples, take
from benchmarks.tally import new_tally
from benchmarks.worker import Worker

from .drain import check_once, ended_well

JOBS, MANY_JOBS = 300_000, 500_000


def measure(plan: Plan) -> list[Figure]:
    """Return the one figure: the last tenth's rate under a held snapshot as a share of the rate without it."""
    jobs = plan.size(JOBS, least=1_000)
    return [_rate_figure(jobs, take(plan, "horizon", lambda: _sample(jobs)), bar=70)]


def measure_many(plan: Plan) -> list[Figure]:
    """Return the figures of half a million jobs: the last tenth's rate, and how long its claims take."""
    jobs = plan.size(MANY_JOBS, least=1_000)
    samples = take(plan, "horizon", lambda: _sample(jobs))
    held, free = ("claim p95 ms, held", "claim p95 ms, free")
    p95 = Figure(
        row="horizon-p95",
        work=f"p95 of the worker's claims for the last tenth of {jobs:,} jobs under a held snapshot, against without",
        value=samples.median(held) / samples.median(free),
        unit="x",
        bar=2,
        better="lower",
        product=figures.milliseconds(samples.values[held]),
        limit=figures.milliseconds(samples.values[free]),
        samples=samples.values,
        noise=samples.noise,
    )
    return [figure for figure in (_rate_figure(jobs, samples, bar=80), p95) if plan.wants(figure.row)]


def _rate_figure(jobs: int, samples: Samples, *, bar: float) -> Figure:
    # Against the better of the two, so that a drain that slows down by itself is no excuse.
    reference = max(("whole, free", "last tenth, free"), key=samples.median)
    return Figure(
        row="horizon",
        work=f"{jobs:,} jobs through one runworker under a held snapshot: the last tenth, against the rate without",
        value=100 * samples.median("last tenth, held") / samples.median(reference),
        unit="%",
        bar=bar,
        better="higher",
        product=figures.rate(samples.values["last tenth, held"]),
        limit=figures.rate(samples.values[reference]),
        samples=samples.values,
        notes=[f"the whole drain: {figures.rate(samples.values['whole, held'])} held; against: {reference}"],
        noise=samples.noise,
    )


def _sample(jobs: int) -> dict[str, float]:
    """Drain so many jobs without a held snapshot and with one. Returns jobs a second, and milliseconds of claims."""
    found: dict[str, float] = {}
    with database.connect() as connection:
        for kind in ("free", "held"):
            figures_of_one = _drain(connection, jobs, hold=kind == "held")
            found |= {f"{name}, {kind}": value for name, value in figures_of_one.items()}
    return found


def _drain(connection: database.Connection, jobs: int, *, hold: bool) -> dict[str, float]:
    """Drain so many jobs. Returns jobs a second, of all and of the last tenth, and the p95 of that one's claims."""
    seeding.enqueue(connection, jobs)
    with tempfile.NamedTemporaryFile("r", prefix="jobqueue-claims-") as claims, new_tally(jobs) as tally:
        timed = {CLAIMS_VARIABLE: claims.name}
        with (
            _held_snapshot() if hold else nullcontext(),
            Worker("--drain", tally=tally.path, settings=timed) as worker,
        ):
            worker.wait(60 + jobs / 300)
        times = [line.split() for line in claims]
        check_once(tally)
    ended = ended_well(connection, jobs)
    tenth = max(1, jobs // 10)
    edge = connection.execute(
        "SELECT finished_at FROM jobqueue_job ORDER BY finished_at DESC OFFSET %s LIMIT 1", [tenth]
    ).fetchone()
    assert edge is not None
    return {
        "whole": jobs / (ended.last - ended.first).total_seconds(),
        "last tenth": tenth / max((ended.last - edge[0]).total_seconds(), 0.001),
        "claim p95 ms": 1000 * last_p95([(int(rows), float(seconds)) for rows, seconds in times], tenth, jobs),
    }


def last_p95(claims: Sequence[tuple[int, float]], last: int, jobs: int) -> float:
    """Return the 95th percentile of the seconds of those claims, of (rows, seconds), that brought the last jobs.

    Raises AssertionError unless the claims brought all jobs: else the stop-watch does not see every claim.
    """
    assert sum(rows for rows, _ in claims) >= jobs, "claims were made that nobody timed"
    found, left = [], last
    for rows, seconds in reversed(claims):
        if left <= 0:
            break
        found.append(seconds)
        left -= rows
    return figures.percentile(found, 0.95)


@contextmanager
def _held_snapshot() -> Iterator[None]:
    """Hold a snapshot in another session, as a report or a dump does that takes hours."""
    with psycopg.connect(database.url()) as other:
        other.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        other.execute("SELECT count(*) FROM jobqueue_worker")
        yield
        other.rollback()
