"""Both at once: one client enqueues one by one while workers drain a backlog that lasts for the whole time."""

from __future__ import annotations

import time

from benchmarks.peers.base import Peer, Sample
from benchmarks.peers.errors import LostOrDoubled

from .drain import SECONDS, estimate, wait_for_first
from .enqueue import MOST_A_SECOND

SPARE = 1.3  # times the backlog that the estimate asks for


def mixed(peer: Peer, jobs: int | None = None, workers: int = 1, seconds: float = SECONDS) -> Sample:
    """Enqueue for so many seconds beside workers with a backlog of `jobs`. Values: enqueued/s, finished/s.

    Raises LostOrDoubled where a job began twice, or the store shows more finished than began.
    """
    backlog = jobs or round(estimate(peer, workers) * seconds * SPARE)
    peer.reset()
    peer.fill(backlog)
    most = round(min(seconds * MOST_A_SECOND, peer.tally.size - backlog))
    with peer.workers(workers) as running:
        wait_for_first(peer, running, 0, backlog)
        before, began = peer.finished(), time.monotonic()
        sent = peer.call("one_by_one", first=backlog, count=most, seconds=seconds, within=seconds + 120)
        ended = time.monotonic()
        finished = peer.finished() - before
        idle = peer.call("waiting") == 0
        running.check()
    peer.jobs = backlog + int(sent["count"])
    peer.tally.check_once(0, peer.jobs, all_of_them=False)
    if before + finished > peer.tally.began(0, peer.jobs):
        raise LostOrDoubled(f"lost/doubled: the store shows {before + finished:,} finished, more than began")
    return Sample(
        peer=peer.name,
        work="mixed",
        tuned=peer.tuned,
        workers=workers,
        jobs=peer.jobs,
        values={"enqueued/s": sent["count"] / sent["seconds"], "finished/s": finished / (ended - began)},
        note="the backlog was used up: the workers could do more" if idle else "",
    )
