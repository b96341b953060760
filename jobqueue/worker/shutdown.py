"""Stop in good order: claim nothing more, give back what has not begun, wait for what runs, then cut it off.

The first signal, or the end of what was asked for, starts it; a second signal, or SHUTDOWN_TIMEOUT, cuts running jobs
off: each is given back as an interruption, at once and uncharged. Exit codes: 0 nothing was cut off, 3 something was,
1 the worker cannot go on.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from jobqueue.children.protocol import INTERRUPT

if TYPE_CHECKING:
    from .supervisor import Supervisor

logger = logging.getLogger("jobqueue.worker")

GRACEFUL, FAILED, FORCED = 0, 1, 3
LAST_SETTLE_SECONDS = 1.0


class Shutdown:
    """The end of one worker, step by step in its main loop."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._worker = supervisor
        self._asked = 0  # written by the signal handler: only ever counted up
        self._since: float | None = None
        self._cut_at: float | None = None
        self.cut = 0
        self._failed = False

    @property
    def stopping(self) -> bool:
        """Whether nothing more is claimed."""
        return self._since is not None

    @property
    def interrupting(self) -> bool:
        """Whether running jobs are being cut off."""
        return self._cut_at is not None

    @property
    def asked(self) -> bool:
        """Whether somebody asked for the stop."""
        return self._asked > 0

    def ask(self) -> None:
        """Stop; asked a second time, at once. Safe in a signal handler."""
        self._asked += 1

    def fail(self) -> None:
        """Stop at once, with an exit code by which a service manager knows that somebody has to look."""
        self._failed = True
        self._asked = 2

    def next_at(self) -> float | None:
        """Return when step() should be called at the latest."""
        if self._asked and self._since is None:
            return 0.0
        if self._cut_at is not None:
            return time.monotonic() + 0.05
        return None if self._since is None else self._since + self._worker.options.shutdown_timeout.total_seconds()

    def step(self, now: float) -> int | None:
        """Go on with the stop, or see whether it is time for one. Returns the exit code at its end."""
        worker = self._worker
        if self._since is None:
            if not self._asked and not self._is_done():
                return None
            self._begin(now)
        assert self._since is not None
        if self._cut_at is None and (
            self._asked > 1 or now - self._since > worker.options.shutdown_timeout.total_seconds()
        ):
            self._cut_off(now)
        worker.hands.release_unstarted()
        idle = not len(worker.held) and worker.settler.idle and not worker.claimer.busy
        if idle and (self._cut_at is not None or not worker.reports.owes_signals):
            return self._code
        if self._cut_at is not None:
            return self._hurry(now)
        return None

    @property
    def _code(self) -> int:
        """The exit code of a stop in which everything was settled."""
        if self._failed:
            return FAILED
        return FORCED if self.cut else GRACEFUL

    def _is_done(self) -> bool:
        """Tell whether what was asked for is done: the queues are empty (--drain), or so many jobs have run."""
        worker = self._worker
        if len(worker.held) or worker.claimer.busy:
            return False
        drained = worker.options.drain and worker.dispatch.drained
        return drained or (worker.dispatch.budget is not None and worker.dispatch.budget <= 0)

    def _begin(self, now: float) -> None:
        self._since = now
        self._worker.dispatch.stopped = True
        logger.info("worker stopping worker=%s jobs=%s", self._worker.options.worker_id, len(self._worker.held))

    def _cut_off(self, now: float) -> None:
        """Ask every running job to stop; the zygote kills those that do not within KILL_GRACE."""
        self._cut_at = now
        worker = self._worker
        worker.settler.give_up_at = now + worker.settings.KILL_GRACE + LAST_SETTLE_SECONDS
        for child in worker.pool.children.values():
            for held in child.running():
                if not held.ended:  # else only its receivers are being called
                    self.cut += held.asked is None
                    worker.stops.ask(held, INTERRUPT)

    def _hurry(self, now: float) -> int | None:
        """Give up what cannot be settled in time: the database is away, and the reaper will find it."""
        assert self._cut_at is not None
        worker = self._worker
        if now - self._cut_at < worker.settings.KILL_GRACE + LAST_SETTLE_SECONDS + 0.25:
            return None
        logger.warning("worker ends with unsettled jobs worker=%s jobs=%s", worker.options.worker_id, len(worker.held))
        return FAILED if self._failed else FORCED
