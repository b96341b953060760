"""What a benchmark returns: named figures, each with its bar where it has one, and how they are shown."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One row of a table: a median with its bar, and the samples that it comes from."""

    row: str  # the name that --only takes
    work: str  # what was measured, in words
    value: float
    unit: Literal["%", "x", "ms", "MB"]
    bar: float
    better: Literal["higher", "lower"]
    product: str  # the product's own figure, for people
    limit: str = ""  # what it is compared with, for people
    samples: dict[str, list[float]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    noise: float = 0.0  # the largest share of the processors that others took during a sample

    @property
    def holds(self) -> bool:
        """Whether the bar is met."""
        return self.value >= self.bar if self.better == "higher" else self.value <= self.bar

    def to_json(self) -> dict[str, Any]:
        """Return the figure as JSON has it."""
        return {**dataclasses.asdict(self), "holds": self.holds}


def from_json(values: dict[str, Any]) -> Figure:
    """Return the figure that to_json() wrote."""
    return Figure(**{name: value for name, value in values.items() if name != "holds"})


def short(figures: Sequence[Figure]) -> list[str]:
    """Return the rows that miss their bar."""
    return [figure.row for figure in figures if not figure.holds]


def median(values: Sequence[float]) -> float:
    """Return the middle value."""
    return statistics.median(values)


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least this share (0 to 1) of the values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, min(len(ordered), -int(-share * len(ordered) // 1)) - 1)]


def rate(values: Sequence[float]) -> str:
    """Write a median rate with its spread."""
    return f"{median(values):,.0f}/s ({min(values):,.0f} to {max(values):,.0f})"


def milliseconds(values: Sequence[float]) -> str:
    """Write a median time with its spread."""
    return f"{median(values):.2f} ms ({min(values):.2f} to {max(values):.2f})"


def megabytes(values: Sequence[float]) -> str:
    """Write a median size with its spread."""
    return f"{median(values):.1f} MB ({min(values):.1f} to {max(values):.1f})"


def number(value: float, unit: str) -> str:
    """Write a value with its unit."""
    return {"%": f"{value:.0f} %", "x": f"{value:.2f} x", "ms": f"{value:.2f} ms", "MB": f"{value:.1f} MB"}[unit]


def bar(figure: Figure) -> str:
    """Write what must hold."""
    return ("≥ " if figure.better == "higher" else "≤ ") + f"{figure.bar:g} {figure.unit}"


def table(figures: Sequence[Figure]) -> str:
    """Return the figures as a table for a terminal, with the notes below."""
    head = ("row", "is", "must be", "holds", "product", "against", "noise")
    lines = [
        (f.row, number(f.value, f.unit), bar(f), "yes" if f.holds else "NO", f.product, f.limit, f"{f.noise:.0%}")
        for f in figures
    ]
    widths = [max(len(line[column]) for line in (head, *lines)) for column in range(len(head))]
    shown = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in (head, *lines)]
    notes = [f"{figure.row}: {note}" for figure in figures for note in figure.notes]
    return "\n".join(line.rstrip() for line in [*shown, *([""] if notes else []), *notes])
