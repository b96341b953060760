"""The rows of a run as a table for a terminal: a table a work, the best first, and what was run below."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.figures import median

from .run import Row

RATES = ("jobs/s", "finished/s")
ERROR_CHARACTERS = 160


def table(rows: Sequence[Row]) -> str:
    """Return the tables of all works, with versions and settings of the peers below."""
    works = list(dict.fromkeys(row.work for row in rows))
    parts = [_of_work(work, ordered([row for row in rows if row.work == work])) for work in works]
    return "\n\n".join([*parts, "\n".join(about(rows))])


def ordered(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of one work, the best first and those without figures last."""

    def key(row: Row) -> tuple[bool, float]:
        name = next(iter(row.values), "")
        value = median(row.values[name]) if name else 0.0
        return not row.values, -value if name.endswith("/s") else value

    return sorted(rows, key=key)


def about(rows: Sequence[Row]) -> list[str]:
    """Return a line a peer and kind of settings: what it is, and how it was run."""
    lines = {}
    for row in rows:
        if row.about:
            versions = ", ".join(f"{name} {version}" for name, version in row.about["versions"].items())
            lines[row.peer, row.tuned] = (
                f"{_name(row)}: {row.about['settings']} ({versions}; Python {row.about['python']})"
            )
    return list(lines.values())


def cell(name: str, values: Sequence[float]) -> str:
    """Write a median with its spread."""
    digits = 0 if name.endswith("/s") and median(values) >= 100 else 2
    middle = f"{median(values):,.{digits}f}"
    return middle if len(values) == 1 else f"{middle} ({min(values):,.{digits}f} to {max(values):,.{digits}f})"


def _of_work(work: str, rows: Sequence[Row]) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row.values))
    head = (work, *names, "jobs", "noise", "")
    lines = [head, *(_line(row, names) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head) - 1)]
    shown = []
    for line in lines:
        cells = [text.ljust(width) for text, width in zip(line, widths, strict=False)]
        shown.append("  ".join([*cells, line[-1]]).rstrip())
    return "\n".join(shown)


def _line(row: Row, names: Sequence[str]) -> tuple[str, ...]:
    figures = [cell(name, row.values[name]) if name in row.values else "-" for name in names]
    if not row.values:
        return (_name(row), *figures, "", "", row.error.replace("\n", " ")[-ERROR_CHARACTERS:])
    jobs = f"{max(row.jobs):,}"
    return (_name(row), *figures, jobs, f"{row.noise:.0%}", "; ".join(row.notes[:1]))


def _name(row: Row) -> str:
    return f"{row.peer} tuned" if row.tuned else row.peer
