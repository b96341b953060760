"""Bar charts of what peers did, as SVG files: the figures are written beside the bars, so that no axis is needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple
from xml.sax.saxutils import escape

from .figures import median
from .peers.catalogue import OURS

WIDTH: Final = 760
ROW: Final = 24
TOP: Final = 58
LABELS: Final = 190  # pixels for the names on the left
FIGURES: Final = 190  # and for the figures on the right
LEAST: Final = 1.0
OWN_COLOUR, OTHER_COLOUR, TUNED_COLOUR, LINE_COLOUR = "#0b6e4f", "#9aa5b1", "#64748b", "#1f2933"


class Bar(NamedTuple):
    """One bar: a median, with a thin line from the least to the most that was measured."""

    label: str
    values: Sequence[float]
    colour: str = OTHER_COLOUR


class Title(NamedTuple):
    """What a chart shows, and how it is told: the unit as it follows a number."""

    text: str
    unit: str
    better: Literal["higher", "lower"] = "higher"
    digits: int = 0


#: The charts: of a work's value, by the file's name. {workers} is told in the title where it says so.
CHARTS: Final[dict[tuple[str, str], Title]] = {
    ("drain", "jobs/s"): Title("No-ops drained in a second, {workers}", "/s"),
    ("enqueue", "jobs/s"): Title("Jobs enqueued one by one in a second, a commit each", "/s"),
    ("bulk", "jobs/s"): Title("Jobs enqueued in bulk in a second", "/s"),
    ("latency", "p50 ms"): Title("From enqueued to started by an idle worker, the middle one", " ms", "lower", 2),
    ("latency", "p99 ms"): Title("From enqueued to started by an idle worker, 99 of 100", " ms", "lower", 2),
    ("mixed", "finished/s"): Title("Jobs finished in a second while others are enqueued one by one", "/s"),
    ("backlog", "jobs/s"): Title("No-ops drained in a second ahead of a long queue", "/s"),
    ("deferred", "jobs/s"): Title("No-ops drained in a second behind many jobs of the future", "/s"),
    ("retained", "jobs/s"): Title("No-ops drained in a second beside finished ones", "/s"),
    ("horizon", "last, jobs/s"): Title("No-ops drained in a second at the end of a held snapshot", "/s"),
}


def write(rows: Sequence[Mapping[str, Any]], folder: Path) -> list[Path]:
    """Write the charts of rows of peers (peers.run.Row, as JSON has it) to a folder, and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, (_, text) in of_rows(rows).items():
        paths.append(folder / f"{name}.svg")
        paths[-1].write_text(text)
    return paths


def of_rows(rows: Sequence[Mapping[str, Any]]) -> dict[str, tuple[str, str]]:
    """Return the charts that can be made of rows: {name: (title, SVG)}, in the order of CHARTS."""
    found = {}
    for (work, value), title in CHARTS.items():
        counts = sorted({row["workers"] for row in rows if row["work"] == work})
        for workers in counts:
            bars = _bars([row for row in rows if (row["work"], row["workers"]) == (work, workers)], value)
            if bars:
                words = "one worker" if workers == 1 else f"{workers} workers"
                told = title._replace(text=title.text.format(workers=words))
                part = f"-{value.removesuffix(' ms')}" if value.endswith(" ms") else ""
                name = f"{work}{part}{f'-{workers}' if len(counts) > 1 else ''}"
                found[name] = (told.text, bar_chart(told, bars))
    return found


def bar_chart(title: Title, bars: Sequence[Bar]) -> str:
    """Return one chart, the best bar on top."""
    ordered = sorted(bars, key=lambda bar: median(bar.values), reverse=title.better == "higher")
    most = max((max(bar.values) for bar in ordered), default=1.0) or 1.0
    scale = (WIDTH - LABELS - FIGURES) / most
    height = TOP + ROW * len(ordered) + 12
    told = "; ".join(f"{bar.label} {_number(median(bar.values), title)}" for bar in ordered)
    better = "longer is better" if title.better == "higher" else "shorter is better"
    rows = [_row(bar, TOP + ROW * place, scale, title) for place, bar in enumerate(ordered)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
        f' role="img" font-family="sans-serif" font-size="13" fill="{LINE_COLOUR}">\n'
        f"<title>{escape(title.text)}</title>\n<desc>{escape(told)}</desc>\n"
        f'<rect width="{WIDTH}" height="{height}" rx="6" fill="#ffffff"/>\n'
        f'<text x="16" y="26" font-size="16" font-weight="bold">{escape(title.text)}</text>\n'
        f'<text x="16" y="45" font-size="12">Medians, with the least and the most; {better}.</text>\n'
        + "".join(rows)
        + "</svg>\n"
    )


def _row(bar: Bar, top: int, scale: float, title: Title) -> str:
    middle, low, high = median(bar.values), min(bar.values), max(bar.values)
    width, line = max(LEAST, middle * scale), top + ROW // 2 - 1
    bold = ' font-weight="bold"' if bar.colour == OWN_COLOUR else ""
    figure = f"{_number(middle, title)} ({_number(low, title, unit=False)} to {_number(high, title, unit=False)})"
    return (
        f'<text x="{LABELS - 8}" y="{line + 4}" text-anchor="end"{bold}>{escape(bar.label)}</text>'
        f'<rect x="{LABELS}" y="{top + 3}" width="{width:.1f}" height="{ROW - 8}" fill="{bar.colour}"/>'
        f'<path d="M{LABELS + low * scale:.1f} {line}H{LABELS + high * scale:.1f}" stroke="{LINE_COLOUR}"/>'
        f'<text x="{LABELS + max(width, high * scale) + 8:.1f}" y="{line + 4}" font-size="12">{escape(figure)}</text>\n'
    )


def _bars(rows: Sequence[Mapping[str, Any]], value: str) -> list[Bar]:
    return [
        Bar(
            f"{row['peer']}{', tuned' if row['tuned'] else ''}",
            row["values"][value],
            OWN_COLOUR if row["peer"] == OURS else TUNED_COLOUR if row["tuned"] else OTHER_COLOUR,
        )
        for row in rows
        if value in row["values"]
    ]


def _number(value: float, title: Title, *, unit: bool = True) -> str:
    digits = 1 if title.digits == 0 and value < 10 else title.digits
    return f"{value:,.{digits}f}{title.unit if unit else ''}"
