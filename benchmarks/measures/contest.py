"""Ours and some peers at the same work, in turn, in one run: the frame of every row that compares with peers.

A side that fails is out for the rest of the row and its reason is told in a note. The row does not hold then, whoever
failed: the best of the others is not known without the one that might have been it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Literal

from benchmarks import figures
from benchmarks.failures import BROKEN_OFF, in_a_line
from benchmarks.figures import Figure
from benchmarks.peers.base import Peer
from benchmarks.peers.catalogue import OURS, PEERS
from benchmarks.peers.errors import PeerFailed
from benchmarks.plan import Plan, say
from benchmarks.sampling import Samples, take

Work = Callable[[Peer], dict[str, float]]


@dataclass(frozen=True)
class Side:
    """One that takes part: a peer, with its defaults or tuned, and what is special about its work here."""

    peer: str
    tuned: bool = False
    label: str = ""

    @property
    def name(self) -> str:
        """The name in tables and notes."""
        return " ".join(word for word in (self.peer, "tuned" if self.tuned else "", self.label) if word)


@dataclass
class Contest:
    """The samples of all sides, and what became of those that failed."""

    samples: Samples
    names: Sequence[str]  # of the values
    failed: dict[str, str] = field(default_factory=dict)  # by side, the reason

    def values(self, side: Side, value: str) -> list[float]:
        """Return a side's samples of one value; none where it failed."""
        # It may have failed in a sample that was left out as disturbed: what it did before is no figure either.
        return [] if side.name in self.failed else self.samples.values.get(f"{side.name}: {value}", [])

    def median(self, side: Side, value: str) -> float:
        """Return the middle one; NaN where the side failed."""
        found = self.values(side, value)
        return figures.median(found) if found else math.nan


def hold(plan: Plan, row: str, works: dict[Side, Work], values: Sequence[str]) -> Contest:
    """Have each side do its work in turn, as often as the plan says.

    A side that has a label of its own shares its peer's processes with the side without: they never run together.
    """
    contest = Contest(Samples({}, 0.0), values)

    def note(side: Side, error: Exception) -> None:
        contest.failed[side.name] = in_a_line(error)
        say(f"{row}: {side.name}: {error}")

    with ExitStack() as stack:
        peers: dict[tuple[str, bool], Peer] = {}
        for side in works:
            try:
                if side.peer not in PEERS:
                    raise PeerFailed("there is no driver for it")
                if (side.peer, side.tuned) not in peers:
                    peers[side.peer, side.tuned] = stack.enter_context(Peer(side.peer, tuned=side.tuned))
            except BROKEN_OFF as error:
                note(side, error)

        def sample() -> dict[str, float]:
            found: dict[str, float] = {}
            for side, work in works.items():
                given = dict.fromkeys(values, math.nan)
                if side.name not in contest.failed:
                    try:
                        with peers[side.peer, side.tuned].turn() as peer:
                            given = work(peer)
                    except BROKEN_OFF as error:
                        note(side, error)
                found |= {f"{side.name}: {value}": given[value] for value in values}
            return found

        contest.samples = take(plan, row, sample)
    return contest


@dataclass(frozen=True, kw_only=True)
class Row:
    """How a row is made of a contest: one value of ours against the best of the others'."""

    row: str
    work: str
    value: str
    unit: Literal["x"] = "x"
    bar: float
    better: Literal["higher", "lower"] = "higher"
    aim: str = ""  # what is hoped for beyond the bar, in words
    product: Callable[[Sequence[float]], str] = figures.rate


def figure(contest: Contest, row: Row, ours: Sequence[Side], peers: Sequence[Side]) -> Figure:
    """Return the row's figure: the worst of our sides by the best of the others, which it names.

    Where a side failed the value is no number; a note tells what it would be without that one.
    """
    best_first = sorted(
        (side for side in peers if contest.values(side, row.value)),
        key=lambda side: contest.median(side, row.value),
        reverse=row.better == "higher",
    )
    own = [side for side in ours if contest.values(side, row.value)]
    slower = min if row.better == "higher" else max
    worst = slower(own, key=lambda side: contest.median(side, row.value), default=None)
    value = math.nan
    told = [f"{side.name}: {row.product(contest.values(side, row.value))}" for side in [*own, *best_first]]
    failed = [f"{side.name}: {contest.failed[side.name]}" for side in (*ours, *peers) if side.name in contest.failed]
    if best_first and worst is not None and len(own) == len(ours):
        value = contest.median(worst, row.value) / contest.median(best_first[0], row.value)
        if len(best_first) < len(peers):
            failed.append(f"against those that did not fail: {value:.2f} x")
            value = math.nan
    shown = (f"{best_first[0].name} {row.product(contest.values(best_first[0], row.value))}") if best_first else "none"
    return Figure(
        row=row.row,
        work=row.work,
        value=value,
        unit=row.unit,
        bar=row.bar,
        better=row.better,
        product=row.product(contest.values(worst, row.value)) if worst is not None else "failed",
        limit=shown,
        samples={
            f"{side.name}: {name}": found
            for side in (*ours, *peers)
            for name in contest.names
            if (found := contest.values(side, name))
        },
        notes=[*([row.aim] if row.aim else []), *told, *failed],
        noise=contest.samples.noise,
    )


OWN = Side(OURS)
