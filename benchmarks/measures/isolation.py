"""What isolation costs: children, against the same executor function in one process that settles by the same SQL.

The other side exists here only: `python -m benchmarks.inprocess`. Like a worker it claims and settles on threads of
their own while handlers run, so what is left of the difference is the children: frames, sockets, and processes.
"""

from __future__ import annotations

import json
import subprocess
import sys

from benchmarks import database, figures, seeding
from benchmarks.figures import Figure
from benchmarks.machine import Cpu
from benchmarks.plan import Plan
from benchmarks.sampling import take
from benchmarks.tally import VARIABLE, new_tally
from benchmarks.worker import ROOT, environment

from .drain import check_once, drain_enqueued, ended_well

JOBS = 100_000
BAR = 30


def measure(plan: Plan) -> list[Figure]:
    """Return the one figure: how much slower children are, in per cent; below zero where they are faster."""
    jobs = plan.size(JOBS, least=1_000)
    samples = take(plan, "isolation", lambda: compare(jobs))
    rate, alone = samples.median("children, jobs/s"), samples.median("one process, jobs/s")
    cpu = {side: samples.median(f"{side}, CPU µs a job") for side in ("children", "one process")}
    note = (
        f"processor time a job, with the start and without the server: {cpu['children']:.0f} µs with children,"
        f" {cpu['one process']:.0f} µs in one process"
    )
    return [
        Figure(
            row="isolation",
            work=f"{jobs:,} no-ops by a worker with 2 children, against the same executor in one process without any:"
            " so much slower",
            value=100 * (1 - rate / alone),
            unit="%",
            bar=BAR,
            better="lower",
            product=figures.rate(samples.values["children, jobs/s"]),
            limit=figures.rate(samples.values["one process, jobs/s"]),
            samples=samples.values,
            notes=[note],
            noise=samples.noise,
        )
    ]


def compare(jobs: int) -> dict[str, float]:
    """Drain so many no-ops by either, and return the jobs a second and the processor time of both."""
    with database.connect() as connection:
        seeding.enqueue(connection, jobs)
        with Cpu() as children:
            rate = drain_enqueued(connection, jobs)["worker, jobs/s"]
        alone, used = _in_process(connection, jobs)
    return {
        "children, jobs/s": rate,
        "one process, jobs/s": alone,
        "children, CPU µs a job": 1e6 * children.ours / jobs,
        "one process, CPU µs a job": 1e6 * used / jobs,
    }


def _in_process(connection: database.Connection, jobs: int) -> tuple[float, float]:
    """Return the jobs a second of the one process, and the processor seconds that it took."""
    seeding.enqueue(connection, jobs)
    with new_tally(jobs) as tally, Cpu() as cpu:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.inprocess"],
            cwd=ROOT,
            env=environment({VARIABLE: str(tally.path)}),
            capture_output=True,
            text=True,
            timeout=60 + jobs / 300,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        check_once(tally)
    ended = ended_well(connection, jobs)
    assert json.loads(done.stdout)["jobs"] == jobs
    return jobs / (ended.last - ended.first).total_seconds(), cpu.ours
