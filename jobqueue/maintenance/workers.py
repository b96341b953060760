"""Remove the rows of workers that died without a word."""

from __future__ import annotations

from datetime import timedelta

from jobqueue import sql
from jobqueue.managers.rows import Run


class RemoveWorkers:
    """Removes rows that are ten leases old: long enough for people to see that one is missing."""

    name = "workers"
    more = False
    interval_seconds = 60.0

    def __init__(self, run: Run, *, lease: timedelta) -> None:
        self._run, self._age = run, lease * 10

    def run_once(self) -> dict[str, int]:
        """Remove what is stale."""
        return {"removed": len(self._run(sql.REMOVE_WORKERS, {"age": self._age}))}
