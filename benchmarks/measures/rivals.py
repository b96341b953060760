"""The rows of `check speed` that compare with peers: each with the best three of its work, as configured here.

Which those are comes from measurements of all peers; docs/benchmarks.md shows the last one. "The best peer" of the
rows of enqueueing and of latency is one on PostgreSQL: what Redis acknowledges may be lost with the next power cut. The
batch mode of django-vtasks, one call for hundreds of jobs that fail together, is another contract and no rival here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks import figures
from benchmarks.figures import Figure
from benchmarks.peers.base import Peer, Sample
from benchmarks.peers.works.drain import drain
from benchmarks.peers.works.enqueue import bulk, enqueue
from benchmarks.peers.works.latency import latency
from benchmarks.plan import Plan

from .contest import OWN, Row, Side, Work, figure, hold

DRAINERS = (Side("pgqueuer", tuned=True), Side("awa", tuned=True), Side("huey", tuned=True))
DJANGO = (Side("django-q2", tuned=True), Side("django-ox", tuned=True), Side("dj-queue"))
ENQUEUERS = (Side("pgqueuer"), Side("django-q2"), Side("oban"))
BULK = (Side("pgqueuer"), Side("awa"), Side("procrastinate"))
QUICK = (Side("oban", tuned=True), Side("chancy", tuned=True), Side("pgqueuer", tuned=True))

SHORT_JOBS = 50_000
STEADY_SECONDS = 10.0
ENQUEUE_SECONDS, BULK_SECONDS = 4.0, 3.0
LATENCY_JOBS = 500
RATE = "jobs/s"
OWN_SHORT = Side(OWN.peer, label=f"{SHORT_JOBS:,} jobs")


def measure_drain_one(plan: Plan) -> list[Figure]:
    """Return the figures of one worker that drains, against the best of all peers and the best of those on Django."""
    peers = [*(DRAINERS if plan.wants("drain-1") else ()), *(DJANGO if plan.wants("drain-django") else ())]
    contest = hold(plan, "drain-1", {OWN_SHORT: _short(plan, 1), **_all([OWN, *peers], _steady(plan, 1))}, [RATE])
    rows = {
        "drain-1": (1.3, "the best peer, tuned", "the aim is 1.8 x", DRAINERS),
        "drain-django": (10, "the best peer made for Django that runs a job a call, tuned", "", DJANGO),
    }
    return [
        figure(
            contest,
            Row(row=row, work=_drain_words(1, against), value=RATE, bar=bar, aim=aim),
            [OWN_SHORT, OWN],
            sides,
        )
        for row, (bar, against, aim, sides) in rows.items()
        if plan.wants(row)
    ]


def measure_drain_two(plan: Plan) -> list[Figure]:
    """Return the figure of two workers that drain."""
    works = {OWN_SHORT: _short(plan, 2), **_all([OWN, *DRAINERS], _steady(plan, 2))}
    row = Row(row="drain-2", work=_drain_words(2, "the best peer, tuned"), value=RATE, bar=1.1, aim="the aim is 1.4 x")
    return [figure(hold(plan, "drain-2", works, [RATE]), row, [OWN_SHORT, OWN], DRAINERS)]


def measure_enqueue(plan: Plan) -> list[Figure]:
    """Return the figure of one client that enqueues one by one."""
    seconds = plan.seconds(ENQUEUE_SECONDS)
    words = "Job.objects.enqueue one by one, a transaction each, against the best peer on PostgreSQL"
    row = Row(row="enqueue-one", work=words, value=RATE, bar=1)
    contest = hold(plan, row.row, _all([OWN, *ENQUEUERS], _sample(lambda peer: enqueue(peer, seconds=seconds))), [RATE])
    return [figure(contest, row, [OWN], ENQUEUERS)]


def measure_bulk(plan: Plan) -> list[Figure]:
    """Return the figure of one client that enqueues in bulk."""
    seconds = plan.seconds(BULK_SECONDS)
    row = Row(row="bulk", work="enqueue in bulk, by each one's own API, against the best peer", value=RATE, bar=2)
    contest = hold(plan, row.row, _all([OWN, *BULK], _sample(lambda peer: bulk(peer, seconds=seconds))), [RATE])
    return [figure(contest, row, [OWN], BULK)]


def measure_latency(plan: Plan) -> list[Figure]:
    """Return the figures of the middle and the slowest hundredth of the waits for an idle worker."""
    jobs = plan.size(LATENCY_JOBS, least=50)
    values = ("p50 ms", "p99 ms")
    contest = hold(
        plan, "latency", _all([OWN, *QUICK], _sample(lambda peer: latency(peer, jobs=jobs), *values)), values
    )
    return [
        figure(
            contest,
            Row(
                row=f"latency-{name}",
                work=f"idle to started, {jobs} jobs, one every 20 ms: {name}, against the best peer on PostgreSQL",
                value=f"{name} ms",
                bar=1.5,
                better="lower",
                product=figures.milliseconds,
            ),
            [OWN],
            QUICK,
        )
        for name in ("p50", "p99")
        if plan.wants(f"latency-{name}")
    ]


def _steady(plan: Plan, workers: int) -> Work:
    seconds = plan.seconds(STEADY_SECONDS)
    return _sample(lambda peer: drain(peer, workers=workers, seconds=seconds))


def _short(plan: Plan, workers: int) -> Work:
    jobs = plan.size(SHORT_JOBS, least=500)
    return _sample(lambda peer: drain(peer, jobs=jobs, workers=workers))


def _sample(work: Callable[[Peer], Sample], *values: str) -> Work:
    return lambda peer: {value: work_values[value] for work_values in [work(peer).values] for value in values or [RATE]}


def _all(sides: Sequence[Side], work: Work) -> dict[Side, Work]:
    return dict.fromkeys(sides, work)


def _drain_words(workers: int, against: str) -> str:
    who = "one worker" if workers == 1 else f"{workers} workers"
    return (
        f"drain of no-ops by {who} with our defaults, of {SHORT_JOBS:,} and of {STEADY_SECONDS:g} s of steady work (the"
        f" slower counts), against {against}, over {STEADY_SECONDS:g} s"
    )
