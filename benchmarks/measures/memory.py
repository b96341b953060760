"""What an idle worker keeps in memory after it has worked: the supervisor's resident, a child's private memory."""

from __future__ import annotations

import psutil

from benchmarks import database, figures, seeding
from benchmarks.figures import Figure
from benchmarks.plan import Plan
from benchmarks.sampling import take
from benchmarks.worker import Worker

JOBS = 20_000
MB = 1024 * 1024
PROJECT = "in a project of jobqueue, auth and contenttypes; what other apps import comes on top (admin: 2 MB)"


def measure(plan: Plan) -> list[Figure]:
    """Return the figures of the supervisor and of its largest child."""
    jobs = plan.size(JOBS, least=200)
    with database.connect() as connection:

        def sample() -> dict[str, float]:
            seeding.enqueue(connection, jobs)
            with Worker() as worker:
                worker.wait_until_idle(connection, 60 + jobs / 300)
                return _megabytes(worker.process.pid)

        samples = take(plan, "memory", sample)
    zygote = f"the zygote, from which children are forked, has {samples.median('zygote'):.1f} MB resident"
    rows = (
        ("supervisor", "supervisor resident", 60.0, [PROJECT]),
        ("child", "the larger child's private memory", 25.0, [zygote]),
    )
    return [
        Figure(
            row=f"memory-{name}",
            work=f"{work}, idle after {jobs:,} no-ops",
            value=samples.median(name),
            unit="MB",
            bar=bar,
            better="lower",
            product=figures.megabytes(samples.values[name]),
            samples=samples.values,
            notes=notes,
            noise=samples.noise,
        )
        for name, work, bar, notes in rows
        if plan.wants(f"memory-{name}")
    ]


def _megabytes(pid: int) -> dict[str, float]:
    """Return what supervisor and zygote have resident, and what the larger child has private."""
    supervisor = psutil.Process(pid)
    (zygote,) = supervisor.children()
    children = zygote.children()
    assert len(children) == 2, f"the worker has {len(children)} children, not 2"
    private = max(child.memory_full_info().uss for child in children)
    found = {"supervisor": supervisor.memory_info().rss, "zygote": zygote.memory_info().rss, "child": private}
    return {name: size / MB for name, size in found.items()}
