"""Results in files: written whole or not at all, the rows of a later run in place of the same ones before."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Results = Mapping[str, Any]
# What rows must have in common to stand in one table.
ALIKE = ("suite", "scale", "repeats")


class NotAlike(ValueError):
    """Two results whose rows do not stand in one table."""


def save(results: Results, path: Path) -> None:
    """Write results to a file. One that is broken off leaves the file as it was."""
    beside = path.with_name(path.name + ".new")
    beside.write_text(json.dumps(results, indent=1) + "\n")
    beside.replace(path)


def runs(results: Results) -> list[dict[str, Any]]:
    """Return the runs that the rows come from, the latest first: the machine of each, and the names of its rows."""
    told: list[dict[str, Any]] | None = results.get("runs")
    return told or [{"machine": results["machine"], "rows": [row["row"] for row in results["rows"]]}]


def check_alike(earlier: Results, later: Results) -> None:
    """Raise NotAlike where the rows of the two are not of one table, or not as big or as often measured."""
    if odd := [name for name in ALIKE if name in earlier and earlier[name] != later[name]]:
        told = ", ".join(f"{name} {earlier[name]!r} and {later[name]!r}" for name in odd)
        raise NotAlike(f"rows of these do not stand in one table: {told}")


def merged(earlier: Results, later: Results, order: Sequence[str]) -> dict[str, Any]:
    """Return the later results with those rows of the earlier ones that were not measured again, in that order."""
    rows = {row["row"]: row for row in (*earlier["rows"], *later["rows"])}
    again = {row["row"] for row in later["rows"]}
    kept = [{**run, "rows": [row for row in run["rows"] if row not in again]} for run in runs(earlier)]
    return {
        **later,
        "took_seconds": {**earlier.get("took_seconds", {}), **later.get("took_seconds", {})},
        "runs": [*(run for run in runs(later) if run["rows"]), *(run for run in kept if run["rows"])],
        "rows": [rows[name] for name in sorted(rows, key=[*order, *rows].index)],
    }
