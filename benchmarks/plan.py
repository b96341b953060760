"""How much is measured and how often, and the lines that tell how far it is."""

from __future__ import annotations

import sys
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The sizes of a run."""

    repeats: int = 3
    retakes: int = 2  # how many disturbed samples of a benchmark are taken again
    patience: float = 10.0  # seconds that a sample waits for others to leave the processors alone
    scale: float = 1.0  # of the sizes that the bars are about; less only tells whether it works
    rows: frozenset[str] = frozenset()  # the rows that were asked for

    def size(self, full: int, least: int = 1) -> int:
        """Return a number of jobs, scaled."""
        return max(least, round(full * self.scale))

    def seconds(self, full: float) -> float:
        """Return a duration, scaled but never too short to measure anything."""
        return max(0.3, full * min(1.0, self.scale))

    def wants(self, row: str) -> bool:
        """Tell whether a row was asked for."""
        return row in self.rows


def say(text: str) -> None:
    """Tell how far it is, on standard error: standard output is for the result."""
    print(text, file=sys.stderr, flush=True)
