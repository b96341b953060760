"""Whether the slots are kept full: by jobs that only wait, and by jobs that only compute.

What is waited for is known: so many slots, ten milliseconds a job. What computing takes depends on the machine: two
bare processes do the same steps beside it, in turn with the worker, and are the ideal.
"""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

from benchmarks import database, figures, jobs
from benchmarks.figures import Figure
from benchmarks.plan import Plan
from benchmarks.sampling import take
from benchmarks.tally import new_tally
from benchmarks.worker import ROOT, Worker

from .drain import check_once, ended_well

BAR = 90
CHUNK = 10_000
SLEEPS, SLEEP_SECONDS = 20_000, 0.01
CHILDREN, THREADS = 4, 8
BURNS, BURN_SECONDS = 4_000, 0.005
CORES = 2
BARE = """
import sys, time
from benchmarks.jobs import work
count, steps = int(sys.argv[1]), int(sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
for _ in range(count):
    work(steps)
print(time.monotonic(), flush=True)
"""


def measure_sleep(plan: Plan) -> list[Figure]:
    """Return the figure of jobs that sleep, as a share of what so many slots can do."""
    count, slots = plan.size(SLEEPS, least=500), CHILDREN * THREADS
    ideal = slots / SLEEP_SECONDS
    options = ("--processes", str(CHILDREN), "--threads", str(THREADS))

    def sample() -> dict[str, float]:
        return {"jobs/s": _drain(jobs.SLEEP, {"seconds": SLEEP_SECONDS}, count, *options)}

    samples = take(plan, "slots", sample)
    return [
        Figure(
            row="slots",
            work=f"{count:,} jobs that sleep {SLEEP_SECONDS * 1000:g} ms, on {CHILDREN} children of {THREADS} threads,"
            f" against {slots} slots ÷ {SLEEP_SECONDS * 1000:g} ms",
            value=100 * samples.median("jobs/s") / ideal,
            unit="%",
            bar=BAR,
            better="higher",
            product=figures.rate(samples.values["jobs/s"]),
            limit=f"{ideal:,.0f}/s",
            samples=samples.values,
            noise=samples.noise,
        )
    ]


def measure_cpu(plan: Plan) -> list[Figure]:
    """Return the figure of jobs that compute, as a share of what the two cores can do."""
    count, steps = plan.size(BURNS, least=100), _steps_of(BURN_SECONDS)

    def sample() -> dict[str, float]:
        rate = _drain(jobs.BURN, {"steps": steps}, count, "--processes", str(CORES))
        return {"jobs/s": rate, "bare, jobs/s": _bare(count, steps)}

    samples = take(plan, "cpu", sample)
    each = 1000 * CORES / samples.median("bare, jobs/s")
    return [
        Figure(
            row="cpu",
            work=f"{count:,} jobs of {BURN_SECONDS * 1000:g} ms of computing on {CORES} children, against {CORES} bare"
            " processes that compute the same",
            value=100 * samples.median("jobs/s") / samples.median("bare, jobs/s"),
            unit="%",
            bar=BAR,
            better="higher",
            product=figures.rate(samples.values["jobs/s"]),
            limit=figures.rate(samples.values["bare, jobs/s"]),
            samples=samples.values,
            notes=[f"bare, {each:.2f} ms a job with both cores busy"],
            noise=samples.noise,
        )
    ]


def _drain(job_type: str, given: dict[str, Any], count: int, *options: str) -> float:
    """Return the jobs a second from the first claim to the last settle. Raises AssertionError unless each ran once."""
    from jobqueue.models import Job

    with database.connect() as connection, new_tally(count) as tally:
        database.empty(connection)
        for start in range(0, count, CHUNK):
            numbers = range(start, min(start + CHUNK, count))
            Job.objects.enqueue_many([(job_type, {"number": number, **given}) for number in numbers])
        database.settle_down(connection)
        with Worker("--drain", *options, tally=tally.path) as worker:
            worker.wait(120 + count / 50)
        check_once(tally)
        ended = ended_well(connection, count)
        return count / (ended.last - ended.first).total_seconds()


def _steps_of(seconds: float) -> int:
    """Return how many steps take so long on a core that has nothing else to do."""
    steps, best = 20_000, float("inf")
    for _ in range(40):
        began = time.thread_time()
        jobs.work(steps)
        best = min(best, (time.thread_time() - began) / steps)
    return round(seconds / best)


def _bare(count: int, steps: int) -> float:
    """Return the jobs a second of bare processes, one a core, that do the same work and nothing else."""
    share = count // CORES
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", BARE, str(share), str(steps)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(CORES)
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        began = time.monotonic()
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        ends = [float(process.stdout.readline()) for process in processes if process.stdout is not None]
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    return share * CORES / (max(ends) - began)
