"""Tables, times and sizes as people read them in a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

UNKNOWN: Final = "?"
NONE: Final = "-"

BYTES: Final = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1) -> str:
    """Return rows under their heads, in columns; the first so many are words, the others numbers."""
    lines = [[printable(cell) for cell in line] for line in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if number < left else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def duration(seconds: float | None) -> str:
    """Return a time in two digits or so: 15ms, 2.5s, 40s, 12m, 3.2h, 5d."""
    if seconds is None:
        return NONE
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms" if seconds else "0s"
    for limit, size, unit in ((60, 1, "s"), (3_600, 60, "m"), (86_400, 3_600, "h")):
        if seconds < limit:
            return f"{_short(seconds / size)}{unit}"
    return f"{_short(seconds / 86_400)}d"


def size(bytes_: float | None) -> str:
    """Return a size in bytes: 512 B, 1.5 MB."""
    if bytes_ is None:
        return NONE
    for unit, name in BYTES:
        if bytes_ >= unit:
            return f"{_short(bytes_ / unit)} {name}"
    return f"{bytes_:.0f} B"


def rate(per_second: float | None) -> str:
    """Return a rate: 0, 0.25, 12, 3400."""
    return NONE if per_second is None else f"{per_second:.0f}" if per_second >= 9.95 else f"{per_second:.2g}"


def share(part: float | None) -> str:
    """Return a share as a percentage."""
    return NONE if part is None else f"{100 * part:.2g}%" if part < 0.1 else f"{100 * part:.0f}%"


def _short(number: float) -> str:
    return f"{number:.1f}" if number < 9.95 else f"{number:.0f}"


def printable(text: str) -> str:
    """Return a text without what would steer the terminal: names come from whoever enqueues."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
