"""What the statistics cost a drain: the same drain once more, by workers whose settles count nothing.

Both sides are the worker as it is; the other one starts with the part that counts cut out of the text of its settles
(benchmarks/settings.py), so that it inserts no rows of statistics and has none to fold.
"""

from __future__ import annotations

from benchmarks import database, figures
from benchmarks.figures import Figure
from benchmarks.plan import Plan
from benchmarks.sampling import take

from . import drain

JOBS = 50_000
BAR = 90
UNCOUNTED = {"BENCHMARKS_UNCOUNTED": "1"}
PAIRS = 2  # of drains in each sample: one alone varies by more than the statistics cost


def measure(plan: Plan) -> list[Figure]:
    """Return the one figure: the rate with statistics as a share of that without."""
    jobs = plan.size(JOBS, least=500)
    with database.connect() as connection:

        def one(*, counted: bool) -> float:
            rate = drain.drain(connection, jobs, settings=None if counted else UNCOUNTED)["worker, jobs/s"]
            check(connection, jobs if counted else 0)
            return rate

        def sample() -> dict[str, float]:
            # Each goes first half of the time: the second finds the machine as the first left it.
            with_, without = [one(counted=True)], [one(counted=False)]
            for _ in range(PAIRS - 1):
                without.append(one(counted=False))
                with_.append(one(counted=True))
            return {
                "counted, jobs/s": sum(with_) / PAIRS,
                "uncounted, jobs/s": sum(without) / PAIRS,
                "share": sum(with_) / sum(without),
            }

        samples = take(plan, "statistics", sample)
    return [
        Figure(
            row="statistics",
            work=f"drain {jobs:,} no-ops with statistics, against the same with the counting cut out of the settles",
            value=100 * samples.median("share"),
            unit="%",
            bar=BAR,
            better="higher",
            product=figures.rate(samples.values["counted, jobs/s"]),
            limit=figures.rate(samples.values["uncounted, jobs/s"]),
            samples=samples.values,
            noise=samples.noise,
        )
    ]


def check(connection: database.Connection, jobs: int) -> None:
    """Raise AssertionError unless the statistics have so many jobs, each with its times."""
    row = connection.execute(
        "SELECT COALESCE(sum(jobs), 0), COALESCE(sum(COALESCE(cardinality(run_buckets), 0)), 0)"
        " + COALESCE(sum((SELECT sum(entries) FROM unnest(run_counts) AS entries)), 0) FROM jobqueue_stat"
    ).fetchone()
    assert row is not None
    assert row == (jobs, jobs), f"statistics of {row[0]} jobs with {row[1]} times, of {jobs}"
