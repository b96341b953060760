"""What a claim costs beside millions of rows that it must not look at, against a claim of the same jobs alone.

Two databases on one server, and their claims in turn: whatever else the machine does meets both alike. The claims are
the worker's own statement on the worker's own kind of connection.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import timedelta

from benchmarks import database, figures, seeding
from benchmarks.figures import Figure
from benchmarks.plan import Plan, say
from benchmarks.sampling import take

BATCHES = (1, 10, 100)
SHARE_CLAIMED = 0.8  # of the due jobs, in one round
BAR = 1.2
MILLIONS = 5_000_000
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


def measure_deferred(plan: Plan) -> list[Figure]:
    """Return the figure of a claim beside jobs of the future."""
    due, future = plan.size(1_000, least=500), plan.size(200_000)
    work = f"claim of {due:,} due with {future:,} jobs of the future ahead of them, against those alone"
    return [_compare(plan, "deferred", work, {seeding.SCHEDULED: future, seeding.DUE: due}, {seeding.DUE: due})]


def measure_millions(plan: Plan) -> list[Figure]:
    """Return the figures of claims beside millions of finished jobs, and then of millions due beside those.

    The tables are filled once: what is due comes on top of what is retained, which makes the second row the harder.
    """
    retained, many, few = plan.size(MILLIONS), plan.size(MILLIONS, least=2_000), plan.size(10_000, least=500)
    works = {
        "retained": f"claim of {few:,} due beside {retained:,} finished and retained, against those alone",
        "backlog": f"claim with {many:,} due (and {retained:,} retained), against {few:,} due alone",
    }
    found = []
    with _two_databases({seeding.FINISHED: retained, seeding.DUE: few}, {seeding.DUE: few}) as claimers:
        if plan.wants("retained"):
            found.append(_ratio(plan, "retained", works["retained"], claimers, few))
        if plan.wants("backlog"):
            with database.connect() as connection:
                seeding.fill(connection, {seeding.DUE: many - few})
            say("backlog: table filled")
            found.append(_ratio(plan, "backlog", works["backlog"], claimers, few))
    return found


def _compare(plan: Plan, row: str, work: str, crowded: dict[str, int], plain: dict[str, int]) -> Figure:
    """Return the figure of a claim in a database with some rows against one with others."""
    with _two_databases(crowded, plain) as claimers:
        say(f"{row}: tables filled")
        return _ratio(plan, row, work, claimers, plain[seeding.DUE])


@contextmanager
def _two_databases(crowded: dict[str, int], plain: dict[str, int]) -> Iterator[tuple[Claimer, Claimer]]:
    """Fill two databases, and give one that claims in each."""
    with database.twin_database(), ExitStack() as stack:
        for name, rows in ((database.own_name(), crowded), (database.twin_name(), plain)):
            with database.connect(name) as connection:
                seeding.fill(connection, rows)
        claimers = [stack.enter_context(closing(Claimer(alias))) for alias in ("default", "twin")]
        yield claimers[0], claimers[1]


def _ratio(plan: Plan, row: str, work: str, claimers: tuple[Claimer, Claimer], due: int) -> Figure:
    """Time claims of several batch sizes in both databases; the figure is the worst batch size's ratio."""
    samples = take(plan, row, lambda: _claim_times(*claimers, due))
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
