"""How fast one client enqueues into an empty store, with no worker about: one by one, and by the bulk API.

The clock runs in the driver's process, around the peer's own calls; every job must be found in the store afterwards.
"""

from __future__ import annotations

from benchmarks.peers.base import Peer, Sample
from benchmarks.peers.errors import LostOrDoubled, NotOffered

SECONDS = 5.0
WARM_UP = 200
MOST_A_SECOND = 400_000  # more than any of them does: where the numbers of the jobs end


def enqueue(peer: Peer, jobs: int | None = None, workers: int = 0, seconds: float = SECONDS) -> Sample:
    """Enqueue one by one, a commit each: so many jobs, or for so many seconds. Values: jobs/s."""
    peer.reset()
    return _sample(peer, "enqueue", "one_by_one", WARM_UP, jobs, seconds)


def bulk(peer: Peer, jobs: int | None = None, workers: int = 0, seconds: float = SECONDS) -> Sample:
    """Enqueue by the bulk API, in calls of the size that the driver tells. Values: jobs/s, jobs a call.

    Raises NotOffered where there is no such API.
    """
    peer.reset()
    size = peer.about["bulk_size"]
    if size is None:
        raise NotOffered("no bulk API")
    sample = _sample(peer, "bulk", "in_bulk", size, jobs, seconds)
    sample.values["jobs a call"] = size
    return sample


def _sample(peer: Peer, work: str, verb: str, warm_up: int, jobs: int | None, seconds: float) -> Sample:
    peer.fill(warm_up)
    most = jobs or round(min(seconds * MOST_A_SECOND, peer.tally.size - warm_up))
    limit = 3600.0 if jobs else seconds
    done = peer.call(verb, first=warm_up, count=most, seconds=limit, within=limit + 120)
    count = int(done["count"])
    peer.jobs = warm_up + count
    there = peer.call("waiting")
    if there != peer.jobs:
        raise LostOrDoubled(f"lost/doubled: {peer.jobs:,} jobs were enqueued, the store shows {there:,}")
    values = {"jobs/s": count / done["seconds"]}
    return Sample(peer=peer.name, work=work, tuned=peer.tuned, workers=0, jobs=count, values=values)
