"""The slot that every worker keeps for the package's own jobs: notices, alerts, webhooks, mail.

They are in the queue `jobqueue`, which is looked at about once a second whatever the other slots do, and at once on a
hint. What is found runs in one child more, forked when it is needed and retired when it has been idle for a minute. So
an alarm waits neither behind the backlog that it tells of nor behind handlers that take hours. The same child sends
the signal worker_heartbeat, which is never late for a long handler either.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterable, Mapping
from math import inf
from typing import TYPE_CHECKING

from jobqueue.children.protocol import Notice
from jobqueue.internal import INTERNAL_QUEUE

from .handout import HandOut
from .holding import Held, HeldJobs
from .options import WorkerOptions
from .pool import RECEIVERS_SECONDS, Child, Pool
from .queues import Deal
from .registration import beat_interval

if TYPE_CHECKING:
    from .settle import Settler

logger = logging.getLogger("jobqueue.worker")

LOOK_SECONDS = 1.0  # at most, between two looks of a worker that nobody wakes
SWEEP_PAUSE_SECONDS = 0.05  # at least, between two looks for what waits behind a floor
MOST_AHEAD = 20
PATIENCE_SECONDS = 1.0  # a child for it has to be forked first
IDLE_SECONDS = 60.0


class OwnSlot:
    """When the own queue is looked at, and the life of the child that runs what is found."""

    def __init__(self, pool: Pool, hands: HandOut, options: WorkerOptions) -> None:
        self.hands = hands
        self._pool, self._worker_id = pool, options.worker_id
        self._poll_seconds = options.poll.total_seconds()
        self._beat_seconds = beat_interval(options.lease).total_seconds()
        self.asleep: Callable[[], bool] = lambda: False  # whether whoever enqueues wakes this worker
        self.is_seen: Callable[[], bool] = lambda: False  # whether each look at all queues tells of this one, too
        self.heard = False  # whether worker_heartbeat has receivers
        self.found_nothing = False  # the last look did
        self._look_at = 0.0
        self._hinted = False
        self._used_at = self._beat_at = self._told_at = 0.0
        self._told: Child | None = None  # the child that calls the receivers now
        self._beat_waits = False

    # -- looking --------------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Look at the next chance: there may be something."""
        self._hinted, self._look_at = True, 0.0

    def overdue(self, now: float) -> bool:
        """Tell whether there may be something, or a look of routine has waited long for others' hints."""
        return now > self._look_at + LOOK_SECONDS

    def next_at(self, now: float) -> float | None:
        """Return when to look, None while there is no room: it comes with a child's report."""
        return max(now, self._look_at) if self._room(now) else None

    def deal(self, now: float) -> Deal | None:
        """Return what to claim now, None for nothing; found() has to follow with the answer."""
        take = self._room(now) if now >= self._look_at else 0
        if not take:
            return None
        self._hinted = False
        return Deal([(INTERNAL_QUEUE, take)], take)

    def found(self, jobs: int, deal: Deal, now: float, *, sweep_at: float = inf) -> None:
        """Take the answer to a deal into account: how many jobs it brought, and when to sweep behind a floor."""
        self.found_nothing = jobs == 0
        if jobs:
            self._used_at = now
        if jobs >= deal.total or self._hinted:  # there may be more, or a hint came while that look was under way
            self._look_at = 0.0
        else:
            self._look_at = min(now + self._rest_seconds(), max(sweep_at, now + SWEEP_PAUSE_SECONDS))

    def is_empty(self, now: float) -> None:
        """Note that a look at all queues has found nothing here: a look of routine would find no more."""
        if not self._hinted:
            self.found_nothing, self._look_at = True, now + self._rest_seconds()

    def failed(self, now: float, pause: float) -> None:
        """Note that the claim failed."""
        self._look_at = now + pause

    def _rest_seconds(self) -> float:
        asleep = self.asleep()
        if asleep and self.is_seen():  # after the next look at all queues, which saves this one
            return self._poll_seconds * random.uniform(1.1, 1.35)
        return (self._poll_seconds if asleep else min(self._poll_seconds, LOOK_SECONDS)) * random.uniform(0.75, 1.0)

    def _room(self, now: float) -> int:
        if self._pool.own.serving:
            return min(MOST_AHEAD, self.hands.free(now)[0])
        return max(0, min(MOST_AHEAD, self.hands.depth) - self.hands.waiting)

    # -- its child ------------------------------------------------------------------------------------------------

    @property
    def wants_child(self) -> bool:
        """Whether there is something for a child to do."""
        return bool(self.hands.waiting) or self._beat_waits

    def check(self, now: float, *, stopping: bool) -> None:
        """Send the heartbeat's signal when it is time; let the child go that has had nothing to do for a minute."""
        self._beat_waits = False
        if self._told is not None:
            self._check_receivers(self._told, now)
        elif self.heard and not stopping and now >= self._beat_at:
            self._beat(now)
        children = self._pool.own.serving
        if any(child.queue or child.notices for child in children):
            self._used_at = now
        elif now - self._used_at > IDLE_SECONDS and not self.wants_child:
            for child in children:
                self.hands.put_back_retired(child)

    def _beat(self, now: float) -> None:
        child = next(iter(self._pool.own.serving), None)
        if child is None:
            self._beat_waits = True  # and is sent once there is a child
            return
        self._used_at = now
        if child.pid is not None and not child.queue:
            if child.notify(Notice("worker_heartbeat", {"worker_id": self._worker_id})):
                self._told, self._told_at = child, now
            self._beat_at = now + self._beat_seconds

    def _check_receivers(self, child: Child, now: float) -> None:
        """Kill the child whose receivers do not end: what has to be told must not wait behind them."""
        if child.dead or not child.notices:
            self._told = None
        elif now - self._told_at > RECEIVERS_SECONDS and child.killed_at is None:
            logger.warning("receivers of worker_heartbeat took over %g s, their child is killed", RECEIVERS_SECONDS)
            child.killed_at = time.monotonic()
            self._pool.launcher.kill(child.key)


class Hands:
    """Both ways of handing out, of which each job has its own: the common slots' and the own slot's never mix."""

    def __init__(self, common: HandOut, own: HandOut) -> None:
        self.common, self.own = common, own

    @classmethod
    def make(
        cls, pool: Pool, held: HeldJobs, settler: Settler, *, began: Callable[[Held], None], reserved: Mapping[str, int]
    ) -> Hands:
        """Make one for each crew of the pool."""
        return cls(
            HandOut(pool.common, held, settler, began=began, reserved=reserved),
            HandOut(pool.own, held, settler, began=began, patience=PATIENCE_SECONDS),
        )

    def of(self, one: Held | Child) -> HandOut:
        """Return the one that a job or a child belongs to."""
        return self.own if one.own else self.common

    @property
    def waiting(self) -> int:
        """How many jobs are here, given to no child."""
        return self.common.waiting + self.own.waiting

    def next_at(self, now: float) -> float | None:
        """Return when pump() should be called at the latest."""
        times = [when for when in (self.common.next_at(now), self.own.next_at(now)) if when is not None]
        return min(times, default=None)

    def pump(self, now: float) -> None:
        """Hand out what is here, and take back what waits behind long jobs."""
        self.own.pump(now)
        self.common.pump(now)

    def put_back(self, items: Iterable[Held]) -> None:
        """Take jobs that a child did not begin, ahead of all others."""
        items = list(items)
        self.own.put_back(item for item in items if item.own)
        self.common.put_back(item for item in items if not item.own)

    def put_back_retired(self, child: Child) -> None:
        """Retire a child, and keep what it had not begun."""
        self.of(child).put_back_retired(child)

    def release_unstarted(self) -> None:
        """Give back everything that no handler has begun."""
        self.own.release_unstarted()
        self.common.release_unstarted()
