"""How fast workers end no-ops that were enqueued before: from the first handler's start to the last job finished.

The first end is what the handlers wrote down, the last one is when the store shows it. A run that outlasts its box is
cut there, and its rate is what the store shows as finished by then. Either way no handler may have begun twice, and
none may be missing.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from benchmarks.peers.base import Peer, Sample
from benchmarks.peers.errors import LostOrDoubled, PeerFailed
from benchmarks.peers.processes import Workers

SECONDS = 10.0  # of steady work that a run is to last
BOX = 1.5  # times that, and it is cut
BOX_SECONDS = 60.0  # where the number of jobs was given
START_SECONDS = 45.0  # for the first handler to begin
STORE_SECONDS = 30.0  # for the store to show the last jobs once all handlers have begun
LOOK_SECONDS = 0.01
SPARE, LEAST_JOBS = 1.1, 50  # times the jobs that the estimate asks for; fewer show nothing
ENOUGH = 0.7  # of the seconds asked for
# The runs that estimate grow until one lasts long enough to tell.
PILOT_JOBS, PILOT_SECONDS, PILOT_GROWTH, PILOT_MOST = 400, 1.5, 10, 40_000


@dataclass(frozen=True)
class Drained:
    """What a drain of due jobs gave."""

    finished: int  # jobs, as the store shows them
    seconds: float  # from the first handler's start
    boot: float  # seconds from the start of the workers to the first handler's

    @property
    def rate(self) -> float:
        """Jobs a second."""
        return self.finished / self.seconds


def drain(peer: Peer, jobs: int | None = None, workers: int = 1, seconds: float = SECONDS) -> Sample:
    """Drain a fresh store of so many jobs, or of as many as take so many seconds. Values: jobs/s, seconds, boot s.

    Raises PeerFailed; LostOrDoubled where the jobs were not run exactly once.
    """
    if jobs is None:
        jobs, drained = _for_seconds(peer, workers, seconds)
    else:
        drained = _fresh(peer, jobs, workers, BOX_SECONDS)
    cut = "" if drained.finished == jobs else f"cut after {drained.seconds:.0f} s with {drained.finished:,} done"
    values = {"jobs/s": drained.rate, "seconds": drained.seconds, "boot s": drained.boot}
    return Sample(
        peer=peer.name, work="drain", tuned=peer.tuned, workers=workers, jobs=drained.finished, values=values, note=cut
    )


def _for_seconds(peer: Peer, workers: int, seconds: float) -> tuple[int, Drained]:
    """Drain as many jobs as take so many seconds: once more, where the estimate proves to be far too small."""
    for last in (False, True):
        jobs = max(LEAST_JOBS, round(estimate(peer, workers) * seconds * SPARE))
        jobs = min(jobs, peer.tally.size)
        drained = _fresh(peer, jobs, workers, seconds * BOX)
        if last or drained.finished < jobs or drained.seconds >= seconds * ENOUGH:
            break
        peer.estimates[workers] = drained.rate
    return jobs, drained


def estimate(peer: Peer, workers: int = 1) -> float:
    """Return about how many jobs a second it drains, from short runs; they are made once for each number of workers."""
    jobs = PILOT_JOBS
    while workers not in peer.estimates:
        drained = _fresh(peer, jobs, workers, PILOT_SECONDS * 2)
        if drained.seconds >= PILOT_SECONDS or jobs >= PILOT_MOST:
            peer.estimates[workers] = drained.rate
        jobs = min(jobs * PILOT_GROWTH, PILOT_MOST)
    return peer.estimates[workers]


def drain_due(peer: Peer, first: int, end: int, workers: int, box: float) -> Drained:
    """Drain the jobs of those numbers, which are due already, for no more seconds than the box has."""
    before = peer.finished()
    spawned = time.monotonic_ns()
    with peer.workers(workers) as running:
        began = wait_for_first(peer, running, first, end)
        done, at = _watch(peer, running, end, before + end - first, began + round(box * 1e9))
    finished = done - before
    # After the workers have stopped: nothing runs twice behind this back.
    peer.tally.check_once(first, end, all_of_them=finished >= end - first)
    if finished > peer.tally.began(first, end):
        raise LostOrDoubled(f"the store shows {finished:,} jobs finished, more than handlers began")
    if finished <= 0:
        raise PeerFailed(f"no job was finished within {box:.0f} s")
    return Drained(finished, (at - began) / 1e9, (began - spawned) / 1e9)


def wait_for_first(peer: Peer, running: Workers, first: int, end: int) -> int:
    """Wait until a handler has begun. Returns when the first of them did, in CLOCK_MONOTONIC nanoseconds."""
    give_up = time.monotonic() + START_SECONDS
    while not peer.tally.any_began(first, end):
        running.check()
        if time.monotonic() > give_up:
            raise PeerFailed(f"no job ran within {START_SECONDS:.0f} s of its worker's start: {running.log()}")
        time.sleep(LOOK_SECONDS)
    return peer.tally.first_start(first, end)


def _watch(peer: Peer, running: Workers, end: int, wanted: int, cut: int) -> tuple[int, int]:
    """Wait until the store shows what is wanted, or for the cut. Returns what it showed, and when, in nanoseconds.

    The store is asked only when all handlers have begun: the counting must not slow down what is measured.
    """
    while not peer.tally.all_began(end) and time.monotonic_ns() < cut:
        running.check()
        time.sleep(LOOK_SECONDS)
    at = time.monotonic_ns()
    done = peer.finished()
    if not peer.tally.all_began(end):
        return done, at
    give_up = at + round(STORE_SECONDS * 1e9)
    while done < wanted:
        if at > give_up:
            raise LostOrDoubled(
                f"lost/doubled: all handlers began, but the store shows {done:,} of {wanted:,} finished"
            )
        time.sleep(LOOK_SECONDS)
        at = time.monotonic_ns()
        done = peer.finished()
    return done, at


def _fresh(peer: Peer, jobs: int, workers: int, box: float) -> Drained:
    peer.reset()
    peer.fill(jobs)
    return drain_due(peer, 0, jobs, workers, box)
