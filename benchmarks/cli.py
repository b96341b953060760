"""The command line: `python -m benchmarks`, with the name of a benchmark, or check engine, or report."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import database, figures, report
from .catalogue import CHECKS, COMMANDS, ENGINE, ROWS, Benchmark, chosen
from .figures import Figure
from .plan import Plan, say


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status: 0 done, 1 a checked row falls short."""
    options = _parser().parse_args(arguments)
    if options.command == "report":
        report.write(options.results, options.output)
        return 0
    benchmarks = CHECKS[options.suite] if options.command == "check" else _of_command(options.command)
    results = run(benchmarks, options)
    found = [figures.from_json(row) for row in results["rows"]]
    text = json.dumps(results, indent=1)
    print(text if options.json else figures.table(found))
    if options.save:
        Path(options.save).write_text(text + "\n")
    short = figures.short(found)
    if short and options.command == "check":
        say(f"falls short: {', '.join(short)}")
        return 1
    return 0


def run(benchmarks: Sequence[Benchmark], options: argparse.Namespace) -> dict[str, Any]:
    """Measure, in a database made for it, and return the results as JSON has them."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.settings"
    os.environ[database.NAME_VARIABLE] = options.database
    database.server_url()
    import django

    django.setup()
    from . import machine

    wanted = chosen(benchmarks, options.only)
    rows = options.only or [row for benchmark in wanted for row in benchmark.rows]
    plan = Plan(
        repeats=options.repeats,
        retakes=options.retakes,
        patience=options.patience,
        scale=options.scale,
        rows=frozenset(rows),
    )
    found: list[Figure] = []
    with database.own_database(options.database, keep=options.keep):
        about = machine.describe()
        for benchmark in wanted:
            found += benchmark.measure(plan)
    return {
        "machine": about,
        "repeats": plan.repeats,
        "scale": plan.scale,
        "rows": [figure.to_json() for figure in found],
    }


def _of_command(command: str) -> list[Benchmark]:
    return [benchmark for benchmark in ENGINE if benchmark.command == command]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure the product beside bare SQL.")
    commands = parser.add_subparsers(dest="command", required=True)
    for command in COMMANDS:
        _add_options(commands.add_parser(command, help=f"measure {command} and show the figures"), _rows_of(command))
    check = commands.add_parser("check", help="measure all rows of a table; status 1 when one falls short")
    check.add_argument("suite", choices=sorted(CHECKS))
    _add_options(check, ROWS)
    writer = commands.add_parser("report", help="write docs/benchmarks.md from saved results")
    writer.add_argument("results", nargs="?", type=Path, default=report.RESULTS, help="default: %(default)s")
    writer.add_argument("--output", type=Path, default=report.PAGE, help="default: %(default)s")
    return parser


def _rows_of(command: str) -> tuple[str, ...]:
    return tuple(row for benchmark in _of_command(command) for row in benchmark.rows)


def _add_options(parser: argparse.ArgumentParser, rows: Sequence[str]) -> None:
    parser.add_argument("--only", action="append", default=[], choices=rows, help="one row only; may be repeated")
    parser.add_argument("--repeats", type=int, default=3, help="samples of each kind (default: %(default)s)")
    parser.add_argument("--scale", type=float, default=1.0, help="of the sizes; less than 1 only shows that it works")
    parser.add_argument("--retakes", type=int, default=2, help="of disturbed samples (default: %(default)s)")
    parser.add_argument(
        "--patience",
        type=float,
        default=10,
        help="seconds to wait for a quiet machine before each (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    parser.add_argument("--save", metavar="FILE", help="write the JSON to a file, too")
    parser.add_argument(
        "--database", default=database.DEFAULT_NAME, help="made new, dropped after (default: %(default)s)"
    )
    parser.add_argument("--keep", action="store_true", help="leave the database as it is at the end")


if __name__ == "__main__":
    sys.exit(main())
