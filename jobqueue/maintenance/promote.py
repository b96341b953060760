"""Make scheduled jobs due, and wake whoever sleeps."""

from __future__ import annotations

from jobqueue import sql
from jobqueue.conf import get_settings
from jobqueue.managers import moving
from jobqueue.managers.culprits import Culprits
from jobqueue.managers.rows import Run
from jobqueue.managers.waking import CHANNEL

BATCH = 1_000


class Promote:
    """Promotes; `next_in` then tells how long until the next scheduled job is due, None where that is of no use."""

    name = "promote"
    more = False

    def __init__(self, run: Run, *, interval_seconds: float) -> None:
        self._run = run
        self.interval_seconds = interval_seconds
        self.next_in: float | None = None
        self.queues: set[str] = set()
        self._culprits = Culprits(
            lambda limit, skip: moving.promote(run, limit=limit, skip=skip),
            lambda skip: moving.first_to_move(run, statement=sql.FIRST_DUE, skip=skip),
        )

    def run_once(self) -> dict[str, int]:
        """Promote one batch, earliest first, where any is due."""
        self.queues, self.more, self.next_in = set(), False, moving.seconds_to_next_due(self._run)
        if self.next_in is None or self.next_in > 0:
            return {"promoted": 0}
        rows = self._culprits.run(BATCH)
        self.queues = {queue for _, queue in rows}
        if self.queues and get_settings().NOTIFY:
            self._run(sql.WAKE_QUEUES, {"channel": CHANNEL, "queues": sorted(self.queues)})
        self.more = len(rows) == BATCH or self._culprits.more
        self.next_in = None if self.more else moving.seconds_to_next_due(self._run)
        if not rows and self.next_in is not None and self.next_in <= 0:
            self.next_in = None  # somebody has it locked, or it is stepped over: to ask at once again would never end
        return {"promoted": len(rows)}
