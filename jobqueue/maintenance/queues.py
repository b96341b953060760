"""Wake the workers of queues whose pause is over."""

from __future__ import annotations

import logging

from jobqueue import sql
from jobqueue.managers import pausing
from jobqueue.managers.rows import Run

logger = logging.getLogger("jobqueue.maintenance")


class ResumeQueues:
    """Takes pauses away that have run out: a claim knows by itself, but a worker that sleeps has to be woken."""

    name = "queues"
    more = False

    def __init__(self, run: Run, *, interval_seconds: float) -> None:
        self._run, self.interval_seconds = run, interval_seconds

    def run_once(self) -> dict[str, int]:
        """Look at the paused queues, a row each."""
        names = [row[0] for row in self._run(sql.RESUME_DUE_QUEUES, {})]
        for name in names:
            logger.info("queue resumed queue=%s its pause is over", name)
            pausing.wake(self._run, pausing.woken_by(self._run, name))
        return {"resumed": len(names)}
