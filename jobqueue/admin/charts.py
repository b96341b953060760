"""Charts as SVG that the server makes: no script, no inline style; what a bar says is also in the table behind it.

Bars, or lines that differ by their dashes and the shape of their points; marks stand for moments, such as deploys.

All numbers of a chart are text already: a template would put a comma into 12.5 in many languages, which is no SVG.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, NamedTuple

WIDTH: Final = 720
NARROW: Final = 480  # of a chart that stands beside others
HEIGHT: Final = 240
LEFT: Final = 64
RIGHT: Final = 8
TOP: Final = 12
BOTTOM: Final = 28
#: So many pixels there are for a label below, at least.
LABEL: Final = 80
#: Between two marks there are so many pixels at least, or they have one text.
MARK: Final = 24
LEAST: Final = 2.0  # pixels of a bar that is not quite nothing


class Value(NamedTuple):
    """One value of a chart: what is written below its bar, what the bar says when pointed at, how high it is."""

    label: str
    text: str
    amount: Decimal
    partial: bool = False  # of a period that is not over yet


class Bar(NamedTuple):
    """One bar, in pixels."""

    x: str
    y: str
    width: str
    height: str
    text: str
    partial: bool = False


class Series(NamedTuple):
    """One line of a chart: its name, and a value a place; None where there is none."""

    name: str
    values: Sequence[Value | None]


class Spot(NamedTuple):
    """One value of a line, in pixels."""

    x: str
    y: str
    text: str


class Line(NamedTuple):
    """One line: its number from 0, which its dashes and shapes go by, its pieces as SVG has them, its values."""

    number: int
    name: str
    pieces: Sequence[str]
    spots: Sequence[Spot]


class Mark(NamedTuple):
    """A line of the grid, or a label of the axis below, with its place in pixels."""

    at: str
    text: str
    zero: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A chart for the template chart.html; the title and the description are its name for those who hear it."""

    name: str  # unique on its page
    title: str
    description: str
    bars: Sequence[Bar]
    levels: Sequence[Mark]
    labels: Sequence[Mark]
    lines: Sequence[Line] = ()
    marks: Sequence[Mark] = ()  # upright lines, with a short text at their upper end
    top: str = str(TOP)
    bottom: str = str(HEIGHT - BOTTOM)
    text_top: str = str(TOP - 2)
    width: str
    right: str
    height: str = str(HEIGHT)
    left: str = str(LEFT)
    text_left: str = str(LEFT - 6)
    text_bottom: str = str(HEIGHT - 8)


def bar_chart(
    name: str,
    *,
    title: str,
    description: str,
    values: Sequence[Value],
    marks: Sequence[tuple[float, str]] = (),
    width: int = WIDTH,
) -> Chart:
    """Return the chart of some values, the first to the left. Amounts below zero hang from the line of zero.

    A mark is (where: 1.5 is the middle of the second bar, text).
    """
    frame = _Frame([value.amount for value in values], places=len(values), width=width)
    bars = [_bar(frame.left(place), frame.slot, frame.height_of, value) for place, value in enumerate(values)]
    return Chart(
        name=name,
        title=title,
        description=description,
        bars=bars,
        levels=frame.levels(),
        labels=frame.labels([value.label for value in values]),
        marks=frame.marks(marks),
        width=str(width),
        right=str(width - RIGHT),
    )


def line_chart(
    name: str,
    *,
    title: str,
    description: str,
    labels: Sequence[str],
    series: Sequence[Series],
    marks: Sequence[tuple[float, str]] = (),
    width: int = WIDTH,
) -> Chart:
    """Return the chart of some lines over the same places; a line breaks where it has no value. Marks as for bars."""
    amounts = [value.amount for one in series for value in one.values if value is not None]
    frame = _Frame(amounts, places=len(labels), width=width)
    return Chart(
        name=name,
        title=title,
        description=description,
        bars=(),
        levels=frame.levels(),
        labels=frame.labels(labels),
        lines=[_line(number, one, frame) for number, one in enumerate(series)],
        marks=frame.marks(marks),
        width=str(width),
        right=str(width - RIGHT),
    )


class _Frame:
    """What places and amounts are in pixels."""

    def __init__(self, amounts: Sequence[Decimal], *, places: int, width: int) -> None:
        numbers = [0.0, *(float(amount) for amount in amounts)]
        self._low = 0.0 - nice(-min(numbers))
        self._high = nice(max(numbers)) or (0.0 if self._low else 1.0)
        self._width = width
        self.slot = (width - LEFT - RIGHT) / max(1, places)

    def left(self, place: float) -> float:
        return LEFT + self.slot * place

    def height_of(self, amount: float) -> float:
        return TOP + (self._high - amount) / (self._high - self._low) * (HEIGHT - TOP - BOTTOM)

    def levels(self) -> list[Mark]:
        levels = sorted({self._low, self._low / 2, 0.0, self._high / 2, self._high})
        return [Mark(f"{self.height_of(level):.1f}", short(level), level == 0) for level in levels]

    def labels(self, texts: Sequence[str]) -> list[Mark]:
        every = math.ceil(LABEL / self.slot) or 1
        # Counted from the last one: that is now.
        labelled = [place for place in range(len(texts)) if (len(texts) - 1 - place) % every == 0]
        # The last one would be cut at the edge: its middle is there.
        return [Mark(f"{min(self.left(place + 0.5), self._width - LABEL / 4):.1f}", texts[place]) for place in labelled]

    def marks(self, marks: Sequence[tuple[float, str]]) -> list[Mark]:
        places = [max(LEFT, min(self._width - RIGHT, self.left(place))) for place, _text in marks]
        return [Mark(f"{at:.1f}", text) for at, text in zip(places, _joined(places, marks), strict=True)]


def _joined(places: Sequence[float], marks: Sequence[tuple[float, str]]) -> list[str]:
    """Return the texts of marks: of those that would lie on each other one text, above the first: 1-3."""
    texts = [text for _place, text in marks]
    first = 0
    for number in range(1, len(texts)):
        if places[number] - places[first] >= MARK:
            first = number
        else:
            texts[first], texts[number] = f"{marks[first][1]}-{marks[number][1]}", ""
    return texts


def _line(number: int, one: Series, frame: _Frame) -> Line:
    spots: list[Spot] = []
    pieces: list[list[str]] = [[]]
    for place, value in enumerate(one.values):
        if value is None:
            pieces.append([])
            continue
        x, y = f"{frame.left(place + 0.5):.1f}", f"{frame.height_of(float(value.amount)):.1f}"
        spots.append(Spot(x, y, value.text))
        pieces[-1].append(f"{x},{y}")
    return Line(number, one.name, [" ".join(piece) for piece in pieces if len(piece) > 1], spots)


def _bar(x: float, slot: float, height_of: Callable[[float], float], value: Value) -> Bar:
    amount = float(value.amount)
    zero, end = height_of(0.0), height_of(amount)
    top, height = min(zero, end), abs(zero - end)
    if value.amount and height < LEAST:  # to be seen at all
        top, height = (zero - LEAST if amount > 0 else zero), LEAST
    return Bar(f"{x + slot * 0.12:.1f}", f"{top:.1f}", f"{slot * 0.76:.1f}", f"{height:.1f}", value.text, value.partial)


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
