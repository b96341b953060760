"""What a claim costs beside millions of rows that it must not look at, against a claim of the same jobs alone.

Two databases on one server, and their claims in turn: whatever else the machine does meets both alike. The claims are
the worker's own statement on the worker's own kind of connection.
"""

from __future__ import annotations

import time
from contextlib import ExitStack, closing
from datetime import timedelta

from benchmarks import database, figures, seeding
from benchmarks.figures import Figure
from benchmarks.plan import Plan, say
from benchmarks.sampling import take

BATCHES = (1, 10, 100)
SHARE_CLAIMED = 0.8  # of the due jobs, in one round
BAR = 1.2
LEASE = timedelta(minutes=5)


def measure_finished(plan: Plan) -> list[Figure]:
    """Return the figure of a claim beside scheduled, finished and dead jobs."""
    due = plan.size(1_000, least=500)
    rows = {
        seeding.FINISHED: plan.size(2_000_000),
        seeding.DEAD: plan.size(100_000),
        seeding.SCHEDULED: plan.size(1_000_000),
        seeding.DUE: due,
    }
    finished, dead, scheduled, _ = rows.values()
    work = f"claim of {due:,} due beside {scheduled:,} SCHEDULED, {finished:,} DONE, {dead:,} DEAD, against those alone"
    return [_compare(plan, "backlog-finished", work, rows, {seeding.DUE: due})]


def measure_due(plan: Plan) -> list[Figure]:
    """Return the figure of a claim from a long queue."""
    many, few = plan.size(1_000_000, least=2_000), plan.size(10_000, least=500)
    work = f"claim with {many:,} due, against {few:,} due"
    return [_compare(plan, "backlog-due", work, {seeding.DUE: many}, {seeding.DUE: few})]


def _compare(plan: Plan, row: str, work: str, crowded: dict[str, int], plain: dict[str, int]) -> Figure:
    """Time claims of several batch sizes in both databases; the figure is the worst batch size's ratio."""
    with database.twin_database(), ExitStack() as stack:
        claimers = []
        for alias, name, rows in (
            ("default", database.own_name(), crowded),
            ("twin", database.twin_name(), plain),
        ):
            with database.connect(name) as connection:
                seeding.fill(connection, rows)
            claimers.append(stack.enter_context(closing(Claimer(alias))))
        say(f"{row}: tables filled")
        samples = take(plan, row, lambda: _claim_times(claimers[0], claimers[1], plain[seeding.DUE]))
    ratios = {batch: samples.median(f"ratio, {batch}") for batch in BATCHES}
    worst = max(BATCHES, key=lambda batch: ratios[batch])
    return Figure(
        row=row,
        work=work,
        value=ratios[worst],
        unit="x",
        bar=BAR,
        better="lower",
        product=figures.milliseconds(samples.values[f"crowded, {worst}"]),
        limit=figures.milliseconds(samples.values[f"plain, {worst}"]),
        samples=samples.values,
        notes=[f"claims of {batch}: {ratio:.2f} x" for batch, ratio in ratios.items()],
        noise=samples.noise,
    )


def _claim_times(crowded: Claimer, plain: Claimer, due: int) -> dict[str, float]:
    """Claim by turns in both databases. Returns median milliseconds by database and batch size, and their ratios."""
    found: dict[str, float] = {}
    for batch in BATCHES:
        times: tuple[list[float], list[float]] = ([], [])
        for number in range(max(3, min(60, int(due * SHARE_CLAIMED) // batch))):
            # Each goes first half of the time: the second finds the machine's caches as the first left them.
            for side in (0, 1) if number % 2 else (1, 0):
                times[side].append((crowded, plain)[side].claim(batch))
        crowded.replace_claimed()
        plain.replace_claimed()
        found[f"crowded, {batch}"], found[f"plain, {batch}"] = (1000 * figures.median(side) for side in times)
        found[f"ratio, {batch}"] = found[f"crowded, {batch}"] / found[f"plain, {batch}"]
    return found


class Claimer:
    """Claims on a connection like the worker's, and keeps the number of due jobs what it was."""

    def __init__(self, alias: str) -> None:
        from jobqueue.managers.sessions import Session

        self._session, self._claimed = Session(alias, "benchmarks"), 0
        self.claim(1)  # connects, and prepares the statement
        self.replace_claimed()

    def claim(self, batch: int) -> float:
        """Claim a batch and return the seconds that it took. Raises AssertionError when there was less."""
        from jobqueue.managers import Span, leasing

        began = time.perf_counter()
        jobs = leasing.claim(self._session.run, spans=[Span("default", batch)], worker_id="benchmarks", lease=LEASE)
        seconds = time.perf_counter() - began
        assert len(jobs) == batch, f"claimed {len(jobs)} of {batch}"
        self._claimed += batch
        return seconds

    def replace_claimed(self) -> None:
        """Put as many new jobs behind the others as were claimed, and delete the claimed ones."""
        self._session.run(seeding.DUE_AGAIN, {"jobs": self._claimed})
        self._session.run("DELETE FROM jobqueue_job WHERE status = 2")
        self._session.run("ANALYZE jobqueue_job")
        self._claimed = 0

    def close(self) -> None:
        """Disconnect."""
        self._session.close()
