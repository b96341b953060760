"""Remove the rows of workers that died without a word, and old orders to workers."""

from __future__ import annotations

from datetime import timedelta

from jobqueue import sql
from jobqueue.managers.ordering import prune_orders
from jobqueue.managers.rows import Run

ORDERS_KEPT = timedelta(days=1)
BATCH = 1_000


class RemoveWorkers:
    """Removes rows that are ten leases old: long enough for people to see that one is missing."""

    name = "workers"
    more = False
    interval_seconds = 60.0

    def __init__(self, run: Run, *, lease: timedelta) -> None:
        self._run, self._age = run, lease * 10

    def run_once(self) -> dict[str, int]:
        """Remove what is stale."""
        removed = len(self._run(sql.REMOVE_WORKERS, {"age": self._age}))
        orders = prune_orders(self._run, age=ORDERS_KEPT, limit=BATCH)
        self.more = orders == BATCH
        return {"removed": removed, "orders": orders}
