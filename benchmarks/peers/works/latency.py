"""How long idle workers take from the commit of an enqueue to the first line of the handler.

Both ends read CLOCK_MONOTONIC, which all processes of a machine share. The first end is the return of the call, each a
commit of its own: a little after that commit, for all alike. `check engine` has our stricter figure, from the commit.
"""

from __future__ import annotations

import time

from benchmarks import figures
from benchmarks.peers.base import Peer, Sample
from benchmarks.peers.errors import PeerFailed

from .drain import wait_for_first

JOBS = 300
WARM_UP = 25
EVERY_MS = 20.0
IDLE_SECONDS = 1.5
WAIT_SECONDS = 60.0
LOOK_SECONDS = 0.05


def latency(peer: Peer, jobs: int | None = None, workers: int = 1, seconds: float = 0) -> Sample:
    """Enqueue a job every 20 ms to idle workers. Values: p50 ms, p95 ms, p99 ms, max ms.

    Raises PeerFailed where one has not begun a minute after the last enqueue, LostOrDoubled where one began twice.
    """
    jobs = jobs or JOBS
    peer.reset()
    peer.fill(1)
    with peer.workers(workers) as running:
        wait_for_first(peer, running, 0, 1)
        time.sleep(IDLE_SECONDS)
        first = peer.take_numbers(WARM_UP + jobs)
        returned = peer.call("paced", first=first, count=WARM_UP + jobs, every_ms=EVERY_MS)
        give_up = time.monotonic() + WAIT_SECONDS
        while not peer.tally.all_began(peer.jobs) and time.monotonic() < give_up:
            running.check()
            time.sleep(LOOK_SECONDS)
    # All there is to see of a job that waits so long is that it is late, not that it is lost.
    peer.tally.check_once(0, peer.jobs, all_of_them=False)
    late = peer.jobs - peer.tally.began(0, peer.jobs)
    if late:
        raise PeerFailed(f"{late:,} of {jobs:,} jobs had not begun {WAIT_SECONDS:.0f} s after the last enqueue")
    began = peer.tally.starts(first, peer.jobs)
    waits = [(start - at) / 1e6 for start, at in zip(began, returned, strict=True)][WARM_UP:]
    values = {f"p{share} ms": figures.percentile(waits, share / 100) for share in (50, 95, 99)}
    return Sample(
        peer=peer.name,
        work="latency",
        tuned=peer.tuned,
        workers=workers,
        jobs=jobs,
        values={**values, "max ms": max(waits)},
    )
