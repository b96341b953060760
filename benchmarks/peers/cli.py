"""`python -m benchmarks --peers …`: other queues and this one at the same work, on one server, in one run."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import database
from benchmarks import options as shared
from benchmarks.plan import Plan, say
from benchmarks.saving import save

from . import catalogue, run, table
from .works import WORKS


def main(arguments: Sequence[str]) -> int:
    """Measure, and show. Returns 0, or 1 where not one row has a figure."""
    options = _parser().parse_args(arguments)
    try:
        entries, works = catalogue.entries(options.peers), _works(options.work)
    except ValueError as error:
        _parser().error(str(error))
    rows, results = measure(entries, works, options)
    print(json.dumps(results, indent=1) if options.json else table.table(rows))
    if options.svg:
        from benchmarks import charts  # only here: it is needed by nothing else

        for path in charts.write(results["rows"], Path(options.svg)):
            say(f"drawn: {path}")
    return 0 if any(row.values for row in rows) else 1


def measure(
    entries: Sequence[catalogue.Entry], works: Sequence[str], options: argparse.Namespace
) -> tuple[list[run.Row], dict[str, Any]]:
    """Return the rows that were measured, and all of it as JSON has it; saved after each work, too."""
    from benchmarks.cli import prepare

    prepare(options.database)
    from benchmarks import machine

    plan = Plan(repeats=options.repeats, retakes=options.retakes, patience=options.patience)
    with database.own_database(options.database):
        results = {
            "machine": machine.describe(),
            "repeats": plan.repeats,
            "workers": options.workers,
            "jobs": options.jobs,
            "seconds": options.seconds,
        }

        def keep(rows: Sequence[run.Row]) -> None:
            results["rows"] = [row.to_json() for row in rows]
            if options.save:
                save(results, Path(options.save))

        rows = run.measure(
            entries,
            works,
            plan,
            workers=options.workers,
            jobs=options.jobs,
            seconds=options.seconds,
            which=options.settings,
            keep=keep,
        )
    return rows, results


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
    shared.add_options(parser, retakes=1, database="jobqueue_peers", saved="work")
    parser.add_argument("--svg", metavar="FOLDER", help="draw the charts into a folder, too")
    return parser
