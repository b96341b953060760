"""Claim what can be run: as much as the children have room for, no sooner, from the queues in turn.

A worker with nothing to claim marks itself idle, claims once more, and sleeps until a hint or the next poll: whoever
enqueues after that claim sees the mark and wakes it.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from django.db import DatabaseError

from jobqueue.conf import JobQueueSettings
from jobqueue.exceptions import HandlerImportError, UnknownJobType
from jobqueue.internal import INTERNAL_QUEUE
from jobqueue.logs import Quietly
from jobqueue.managers import ClaimedJob, leasing
from jobqueue.registry import PolicyTable

from .claims import Claims
from .endings import unknown_type
from .handout import DEEPEST, HandOut
from .holding import Held, HeldJobs, boottime
from .learning import Learning
from .own import OwnSlot
from .queues import Deal, QueuePlan, fallen_short
from .threads import DatabaseThread, is_away

if TYPE_CHECKING:
    from .settle import Settler

logger = logging.getLogger("jobqueue.worker")

BUSY_PAUSE_SECONDS = 0.005
FAILED_PAUSE_SECONDS = 0.5
SHORT_SECONDS = 0.1
MOST_UNSETTLED = 2_000  # a settle that cannot keep up must hold the claims back
MARK_SECONDS, BUSY_SECONDS = 1.0, 0.25
UNSURE = -1  # no number of connects


class Claimed(NamedTuple):
    """What one claim brought: the jobs, the queues that had less than was asked for, whether any queue was asked.

    `own_is_empty` is whether the package's own queue has no due job, None where it did not look at all queues.
    """

    held: list[Held]
    short: set[str]
    asked: bool
    at: float
    own_is_empty: bool | None = None


class Dispatch:
    """Decides when to claim, how much, and of which queues."""

    def __init__(
        self,
        thread: DatabaseThread,
        *,
        plan: QueuePlan,
        hands: HandOut,
        own: OwnSlot,
        held: HeldJobs,
        settler: Settler,
        settings: JobQueueSettings,
        worker_id: str,
        lease: timedelta,
        poll: timedelta,
        mark_idle: Callable[[bool], None],
    ) -> None:
        self._thread, self._plan, self._held, self._settler = thread, plan, held, settler
        self._settings, self._worker_id, self._lease, self._poll = settings, worker_id, lease, poll
        self._mark_idle, self._hands, self._own = mark_idle, hands, own
        own.asleep, own.is_seen = lambda: self._idle and self.hears(), lambda: plan.every
        self.hears: Callable[[], bool] = lambda: False  # whether hints come, so that it is worth asking for them
        self.after_hints: Callable[[], None] = lambda: None  # nothing is due now: they may have meant what is soon
        self.claims = Claims(thread.session.run, worker_id=worker_id, lease=lease)
        self.learning = Learning(thread.session.run, plan, self.claims, poll_seconds=poll.total_seconds())
        self.policies = PolicyTable({})
        self.stopped = False  # no further claims: the worker stops
        self.budget: int | None = None  # how many more jobs may be claimed (--max-jobs)
        # Monotonic time at which the claim loop was last seen to be well: its last claim was answered, and it hangs in
        # no other. One whose slots are all busy claims nothing for hours, and is well. A look at the own queue that is
        # answered says nothing of the claims of all others.
        self.claimed_at: float | None = None
        self._answered = False  # the last claim for the common slots was
        self.found_nothing = False  # the last claim looked everywhere and found nothing
        self._hungry, self._next_at, self._idle, self._idle_since = True, 0.0, False, 0.0
        self._futile_at = 0.0  # when a look that a hint had asked for found nothing
        self._short: set[str] = set()  # queues that had less than was asked for
        self._short_since = 0.0
        self._told: set[str] = set()  # queues that hints have named since the last claim
        self._unasked_room: int | None = None  # the free places when a queue was not asked, since none of them was its
        self._busy_since: float | None = None  # since when every claim has found something
        self._connects = self._marked_on = 0
        self._quietly = Quietly(logger)
        self._hinted = self._for_a_hint = self._heard = self._full = self._own_was_last = self._unlearnt = False

    def wake(self, queues: Iterable[str] = ()) -> None:
        """Claim soon: a hint came that there is work, in queues that it names or anywhere."""
        named = set(queues)
        if not named or INTERNAL_QUEUE in named:
            self._own.wake()
        names = {queue for queue in named if self._plan.serves(queue)}
        if not named:
            self.learning.ask()  # where it is must be looked for, too
        elif not names:
            self.after_hints()
            return
        self._told |= names
        self._hinted, self._heard, self.found_nothing = True, True, False
        # A moment after one that was for nothing: else hints of what others took, or may not be run, are looks each.
        self._hungry, self._next_at = True, self._futile_at + BUSY_PAUSE_SECONDS
        if self.closed:
            self._pass_hints_on()

    def look_again(self) -> None:
        """Forget that nothing was found: a job that has just ended may have enqueued others."""
        self.found_nothing = self._own.found_nothing = False
        self.claims.doubt()
        self._hinted, self._next_at, self._unlearnt = True, 0.0, self._plan.every

    @property
    def drained(self) -> bool:
        """Whether nothing was due anywhere at the last looks."""
        return self.found_nothing and self._own.found_nothing

    @property
    def closed(self) -> bool:
        """Whether nothing more is claimed: the worker stops, or has claimed all it was asked to."""
        return self.stopped or (self.budget is not None and self.budget <= 0)

    def refund(self) -> None:
        """Count a claimed job as not claimed: it was given back before its handler began."""
        if self.budget is not None:
            self.budget += 1

    def next_at(self, now: float) -> float | None:
        """Return when pump() should be called at the latest, None while it waits for a child or an answer."""
        if self.closed or self._thread.busy:
            return None
        own = self._own.next_at(now) if self._keeps_up else None
        times = [own, None if self._full else max(now, self._next_at)]
        return min((when for when in times if when is not None), default=None)

    @property
    def _keeps_up(self) -> bool:
        return len(self._settler) <= MOST_UNSETTLED

    def pump(self, now: float) -> None:
        """Claim, where there is room and it is time."""
        self._full = False
        if self._unasked_room is not None and self._hands.free(now)[0] > self._unasked_room:
            self._next_at, self._unasked_room = 0.0, None
        if self._answered and not self._thread.busy and self._keeps_up:
            self.claimed_at = now
        if self.closed:
            return
        # The own queue first: what there is to tell must not wait for a claim of what it tells of. But in turn, so that
        # a backlog of it leaves the other slots something; and a hinted job waits for no look of routine.
        common_first = self._own_was_last or (self._hinted and not self._own.overdue(now))
        turns = (self._claim_common, self._claim_own) if common_first else (self._claim_own, self._claim_common)
        for claim in turns:
            if not self._thread.busy:
                claim(now)

    def _claim_own(self, now: float) -> None:
        deal = self._own.deal(now) if self._keeps_up else None
        if deal is not None:
            self._own_was_last = True
            claim = partial(self._claim, deal.total, [deal], learn=False)
            self._thread.submit(claim, partial(self._claimed_own, deal))

    def _claim_common(self, now: float) -> None:
        self._own_was_last = False
        if now < self._next_at:
            return
        free, places = self._hands.free(now)
        # By halves, so that claims stay large; but a slot with nothing to do never waits for that.
        enough = free and (self._hands.starving or free * 2 >= places or free >= DEEPEST)
        if enough and self._keeps_up:
            self._submit_claim(free, now)
        else:
            self._answered |= not free  # whatever became of the last claim, no other is wanted
            self._full = True  # room comes with a child's report or a settle's answer, never with time
            self._pass_hints_on()

    def _submit_claim(self, free: int, now: float) -> None:
        if self._hinted or now - self._short_since > SHORT_SECONDS:
            self._short.clear()  # jobs may have come meanwhile, and nobody tells a worker that is not idle
        self._for_a_hint, self._hinted = self._for_a_hint or self._hinted, False
        self._plan.learnt |= self._told  # here, where no look for queues is under way that would forget them
        self._told.clear()
        if self.budget is not None:
            free = min(free, self.budget)
        learn = self.learning.is_due(now, hungry=self._hungry, hinted=self._for_a_hint)
        deals = self._deals(free)
        self._unasked_room = None
        if deals or learn:
            self._thread.submit(partial(self._claim, free, deals, learn=learn), self._claimed)
        else:
            if not self._short.issuperset(self._plan.names()):
                self._unasked_room = free  # what there is belongs to others
            self._rest(now)

    def _deals(self, free: int) -> list[Deal]:
        counts: dict[str, int] = {}
        for held in self._held.all():
            if not (held.ended or held.own):
                counts[held.job.queue] = counts.get(held.job.queue, 0) + 1
        # A child's slots share its inbox, so what is given ahead cannot be kept out of a reserved one: nothing is.
        slots = self._hands.shared_slots
        return self._plan.deals(free=free, depth=self._hands.depth, held=counts, skip=self._short, slots=slots)

    def _claim(self, free: int, deals: list[Deal], *, learn: bool) -> Claimed:
        """Claim, on the database thread; jobs are held from here on."""
        own_is_empty = self.learning.look() if learn else None
        if learn:
            deals = self._deals(free)
        sent = boottime()
        jobs: list[ClaimedJob] = []
        try:
            for deal in deals:
                self.claims.claim(deal.takes, total=deal.total, found=jobs)
        except DatabaseError as error:
            self._connects = UNSURE  # a deal of several statements may have leased what is held by nobody
            if not jobs:
                raise
            self._quietly.warning("claim failed in part error=%s", str(error).strip().split("\n")[0])
        held = [Held(job, sent + self._lease.total_seconds()) for job in jobs]
        self._held.add(held)
        self._release_strays()
        return Claimed(held, fallen_short(deals, jobs), bool(deals), time.monotonic(), own_is_empty)

    def _release_strays(self) -> None:
        """Give back what a claim may have leased whose answer was lost with its connection, or by an error halfway.

        Never raises: the jobs just claimed are held, and renewed, so they must reach the main loop. The next claim
        tries again.
        """
        session = self._thread.session
        connects = session.connects
        if connects == self._connects:
            return
        try:
            leasing.release_strays(session.run, worker_id=self._worker_id, held=self._held.not_stray())
        except DatabaseError as error:
            text = str(error).strip().split("\n")[0]
            self._quietly.warning("strays not given back yet worker=%s error=%s", self._worker_id, text)
        else:
            self._connects = connects

    def _claimed(self, result: Claimed | None, error: Exception | None) -> None:
        now = time.monotonic()
        if result is None:
            self._answered = False
            self.learning.ask()  # that look may be what failed
            self._tell_failure(error)
            self._next_at = now + FAILED_PAUSE_SECONDS
            return
        self._answered, self.claimed_at = True, result.at
        if self.budget is not None:
            self.budget -= len(result.held)
        for item in result.held:
            self._admit(item, self._hands, now)
        if result.own_is_empty is False:
            self._own.wake()
        elif result.own_is_empty and not self._hinted:  # else an older answer than what it would overrule
            self._own.is_empty(now)
        if result.short and not self._short:
            self._short_since = now
        self._short |= result.short
        self._hands.hand_out(now)
        if result.held:
            self._after_some(now)
        elif result.asked and not (self._hinted or self._short.issuperset(self._plan.names())):
            self._next_at = 0.0  # some queue was not asked yet; with a hint all are asked again, but not at once
        else:
            self._rest(now)

    def _claimed_own(self, deal: Deal, result: Claimed | None, error: Exception | None) -> None:
        now = time.monotonic()
        if result is None:
            self._tell_failure(error)
            self._own.failed(now, FAILED_PAUSE_SECONDS)
            return
        for item in result.held:
            item.own = True
            self._admit(item, self._own.hands, now)
        self._own.found(len(result.held), deal, now, sweep_at=self._sweep_at([INTERNAL_QUEUE], now))
        self._own.hands.hand_out(now)

    def _tell_failure(self, error: Exception | None) -> None:
        if error is None or not is_away(error):  # that was told by the thread
            self._quietly.warning("claim failed error=%s", str(error).strip().split("\n")[0])

    def _after_some(self, now: float) -> None:
        self.found_nothing = self._for_a_hint = False
        if self._busy_since is None:
            self._busy_since = now
        # Every enqueue tells a worker that is marked idle, and that serialises commits: one that finds work at every
        # look takes the mark back. Not often, or the marks themselves become dead rows that every enqueue reads.
        marked = self._idle and now - self._idle_since > MARK_SECONDS
        if marked and now - self._busy_since > BUSY_SECONDS:
            self._set_idle(now, idle=False)
            self._own.wake()  # nobody else wakes it from here on
        if self._short.issuperset(self._plan.names()):
            self._short.clear()
            # A moment, so that a trickle is not claimed job by job.
            self._next_at = 0.0 if self._hinted else now + BUSY_PAUSE_SECONDS
        else:
            self._next_at = 0.0

    def _rest(self, now: float) -> None:
        """Nothing is due: sleep; but say so first, and look once more after saying it."""
        self._short.clear()
        if self._unlearnt:  # not with each claim before: what has ended may have enqueued into queues that were empty
            self._unlearnt, self._hinted = False, True
            self.learning.ask()
        # Behind a floor there may be jobs that were given back: a drain would leave them.
        self.found_nothing = not (self._hinted or self.claims.may_be_behind(self._plan.names()))
        self._busy_since = None
        if not self._own.found_nothing:
            self._own.wake()
        if self._for_a_hint:
            self._for_a_hint, self._futile_at = False, now
        if self._hinted:  # while that claim was under way: it may have looked too early
            self._next_at = self._futile_at + BUSY_PAUSE_SECONDS
            return
        self._pass_hints_on()
        # A server that crashed, or another one after a failover, may know nothing of the mark.
        unmarked = not self._idle or self._marked_on != self._thread.session.connects
        if unmarked and not self.closed and self.hears():
            self._set_idle(now, idle=True)
            self._own.wake()
            self._hungry, self._next_at = True, 0.0
            self.learning.ask()
            return
        self._hungry = False
        rest = self._poll.total_seconds() * random.uniform(0.75, 1.0)
        self._next_at = min(now + rest, self._sweep_at(self._plan.names(), now))

    def _pass_hints_on(self) -> None:
        if self._heard:
            self._heard = False
            self.after_hints()

    def _sweep_at(self, queues: Iterable[str], now: float) -> float:
        """Return when to ask again for queues that have nothing, whatever the poll: behind a floor there may be jobs.

        Of these only: a claim that does not ask for a queue never makes its sweep, however often it is made.
        """
        sweep_at = self.claims.sweep_at(queues)
        return inf if sweep_at is None else max(sweep_at, now + BUSY_PAUSE_SECONDS)

    @property
    def sleeping(self) -> bool:
        """Whether the worker has marked itself idle."""
        return self._idle

    def forget_mark(self) -> None:
        """Take it that the mark was not written: the next rest writes it again."""
        self._idle = False

    def _set_idle(self, now: float, *, idle: bool) -> None:
        self._idle, self._idle_since, self._marked_on = idle, now, self._thread.session.connects
        self._mark_idle(idle)

    def _admit(self, item: Held, hands: HandOut, now: float) -> None:
        """Look a claimed job's type up; one unknown here goes back for a worker that may know it."""
        try:
            item.policy = self.policies.get(item.job.job_type)
        except HandlerImportError:
            item.policy = None  # its attempt fails in the child, with the import error stored
        except UnknownJobType as error:
            fallback = self.policies.fallback if item.job.task_backend is not None else None
            if fallback and (item.job.unknown_seconds or 0) < self._settings.UNKNOWN_TYPE_DEAD_SECONDS:
                # A task that no module of the zygote has declared: the child imports it by its path.
                item.policy = replace(fallback, name=item.job.job_type)
                hands.add(item, now)
                return
            self._settler.add(item, unknown_type(item, str(error)))
            return
        hands.add(item, now)
