"""Which queues a worker serves and how its slots are dealt among them: `--queues "mail:2,default,*"`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from jobqueue.exceptions import ConfigurationError, InvalidName
from jobqueue.internal import INTERNAL_QUEUE
from jobqueue.managers import ClaimedJob
from jobqueue.payloads import check_name


class Deal(NamedTuple):
    """What to claim in one statement: up to so many of each queue, in this order, and never more than `total`."""

    takes: list[tuple[str, int]]
    total: int


def fallen_short(deals: Iterable[Deal], jobs: Iterable[ClaimedJob]) -> set[str]:
    """Return the queues that had less than was asked for, where the statement's total was not the reason."""
    left = Counter(job.queue for job in jobs)
    short: set[str] = set()
    for takes, total in deals:
        got = {queue: min(left[queue], take) for queue, take in takes}
        left.subtract(got)
        if sum(got.values()) < total:
            short |= {queue for queue, take in takes if got[queue] < take}
    return short


@dataclass(slots=True)
class QueuePlan:
    """Reserved slots per queue, the queues that share the others, and whether every queue is served."""

    reserved: dict[str, int] = field(default_factory=dict)
    named: list[str] = field(default_factory=list)
    every: bool = False
    learnt: set[str] = field(default_factory=set)
    _turn: int = 0

    @classmethod
    def parse(cls, text: str) -> QueuePlan:
        """Read a list of `name`, `name:slots` and `*`. Raises ConfigurationError naming the part that is wrong."""
        plan = cls()
        for part in filter(None, (piece.strip() for piece in text.split(","))):
            name, colon, number = part.partition(":")
            if name == "*" and not colon:
                plan.every = True
                continue
            try:
                check_name("queue", name)
            except InvalidName as error:
                msg = f"--queues {text!r}: {error}"
                raise ConfigurationError(msg) from error
            if colon and (not number.isdecimal() or len(number) > 9 or int(number) < 1):
                msg = f"--queues {text!r}: {part!r} must be name:slots with at least 1 slot"
                raise ConfigurationError(msg)
            if name in plan.named:
                msg = f"--queues {text!r}: {name!r} is named twice"
                raise ConfigurationError(msg)
            plan.named.append(name)
            if colon:
                plan.reserved[name] = int(number)
        if not plan.named and not plan.every:
            msg = f"--queues {text!r} names no queue: give names, or * for all"
            raise ConfigurationError(msg)
        return plan

    def check_slots(self, slots: int) -> None:
        """Raise ConfigurationError when more slots are reserved than there are, or none is left for the others."""
        wanted = sum(self.reserved.values())
        others = self.every or len(self.named) > len(self.reserved)
        if wanted > slots or (others and wanted == slots):
            rest = " and leave none for the other queues" if others and wanted == slots else ""
            msg = f"--queues reserves {wanted} slots of {slots}{rest}: raise --processes or --threads, or reserve fewer"
            raise ConfigurationError(msg)

    def names(self) -> list[str]:
        """Return the queues that share the slots and are known now: the package's own only where it is named."""
        if not self.every:
            return list(self.named)
        return [*self.named, *sorted(self.learnt.difference(self.named, {INTERNAL_QUEUE}))]

    def registered(self) -> list[str]:
        """Return what the worker's row says: the names, and * for all. All serve the package's own queue."""
        if self.every:
            return [*self.named, "*"]
        return self.named if INTERNAL_QUEUE in self.named else [*self.named, INTERNAL_QUEUE]

    def serves(self, queue: str) -> bool:
        """Tell whether a queue shares the slots."""
        return queue in self.named or (self.every and queue != INTERNAL_QUEUE)

    def deals(
        self,
        *,
        free: int,
        depth: int,
        held: Mapping[str, int],
        skip: Iterable[str] = (),
        slots: int | None = None,
    ) -> list[Deal]:
        """Deal `free` places among the queues; a place is a slot, `depth` times over where jobs are short.

        `held` counts the jobs held by queue. First what each queue has reserved and not filled, then the common places:
        every queue may take its share of them, rounded up, and all together no more than there are; another queue comes
        first each time. Nothing but its own queue ever fills a reserved place. With `slots`, queues that have reserved
        nothing hold no more jobs than slots are left to them, however short jobs are.
        """
        names = [name for name in self.names() if name not in set(skip)]
        own = {name: max(0, count * depth - held.get(name, 0)) for name, count in self.reserved.items()}
        dealt = [(name, min(own[name], free)) for name in names if own.get(name, 0) > 0]
        deals = [Deal(dealt, min(sum(take for _, take in dealt), free))] if dealt and free > 0 else []
        common = free - sum(own.values())
        if slots is not None and self.reserved:
            others = sum(count for name, count in held.items() if name not in self.reserved)
            common = min(common, slots - sum(self.reserved.values()) - others)
        if names and common > 0:
            self._turn = (self._turn + 1) % len(names)
            names = names[self._turn :] + names[: self._turn]
            share = -(-common // len(names))
            deals.append(Deal([(name, share) for name in names], common))
        return deals
