"""How fast one worker with default settings ends no-ops, beside a raw loop that claims and settles the same rows.

The clock runs from the first claim to the last settle, as the database tells them: what `manage.py` takes to start is
not the queue's speed. It is told apart, as the worker's whole time.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from benchmarks import database, figures, limit, seeding
from benchmarks.figures import Figure
from benchmarks.plan import Plan, say
from benchmarks.sampling import take
from benchmarks.tally import Tally, new_tally
from benchmarks.worker import ROOT, Worker

JOBS = 50_000
BATCH = 100
BAR = 40
# Not part of this repository; where it lies beside the checkout it is run too, as the target to chase.
PROTOTYPE = ROOT.parent / "shared" / "bench" / "pipeline.py"


def measure(plan: Plan) -> list[Figure]:
    """Return the one figure: the worker's rate as a share of the raw loop's."""
    jobs = plan.size(JOBS, least=500)
    with database.connect() as connection:

        def sample() -> dict[str, float]:
            drained = drain(connection, jobs)
            return {**drained, "raw loop, jobs/s": raw_loop(connection, jobs)}

        samples = take(plan, "drain", sample)
        connection.execute(f"DROP TABLE {limit.TABLE}")
    whole = samples.median("worker, whole s")
    return [
        Figure(
            row="drain",
            work=f"drain {jobs:,} no-ops, one runworker with 2 children, against the raw loop by {BATCH}",
            value=100 * samples.median("worker, jobs/s") / samples.median("raw loop, jobs/s"),
            unit="%",
            bar=BAR,
            better="higher",
            product=figures.rate(samples.values["worker, jobs/s"]),
            limit=figures.rate(samples.values["raw loop, jobs/s"]),
            samples=samples.values,
            notes=[f"the worker's whole time with its start: {whole:.2f} s for {jobs:,} jobs", *prototype(jobs)],
            noise=samples.noise,
        )
    ]


def drain(connection: database.Connection, jobs: int, *, settings: Mapping[str, str] | None = None) -> dict[str, float]:
    """Enqueue so many no-ops and drain them: see drain_enqueued()."""
    seeding.enqueue(connection, jobs)
    return drain_enqueued(connection, jobs, settings=settings)


def drain_enqueued(
    connection: database.Connection, jobs: int, *, settings: Mapping[str, str] | None = None
) -> dict[str, float]:
    """Drain no-ops. Returns jobs a second, the seconds of the whole process, and the jobs it gave back first.

    Raises AssertionError unless every handler ran exactly once and every job ended well at its first attempt.
    """
    with new_tally(jobs) as tally:
        began = time.perf_counter()
        with Worker("--drain", tally=tally.path, settings=settings) as worker:
            worker.wait(60 + jobs / 300)
            seconds = time.perf_counter() - began
        check_once(tally)
    ended = ended_well(connection, jobs)
    rate = jobs / (ended.last - ended.first).total_seconds()
    return {"worker, jobs/s": rate, "worker, whole s": seconds, "given back": float(ended.given_back)}


def check_once(tally: Tally) -> None:
    """Raise AssertionError unless every handler that the tally has a number for ran exactly once."""
    runs = set(tally.values)
    assert runs == {1}, f"of {len(tally.values)} handlers some ran other than once: {sorted(runs)} times"


class Ended(NamedTuple):
    """When a drain's first job was claimed and its last one settled, and how many were given back unstarted before."""

    first: datetime
    last: datetime
    given_back: int


def ended_well(connection: database.Connection, jobs: int) -> Ended:
    """Return when a drain began and ended. Raises AssertionError unless every job is DONE, at its first attempt."""
    row = connection.execute(
        "SELECT count(*) FILTER (WHERE status = 3 AND attempts = 1 AND interruptions = 0), count(*),"
        # Only the epoch tells that a job was claimed before and given back unstarted, which is no attempt.
        " min(claimed_at), max(finished_at), count(*) FILTER (WHERE lease_epoch > 1) FROM jobqueue_job"
    ).fetchone()
    assert row is not None
    assert row[:2] == (jobs, jobs), f"{row[0]} of {row[1]} rows ended well at their first attempt, {jobs} were enqueued"
    return Ended(*row[2:])


def raw_loop(connection: database.Connection, jobs: int) -> float:
    """Return the jobs a second of the raw loop over a copy of the rows that the worker has just drained."""
    limit.make_table(connection)
    limit.fill(connection, jobs)
    database.settle_down(connection, limit.TABLE)
    return limit.drain(connection, jobs, batch=BATCH)


def prototype(jobs: int) -> list[str]:
    """Return a note with the prototype's rate, if it is here."""
    if not PROTOTYPE.is_file():
        return []
    # 400 jobs ahead a child, 100 a message: its best on two cores.
    command = [sys.executable, str(PROTOTYPE), str(jobs), "2", "400", "100"]
    done = subprocess.run(
        command, env={**os.environ, "DSN": database.url()}, capture_output=True, text=True, timeout=300, check=False
    )
    found = re.search(r"= (\d+)/s", done.stdout)
    if done.returncode != 0 or found is None:
        return [f"the prototype did not run: {done.stderr.strip()[-200:]}"]
    say(f"prototype {int(found[1]):,}/s")
    return [f"the prototype beside it, the target to chase: {int(found[1]):,}/s (one run)"]
