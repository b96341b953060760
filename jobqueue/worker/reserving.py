"""Keep reserved slots free when jobs are handed out, however many were claimed ahead.

Claims are dealt in places, of which a slot has many where jobs are short. Short ones that turn out long would otherwise
run in every slot, also in those that another queue has reserved. A child is *of* a reserved queue while all that it was
given is of that queue; for whatever a reserved queue lacks of such children, as many stay empty.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Final

from .pool import Child

COMMON: Final = ""  # no name of a queue


class Reserving:
    """Which children, of one slot each, may be given jobs of which queue: for one round of handing out."""

    def __init__(self, reserved: Mapping[str, int], children: Mapping[str, Child]) -> None:
        self._reserved = reserved
        self._kinds = {
            key: self._kind({held.job.queue for held in child.queue.values()})
            for key, child in children.items()
            if not (child.dead or child.retiring)
        }
        self._count = Counter(self._kinds.values())

    @property
    def kept(self) -> int:
        """How many children have to stay empty."""
        return sum(map(self._lacks, self._reserved))

    def open_to(self, queue: str, rooms: Mapping[str, int]) -> list[str]:
        """Return the children with room that a job may be given to; its own queue's alone where there are any."""
        lacking = self.kept
        found = [
            key for key, kind in self._kinds.items() if rooms.get(key, 0) > 0 and self._may_have(queue, kind, lacking)
        ]
        if queue in self._reserved:
            wanted = (queue, None) if self._lacks(queue) else (queue,)
            return [key for key in found if self._kinds[key] in wanted] or found
        return found

    def given(self, queue: str, key: str) -> None:
        """Note that a child was given a job."""
        before = self._kinds[key]
        after = self._kinds[key] = self._kind({queue} if before is None else {queue, before})
        self._count[before] -= 1
        self._count[after] += 1

    def _may_have(self, queue: str, kind: str | None, lacking: int) -> bool:
        empty = self._count[None]
        if kind is None:
            return self._lacks(queue) > 0 or empty > lacking
        if kind in (COMMON, queue):
            return True
        return empty >= lacking + (self._count[kind] <= self._reserved[kind])  # it would be its queue's no longer

    def _lacks(self, queue: str) -> int:
        return max(0, self._reserved.get(queue, 0) - self._count[queue])

    def _kind(self, queues: Collection[str]) -> str | None:
        """Return the reserved queue that all jobs are of, COMMON for any others, None for no job."""
        if not queues:
            return None
        (first, *others) = queues
        return COMMON if others or first not in self._reserved else first
