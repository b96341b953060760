"""`python -m benchmarks --peers …`: other queues and this one at the same work, on one server, in one run."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import database
from benchmarks.plan import Plan, say

from . import catalogue, run, table
from .works import WORKS


def main(arguments: Sequence[str]) -> int:
    """Measure, and show. Returns 0, or 1 where not one row has a figure."""
    options = _parser().parse_args(arguments)
    try:
        entries, works = catalogue.entries(options.peers), _works(options.work)
    except ValueError as error:
        _parser().error(str(error))
    results = measure(entries, works, options)
    rows = results.pop("found")
    text = json.dumps(results, indent=1)
    print(text if options.json else table.table(rows))
    if options.save:
        Path(options.save).write_text(text + "\n")
    if options.svg:
        from benchmarks import charts  # only here: it is needed by nothing else

        for path in charts.write(results["rows"], Path(options.svg)):
            say(f"drawn: {path}")
    return 0 if any(row.values for row in rows) else 1


def measure(entries: Sequence[catalogue.Entry], works: Sequence[str], options: argparse.Namespace) -> dict[str, Any]:
    """Return what was measured as JSON has it, and the rows themselves under "found"."""
    from benchmarks.cli import prepare

    prepare(options.database)
    from benchmarks import machine

    plan = Plan(repeats=options.repeats, retakes=options.retakes, patience=options.patience)
    with database.own_database(options.database):
        about = machine.describe()
        rows = run.measure(
            entries,
            works,
            plan,
            workers=options.workers,
            jobs=options.jobs,
            seconds=options.seconds,
            which=options.settings,
        )
    return {
        "machine": about,
        "repeats": plan.repeats,
        "workers": options.workers,
        "jobs": options.jobs,
        "seconds": options.seconds,
        "rows": [row.to_json() for row in rows],
        "found": rows,
    }


def _works(names: str) -> list[str]:
    wanted = list(WORKS) if names == "all" else [name.strip() for name in names.split(",")]
    unknown = [name for name in wanted if name not in WORKS]
    if unknown:
        raise ValueError(f"no such work: {', '.join(unknown)}; there are {', '.join(WORKS)}")
    return wanted


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure queues side by side: all on one server, each in its own environment, made on demand.",
    )
    parser.add_argument("--peers", required=True, help=f'names with commas, or "all": {", ".join(catalogue.PEERS)}')
    parser.add_argument("--work", default="drain", help=f'names with commas, or "all": {", ".join(WORKS)}')
    parser.add_argument("--workers", type=int, default=1, help="worker processes (default: %(default)s)")
    parser.add_argument("--jobs", type=int, help="default: as many as fill the time, by short runs before")
    parser.add_argument("--seconds", type=float, help="of steady work a sample (default: each work's own, 10 of drain)")
    parser.add_argument(
        "--settings",
        choices=("default", "tuned", "both"),
        default="both",
        help="each peer with its defaults, or the best settings found for it (default: %(default)s)",
    )
    parser.add_argument("--repeats", type=int, default=3, help="samples of each (default: %(default)s)")
    parser.add_argument("--retakes", type=int, default=1, help="of disturbed samples (default: %(default)s)")
    parser.add_argument(
        "--patience",
        type=float,
        default=10,
        help="seconds to wait for a quiet machine before each (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    parser.add_argument("--save", metavar="FILE", help="write the JSON to a file, too")
    parser.add_argument("--svg", metavar="FOLDER", help="draw the charts into a folder, too")
    parser.add_argument("--database", default="jobqueue_peers", help="and its like; dropped after (%(default)s)")
    return parser
