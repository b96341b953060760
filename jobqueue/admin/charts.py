"""Bar charts as SVG that the server makes: no script, no inline style; what a bar says is also in the table behind it.

All numbers of a chart are text already: a template would put a comma into 12.5 in many languages, which is no SVG.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, NamedTuple

WIDTH: Final = 720
HEIGHT: Final = 240
LEFT: Final = 64
RIGHT: Final = 8
TOP: Final = 12
BOTTOM: Final = 28
#: So many bars have a label below them at most.
LABELS: Final = 8
LEAST: Final = 2.0  # pixels of a bar that is not quite nothing


class Value(NamedTuple):
    """One value of a chart: what is written below its bar, what the bar says when pointed at, how high it is."""

    label: str
    text: str
    amount: Decimal


class Bar(NamedTuple):
    """One bar, in pixels."""

    x: str
    y: str
    width: str
    height: str
    text: str


class Mark(NamedTuple):
    """A line of the grid, or a label of the axis below, with its place in pixels."""

    at: str
    text: str
    zero: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A bar chart for the template chart.html; the title and the description are its name for those who hear it."""

    name: str  # unique on its page
    title: str
    description: str
    bars: Sequence[Bar]
    levels: Sequence[Mark]
    labels: Sequence[Mark]
    width: str = str(WIDTH)
    height: str = str(HEIGHT)
    left: str = str(LEFT)
    right: str = str(WIDTH - RIGHT)
    text_left: str = str(LEFT - 6)
    text_bottom: str = str(HEIGHT - 8)


def bar_chart(name: str, *, title: str, description: str, values: Sequence[Value]) -> Chart:
    """Return the chart of some values, the first to the left. Amounts below zero hang from the line of zero."""
    amounts = [0.0, *(float(value.amount) for value in values)]
    low = 0.0 - nice(-min(amounts))
    high = nice(max(amounts)) or (0.0 if low else 1.0)

    def height_of(amount: float) -> float:
        return TOP + (high - amount) / (high - low) * (HEIGHT - TOP - BOTTOM)

    slot = (WIDTH - LEFT - RIGHT) / max(1, len(values))
    levels = sorted({low, low / 2, 0.0, high / 2, high})
    every = math.ceil(len(values) / LABELS) or 1
    # Counted from the last one: that is now.
    labelled = [place for place in range(len(values)) if (len(values) - 1 - place) % every == 0]
    return Chart(
        name=name,
        title=title,
        description=description,
        bars=[_bar(LEFT + slot * place, slot, height_of, value) for place, value in enumerate(values)],
        levels=[Mark(f"{height_of(level):.1f}", short(level), level == 0) for level in levels],
        labels=[Mark(f"{LEFT + slot * (place + 0.5):.1f}", values[place].label) for place in labelled],
    )


def _bar(x: float, slot: float, height_of: Callable[[float], float], value: Value) -> Bar:
    amount = float(value.amount)
    zero, end = height_of(0.0), height_of(amount)
    top, height = min(zero, end), abs(zero - end)
    if value.amount and height < LEAST:  # to be seen at all
        top, height = (zero - LEAST if amount > 0 else zero), LEAST
    return Bar(f"{x + slot * 0.12:.1f}", f"{top:.1f}", f"{slot * 0.76:.1f}", f"{height:.1f}", value.text)


def nice(amount: float) -> float:
    """Return the next of 1, 2, 2.5 and 5 times a power of ten."""
    if amount <= 0 or not math.isfinite(amount):
        return 0.0
    power = 10.0 ** math.floor(math.log10(amount))
    return next(power * step for step in (1, 2, 2.5, 5, 10) if power * step >= amount * (1 - 1e-12))


def short(amount: float) -> str:
    """Return a level of the grid in few characters: 0, 0.25, 1500, 2.5M, 1e-07."""
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if abs(amount) >= size:
            return f"{amount / size:g}{letter}"
    return f"{amount:g}"


def share_width(share: float, width: int) -> str:
    """Return how much of so many pixels a share has, for a bar beside its text; never beyond its end."""
    return f"{max(0.0, min(1.0, share)) * width:.1f}"
