"""The checks, by subject; importing this package fills the list."""

from jobqueue.testing.conformance.registry import CHECKS

from . import crashes, enqueueing, hostile, results, running, signals, transactions

__all__ = [
    "CHECKS",
    "crashes",
    "enqueueing",
    "hostile",
    "results",
    "running",
    "signals",
    "transactions",
]
