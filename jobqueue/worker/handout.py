"""Hand claimed jobs to the children, and take back in time what waits behind one that turns out long.

How far ahead a child is given work is learnt from how long jobs take: a place is a slot, `depth` times over where jobs
are short, so that no-ops are claimed by the hundred and ten-second jobs one a slot. What waits behind a long job is
taken back, for another child or, within 200 ms and through the database, another worker.

A job that must run alone gets an empty child, ahead of all others: one child is given nothing more until it is empty,
or, where it has several slots that are never all free at once, it retires and a new one takes its place.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from jobqueue.managers import Release
from jobqueue.outcomes import Outcome

from .holding import Held, HeldJobs
from .pool import Child, Crew
from .reserving import Reserving

if TYPE_CHECKING:
    from .settle import Settler

AHEAD_SECONDS = 0.05  # how much work a child is given ahead
DEEPEST = 600
FIRST_FITTING = 200  # jobs that a slot is thought to have room for, before more were given
GATHER_SECONDS, LONGEST_GATHER_SECONDS = 0.004, 0.012  # reports are read as cheaply in tens as one
HANDFULS = 10  # in which a slot is given what it may hold
RECALL_SECONDS = 0.06
HEAP_SECONDS = 0.15  # as much work as this, by the mean of late, does not wait behind jobs of whatever length
RELEASE_SECONDS = 0.06
OWN_CHILD_SECONDS = 5.0  # how long a job that runs alone may wait for a new child


class HandOut:
    """The jobs between claim and child: what is here, who gets it, what comes back."""

    def __init__(
        self,
        crew: Crew,
        held: HeldJobs,
        settler: Settler,
        *,
        began: Callable[[Held], None],
        reserved: Mapping[str, int] | None = None,
        patience: float = RELEASE_SECONDS,
    ) -> None:
        """`patience` is how many seconds a job that could be given to any child waits for one."""
        self._crew, self._held, self._settler, self._began = crew, held, settler, began
        self._reserved, self._patience = reserved or {}, patience
        self._reserving: Reserving | None = None  # while jobs are handed out, where slots are reserved
        self._local: deque[tuple[Held, float]] = deque()  # claimed, not given to a child; and since when
        self._alone: deque[tuple[Held, float]] = deque()  # the same, of those that need a child for themselves
        self.mean_seconds: float | None = None  # of a run, of late
        self._fitting = FIRST_FITTING  # how many jobs of a slot an inbox holds: large payloads fill it sooner

    def add(self, item: Held, now: float) -> None:
        """Take a job that was claimed."""
        self._queue_of(item).append((item, now))

    def _queue_of(self, item: Held) -> deque[tuple[Held, float]]:
        return self._alone if self._runs_alone(item) else self._local

    @property
    def waiting(self) -> int:
        """How many jobs are here, given to no child."""
        return len(self._local) + len(self._alone)

    def next_at(self, now: float) -> float | None:
        """Return when pump() should be called at the latest."""
        waits = self.waiting or any(child.keeps_waiting() for child in self._crew.children.values())
        return now + RECALL_SECONDS / 2 if waits else None

    def pump(self, now: float) -> None:
        """Hand out what is here, take back what waits behind long jobs, give up what no child can begin soon."""
        self._recall(now)
        self.hand_out(now)
        self._release_stale(now)

    @property
    def depth(self) -> int:
        """How many jobs a slot may hold, from the mean run time of late."""
        if self.mean_seconds is None:
            return 1
        return max(1, min(DEEPEST, self._fitting, int(AHEAD_SECONDS / max(self.mean_seconds, 1e-6))))

    def learn(self, run_seconds: float) -> None:
        """Take the run time of an ended job into the mean: longer ones weigh more than shorter ones."""
        mean = self.mean_seconds
        if mean is None:
            self.mean_seconds = run_seconds
        else:
            self.mean_seconds = mean + (run_seconds - mean) * (0.3 if run_seconds > mean else 0.1)

    def _room(self, child: Child, depth: int, now: float) -> int:
        """Return how many more jobs a child may be given."""
        if not child.accepts():
            return 0
        if child.lags(now):
            depth = 1
        return max(0, child.slots * (depth if child.pid is not None else 1) - len(child.queue))

    def free(self, now: float) -> tuple[int, int]:
        """Return (places free now, places in all)."""
        depth = self.depth
        free = sum(self._room(child, depth, now) for child in self._crew.children.values()) - self.waiting
        return max(0, free), self._crew.slots * depth

    @property
    def shared_slots(self) -> int | None:
        """How many slots there are, where several share a child, else None."""
        return self._crew.slots if self._crew.threads > 1 else None

    def gather_seconds(self) -> float:
        """Return how long reports may gather before they are read: half of the short work that every child has."""
        enough = self.depth // 3
        waiting = min((child.waiting() for child in self._crew.children.values()), default=0)
        if enough < 2 or waiting <= enough:
            return 0.0
        work = waiting * (self.mean_seconds or 0.0) / self._crew.threads
        return min(max(GATHER_SECONDS, work / 2), LONGEST_GATHER_SECONDS)

    @property
    def starving(self) -> bool:
        """Whether a slot has nothing to do; one kept for its queue does not count while the others have plenty."""
        children = self._crew.children
        idle = {key for key, child in children.items() if child.accepts() and len(child.queue) < child.slots}
        reserving = self._new_reserving() if idle else None
        if reserving is None or len(idle) > reserving.kept:
            return bool(idle)
        return not all(child.waiting() for key, child in children.items() if key not in idle)

    def put_back(self, items: Iterable[Held]) -> None:
        """Take jobs that a child did not begin, ahead of all others."""
        now = time.monotonic()
        for item in reversed(list(items)):
            self._queue_of(item).appendleft((item, now))

    def hand_out(self, now: float) -> None:
        """Give jobs to the children: first those that need an empty one, then the others, to the one with most room."""
        depth = self.depth
        rooms = {key: self._room(child, depth, now) for key, child in self._crew.children.items()}
        self._reserving = self._new_reserving()
        self._alone = self._hand(self._alone, rooms, self._give_own)
        if self._reserving is None:
            # In equal parts of a fair share: that the next ones are as short as the last ones were is a guess.
            share = -(-len(self._local) // max(1, sum(room > 0 for room in rooms.values())))
            parts = max(1, -(-share // max(1, depth // HANDFULS)))
            self._pour(rooms, max(1, -(-share // parts)))
        else:
            self._local = self._hand(self._local, rooms, self._give)
        if self._fitting < DEEPEST and not self._local:
            self._try_deeper()

    def _try_deeper(self) -> None:
        """Learn that an inbox holds what was given, where it is as much as was thought to fit."""
        for child in self._crew.children.values():
            if len(child.queue) >= self._fitting * child.slots:
                self._fitting = min(DEEPEST, self._fitting + self._fitting // 4 + 1)
                return

    def _note_full(self, child: Child) -> None:
        """Learn how many jobs fit into an inbox, so that no more are claimed: the others would have to go back."""
        if not child.retiring:
            self._fitting = max(1, min(self._fitting, len(child.queue) // child.slots))

    def _pour(self, rooms: dict[str, int], handful: int) -> None:
        """Give what any child may have, a handful at a time, always to the child with most room.

        The kernel wakes a child for its first message; with one each in turn, both would be woken for every job.
        """
        items = self._local
        while items and (key := max(rooms, key=rooms.__getitem__, default=None)) is not None and rooms[key] > 0:
            child = self._crew.children[key]
            was_idle = len(child.queue) < child.slots
            for _ in range(min(handful, rooms[key], len(items))):
                item, _since = items[0]
                if item.lost or item.ended:
                    if item.lost:
                        self._held.remove(item)
                elif not child.give(item):
                    self._note_full(child)
                    rooms[key] = 0
                    break
                else:
                    rooms[key] -= 1
                items.popleft()
            for begun in child.mark_started() if was_idle else ():
                self._began(begun)

    def _new_reserving(self) -> Reserving | None:
        # With several slots a child, no more is claimed than there are slots (Dispatch): none has to be kept free here.
        return Reserving(self._reserved, self._crew.children) if self._reserved and self._crew.threads == 1 else None

    def _hand(
        self,
        items: deque[tuple[Held, float]],
        rooms: dict[str, int],
        give: Callable[[Held, dict[str, int]], bool],
    ) -> deque[tuple[Held, float]]:
        """Give what can be given; returns what is left, in order."""
        kept: deque[tuple[Held, float]] = deque()
        while items:
            item, since = items.popleft()
            if item.lost or item.ended:
                if item.lost:
                    self._held.remove(item)
            elif not give(item, rooms):
                kept.append((item, since))
                if not any(rooms.values()):
                    break
        kept.extend(items)
        return kept

    def _give(self, item: Held, rooms: dict[str, int]) -> bool:
        key = max(self._open_to(item, rooms), key=rooms.__getitem__, default=None)
        if key is None or rooms[key] <= 0:
            return False
        return self._give_to(self._crew.children[key], item, rooms)

    def _open_to(self, item: Held, rooms: dict[str, int]) -> Iterable[str]:
        """Return the children that it may be given to without taking a slot that another queue has reserved."""
        return rooms if self._reserving is None else self._reserving.open_to(item.job.queue, rooms)

    def _give_own(self, item: Held, rooms: dict[str, int]) -> bool:
        children = self._crew.children
        empty = [key for key in self._open_to(item, rooms) if rooms[key] and not children[key].queue]
        if not empty:
            self._make_way(rooms)
            return False
        child = children[empty[0]]
        memory = item.policy.limits.memory_bytes if item.policy else None
        if memory and child.too_fat_for(memory):
            self.put_back_retired(child)
            rooms[child.key] = 0
            return False
        if self._give_to(child, item, rooms):
            child.alone = item
            rooms[child.key] = 0
            return True
        return False

    def _give_to(self, child: Child, item: Held, rooms: dict[str, int]) -> bool:
        if not child.give(item):
            self._note_full(child)
            rooms[child.key] = 0
            return False
        rooms[child.key] -= 1
        if self._reserving is not None:
            self._reserving.given(item.job.queue, child.key)
        for begun in child.mark_started() if len(child.queue) <= child.slots else ():
            self._began(begun)
        return True

    def _make_way(self, rooms: dict[str, int]) -> None:
        """See to it that there will be an empty child: by giving one nothing more, or by a new one in its place."""
        children = self._crew.children.values()
        candidates = [child for child in children if child.accepts()]
        if not candidates:
            return
        least = min(candidates, key=lambda child: len(child.queue))
        retiring = sum(child.retiring for child in children)
        if (
            self._crew.threads > 1
            and len(children) - retiring == self._crew.processes
            and retiring < self._crew.processes
        ):
            self.put_back_retired(least)
        rooms[least.key] = 0

    def put_back_retired(self, child: Child) -> None:
        """Retire a child, and keep what it had not begun."""
        self.put_back(self._crew.retire(child))

    def _runs_alone(self, item: Held) -> bool:
        if item.policy is not None and item.policy.limits.memory_bytes:
            return True
        # After a crash that several jobs of one child shared, each is tried alone, so that the culprit is found.
        return self._crew.threads > 1 and item.job.last_outcome == Outcome.CRASHED

    def _recall(self, now: float) -> None:
        for child in self._crew.children.values():
            if not child.keeps_waiting():
                child.heaped_at = None
            elif self._is_heap(child, child.waiting(), now) or child.lags(now, RECALL_SECONDS):
                child.heaped_at = None
                self.put_back(child.recall())

    def _is_heap(self, child: Child, waiting: int, now: float) -> bool:
        """Tell whether far more work waits than was meant to: none of it long, but longer than what came before it."""
        if waiting * (self.mean_seconds or 0) <= HEAP_SECONDS * child.slots:
            child.heaped_at = None
        elif child.heaped_at is None:
            child.heaped_at = now  # a single run that was held up may be the reason: the next ones tell
        return child.heaped_at is not None and now - child.heaped_at > RECALL_SECONDS

    def _release_stale(self, now: float) -> None:
        """Give back to the database what no child of this worker can begin soon."""
        alone = OWN_CHILD_SECONDS if self._crew.threads > 1 else self._patience
        for items, seconds in ((self._local, self._patience), (self._alone, alone)):
            while items and now - items[0][1] > seconds:
                self._release(items.popleft()[0])

    def _release(self, item: Held) -> None:
        if item.lost:
            self._held.remove(item)
        elif not item.ended:
            self._settler.add(item, Release(*item.fence))

    def release_unstarted(self) -> None:
        """Give back everything that no handler has begun."""
        for child in self._crew.children.values():
            self.put_back(child.recall())
        for items in (self._local, self._alone):
            while items:
                self._release(items.popleft()[0])
