"""Measure works of peers, all of them in turn: a repeat of each before the next repeat of any.

A peer that cannot be installed, or fails, is left out from then on, with the reason in place of its figures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from benchmarks.failures import BROKEN_OFF
from benchmarks.machine import Noise
from benchmarks.plan import Plan, say
from benchmarks.sampling import DISTURBED, wait_until_quiet

from .base import Peer, Sample
from .catalogue import Entry
from .errors import NotOffered
from .works import WORKS

Which = Literal["default", "tuned", "both"]


@dataclass(kw_only=True)
class Row:
    """One work of one peer with one kind of settings: its samples, or why there are none."""

    work: str
    peer: str
    tuned: bool
    workers: int
    about: dict[str, Any] = field(default_factory=dict)  # what Peer.about says
    values: dict[str, list[float]] = field(default_factory=dict)  # by name with its unit, a value a sample
    jobs: list[int] = field(default_factory=list)  # that took part, a number a sample
    notes: list[str] = field(default_factory=list)
    noise: float = 0.0  # the largest share of the processors that others took during a sample
    error: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the row as JSON has it."""
        return asdict(self)


class Side:
    """A row while it is measured."""

    def __init__(self, row: Row, peer: Peer, given: dict[str, Any]) -> None:
        self.row = row
        self._peer, self._given = peer, given
        self._taken: list[tuple[float, Sample]] = []

    def wants_more(self, plan: Plan) -> bool:
        """Tell whether another sample is due: too few yet, or too many of them disturbed."""
        if self.row.error or len(self._taken) >= plan.repeats + plan.retakes:
            return False
        return sum(noise <= DISTURBED for noise, _ in self._taken) < plan.repeats

    def take(self, plan: Plan) -> None:
        """Take a sample, or write down why there is none."""
        wait_until_quiet(plan.patience)
        name = f"{self.row.work} {self.row.peer}{' tuned' if self.row.tuned else ''}"
        try:
            with self._peer.turn(), Noise() as during:
                sample = WORKS[self.row.work](self._peer, **self._given)
        except BROKEN_OFF as error:
            self.row.error = str(error) or type(error).__name__
            say(f"{name}: {'-' if isinstance(error, NotOffered) else 'FAILED'}: {error}")
            return
        self._taken.append((during.share, sample))
        told = ", ".join(f"{key} {value:,.{0 if value > 100 else 2}f}" for key, value in sample.values.items())
        say(f"{name}: {told}; others {during.share:.0%}")

    def close(self, plan: Plan) -> None:
        """Keep the quietest samples in the row."""
        kept = sorted(self._taken, key=lambda pair: pair[0])[: plan.repeats]
        row, samples = self.row, [sample for _, sample in kept]
        row.about = self._peer.about
        if row.error or not samples:
            return
        row.noise = max(noise for noise, _ in kept)
        row.jobs = [sample.jobs for sample in samples]
        row.values = {name: [sample.values[name] for sample in samples] for name in samples[0].values}
        few = [f"broken off after {len(samples)} of {plan.repeats} samples"] if len(samples) < plan.repeats else []
        row.notes = [*few, *dict.fromkeys(sample.note for sample in samples if sample.note)]


def measure(
    entries: Sequence[Entry],
    works: Sequence[str],
    plan: Plan,
    *,
    workers: int = 1,
    jobs: int | None = None,
    seconds: float | None = None,
    which: Which = "both",
    keep: Callable[[Sequence[Row]], None] | None = None,
) -> list[Row]:
    """Return a row for each work, peer and kind of settings. Without jobs or seconds each work has its own defaults.

    `keep` is called with all rows so far after each work, and where a work is broken off: with what there is of it.
    """
    given = {name: value for name, value in (("jobs", jobs), ("seconds", seconds), ("workers", workers)) if value}
    rows: list[Row] = []
    with ExitStack() as stack:
        peers = [peer for entry in entries for peer in _opened(stack, entry, works, workers, which, rows)]
        for work in works:
            sides = [
                Side(Row(work=work, peer=peer.name, tuned=peer.tuned, workers=workers), peer, given) for peer in peers
            ]
            try:
                while due := [side for side in sides if side.wants_more(plan)]:
                    for side in due:
                        side.take(plan)
            finally:
                for side in sides:
                    side.close(plan)
                    rows.append(side.row)
                if keep:
                    keep(rows)
    return rows


def _opened(
    stack: ExitStack, entry: Entry, works: Sequence[str], workers: int, which: Which, rows: list[Row]
) -> list[Peer]:
    """Return the peer with its defaults and tuned, as far as asked for; where it fails, add rows that say so."""
    opened: list[Peer] = []
    for tuned in (False, True):
        if which == "default" and tuned:
            continue
        peer = Peer(entry.name, tuned=tuned)
        try:
            with ExitStack() as own:
                own.enter_context(peer)
                if tuned and not peer.about["tunable"] and opened:
                    continue
                if not tuned and which == "tuned" and peer.about["tunable"]:
                    continue
                stack.push(own.pop_all())
                opened.append(peer)
        except BROKEN_OFF as error:
            say(f"{entry.name}: FAILED: {error}")
            rows += [Row(work=work, peer=entry.name, tuned=tuned, workers=workers, error=str(error)) for work in works]
            break
    return opened
