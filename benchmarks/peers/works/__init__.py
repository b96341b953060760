"""What is measured of a peer, a module a work; each is a function of a Peer that returns a Sample."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.peers.base import Sample

from .drain import drain
from .enqueue import bulk, enqueue
from .latency import latency
from .mixed import mixed
from .standing import backlog, deferred, horizon, isolated, retained

__all__ = [
    "WORKS",
    "backlog",
    "bulk",
    "deferred",
    "drain",
    "enqueue",
    "horizon",
    "isolated",
    "latency",
    "mixed",
    "retained",
]

# Each takes (peer, jobs, workers, seconds): jobs and seconds may be None, and are the work's own defaults then.
WORKS: dict[str, Callable[..., Sample]] = {
    "drain": drain,
    "enqueue": enqueue,
    "bulk": bulk,
    "latency": latency,
    "mixed": mixed,
    "backlog": backlog,
    "deferred": deferred,
    "retained": retained,
    "horizon": horizon,
    "isolated": isolated,
}
