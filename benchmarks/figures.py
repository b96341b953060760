"""What a benchmark returns: named figures, each with its bar where it has one, and how they are shown."""

from __future__ import annotations

import dataclasses
import math
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
    unit: Literal["%", "x", "ms", "MB", "/s", "of them"]
    bar: float | None  # None: only told
    better: Literal["higher", "lower"]
    product: str  # the product's own figure, for people
    limit: str = ""  # what it is compared with, for people
    samples: dict[str, list[float]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    noise: float = 0.0  # the largest share of the processors that others took during a sample

    @property
    def holds(self) -> bool:
        """Whether the bar is met, if there is one; a value that could not be measured (NaN) meets none."""
        if self.bar is None:
            return not math.isnan(self.value)
        return self.value >= self.bar if self.better == "higher" else self.value <= self.bar

    def to_json(self) -> dict[str, Any]:
        """Return the figure as JSON has it."""
        values = dataclasses.asdict(self)
        nan = [name for name in ("value", "bar") if values[name] is not None and math.isnan(values[name])]
        return {**values, **dict.fromkeys(nan, "NaN"), "holds": self.holds}  # JSON has no NaN


def not_measured(row: str, reason: str) -> Figure:
    """Return the figure of a row that has none, and so does not hold."""
    return Figure(
        row=row, work=reason, value=math.nan, unit="%", bar=math.nan, better="higher", product="", notes=[reason]
    )


def from_json(values: dict[str, Any]) -> Figure:
    """Return the figure that to_json() wrote."""
    given: dict[str, Any] = {name: math.nan if value == "NaN" else value for name, value in values.items()}
    del given["holds"]
    return Figure(**given)


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
    if math.isnan(value):
        return "not measured"
    digits = {"%": 2 if abs(value) < 2 else 0, "x": 2, "ms": 2, "MB": 1}.get(unit, 1 if value < 10 and value % 1 else 0)
    return f"{value:,.{digits}f} {unit}".removesuffix(" of them").replace(" /s", "/s")


def bar(figure: Figure) -> str:
    """Write what must hold."""
    if figure.bar is None:
        return "told"
    if math.isnan(figure.bar):
        return "-"
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
