"""Drains beside what stands in the store: a long queue, jobs of the future, finished jobs, or an old snapshot.

Each is the drain of works/drain.py in other company. What has to be put there first takes its time with peers that have
no bulk API, so that filling is cut after a minute; the note says how far it came.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from benchmarks.peers.base import Peer, Sample
from benchmarks.peers.errors import NotOffered, PeerFailed

from .drain import BOX, SPARE, Drained, drain_due, estimate

BACKLOG, FUTURE = 200_000, 200_000
SECONDS = 5.0  # of the drain that is measured
FILL_SECONDS = 60.0
CHUNK = 10_000
MOST_SECONDS = 60.0  # of a drain that has to come to its end
A_DAY = 86_400
STEPS, STEP_SECONDS = 6, 2.0
LEAST_JOBS = 50


def backlog(peer: Peer, jobs: int | None = None, workers: int = 1, seconds: float = SECONDS) -> Sample:
    """Drain for so many seconds from a queue of `jobs`, which is longer than that takes. Values: jobs/s, jobs due."""
    rate = estimate(peer, workers)
    peer.reset()
    due = _fill(peer, max(jobs or BACKLOG, round(rate * seconds * 2)))
    drained = drain_due(peer, 0, due, workers, seconds)
    return _sample(peer, "backlog", workers, drained, {"jobs due": due})


def deferred(peer: Peer, jobs: int | None = None, workers: int = 1, seconds: float = SECONDS) -> Sample:
    """Drain so many seconds of due jobs alone, and again with `jobs` of the future enqueued before them.

    Values: jobs/s, alone jobs/s, future jobs. Raises NotOffered where the peer knows no jobs of the future.
    """
    due = _due(peer, workers, seconds)
    peer.reset()
    if not peer.about["deferrable"]:
        raise NotOffered("no jobs of the future")
    peer.fill(due)
    alone = drain_due(peer, 0, due, workers, seconds * BOX)
    peer.reset()
    future = _chunks(jobs or FUTURE, lambda count: _later(peer, count))
    peer.settle()
    first = peer.jobs
    peer.fill(due)
    drained = drain_due(peer, first, peer.jobs, workers, seconds * BOX)
    return _sample(peer, "deferred", workers, drained, {"alone, jobs/s": alone.rate, "future jobs": future})


def retained(peer: Peer, jobs: int | None = None, workers: int = 1, seconds: float = SECONDS) -> Sample:
    """Drain so many seconds of jobs after as many as take twice that, or `jobs`, were run, and kept by those that do.

    Values: jobs/s, earlier jobs/s, jobs before.
    """
    due = _due(peer, workers, seconds)
    before = jobs or 2 * due
    peer.reset()
    peer.fill(before)
    earlier = drain_due(peer, 0, before, workers, MOST_SECONDS)
    if earlier.finished < before:
        raise PeerFailed(f"{before:,} jobs to retain were not done in {MOST_SECONDS:.0f} s")
    peer.fill(due)
    drained = drain_due(peer, before, before + due, workers, seconds * BOX)
    return _sample(
        peer, "retained", workers, drained, {"earlier jobs/s": earlier.rate, "jobs before": earlier.finished}
    )


def horizon(peer: Peer, jobs: int | None = None, workers: int = 1, seconds: float = STEP_SECONDS) -> Sample:
    """Drain in steps, of `jobs` in all or of so many seconds each, while another session holds a snapshot.

    Values: last, jobs/s; first, jobs/s; jobs under it. A peer whose store is Redis knows no snapshots: NotOffered.
    """
    if peer.entry.redis:
        raise NotOffered("no snapshots in Redis")
    step = jobs // STEPS if jobs else _due(peer, workers, seconds)
    peer.reset()
    rates = []
    with peer.connect() as other, other.transaction():
        other.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        other.execute("SELECT count(*) FROM pg_class")
        for _ in range(STEPS):
            first = peer.jobs
            peer.fill(step)
            drained = drain_due(peer, first, peer.jobs, workers, MOST_SECONDS)
            if drained.finished < step:
                raise PeerFailed(f"a step of {step:,} jobs was not done in {MOST_SECONDS:.0f} s")
            rates.append(drained.rate)
    values = {"last, jobs/s": rates[-1], "first, jobs/s": rates[0], "jobs under it": peer.jobs}
    return Sample(peer=peer.name, work="horizon", tuned=peer.tuned, workers=workers, jobs=peer.jobs, values=values)


def isolated(peer: Peer, jobs: int | None = None, workers: int = 1, seconds: float = 0) -> Sample:
    """Drain by children, and by the same executor in one process. Ours only: nobody else has both."""
    from benchmarks.measures import isolation  # the row of `check speed` is the same measurement
    from benchmarks.peers.catalogue import OURS

    if peer.name != OURS:
        raise NotOffered("no children, or nothing but children")
    jobs = jobs or isolation.JOBS
    values = isolation.compare(jobs)
    return Sample(peer=peer.name, work="isolated", tuned=peer.tuned, workers=workers, jobs=jobs, values=values)


def _due(peer: Peer, workers: int, seconds: float) -> int:
    return max(LEAST_JOBS, round(estimate(peer, workers) * seconds * SPARE))


def _fill(peer: Peer, jobs: int) -> int:
    """Enqueue due jobs for a minute at most, and return how many."""
    filled = _chunks(jobs, lambda count: peer.call("fill", first=peer.take_numbers(count), count=count))
    peer.settle()
    return filled


def _later(peer: Peer, count: int) -> None:
    peer.call("later", first=peer.take_numbers(count), count=count, seconds=A_DAY)


def _chunks(jobs: int, send: Callable[[int], object]) -> int:
    done, size, give_up = 0, 200, time.monotonic() + FILL_SECONDS
    while done < jobs and time.monotonic() < give_up:
        count = min(size, jobs - done)
        send(count)
        done, size = done + count, min(CHUNK, size * 2)
    return done


def _sample(peer: Peer, work: str, workers: int, drained: Drained, values: dict[str, float]) -> Sample:
    return Sample(
        peer=peer.name,
        work=work,
        tuned=peer.tuned,
        workers=workers,
        jobs=drained.finished,
        values={"jobs/s": drained.rate, **values},
    )
