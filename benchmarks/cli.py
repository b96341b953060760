"""The command line: `python -m benchmarks`, with the name of a benchmark, or check engine, or report."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import database, figures, report, saving
from . import options as shared
from .catalogue import CHECKS, COMMANDS, ENGINE, ROWS, Benchmark, chosen
from .failures import BROKEN_OFF, in_a_line
from .figures import Figure
from .plan import Plan, say


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status: 0 done, 1 a checked row falls short."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if any(argument.split("=")[0] == "--peers" for argument in arguments):
        from .peers import cli as peers

        return peers.main(arguments)
    options = _parser().parse_args(arguments)
    if options.command == "report":
        report.write(options.results or report.saved(), options.output)
        return 0
    benchmarks = CHECKS[options.suite] if options.command == "check" else _of_command(options.command)
    known = {row for benchmark in benchmarks for row in benchmark.rows}
    if unknown := sorted(set(options.only) - known):
        _parser().error(f"no such row here: {', '.join(unknown)}; there are {', '.join(sorted(known))}")
    if options.merge and not options.save:
        _parser().error("--merge needs --save FILE")
    try:
        results = run(benchmarks, options)
    except saving.NotAlike as error:
        _parser().error(f"--merge: {error}")
    found = [figures.from_json(row) for row in results["rows"]]
    print(json.dumps(results, indent=1) if options.json else figures.table(found))
    short = figures.short(found)
    if short and options.command == "check":
        say(f"falls short: {', '.join(short)}")
        return 1
    return 0


def run(benchmarks: Sequence[Benchmark], options: argparse.Namespace) -> dict[str, Any]:
    """Measure, in a database made for it, and return the results as JSON has them; saved after each benchmark, too."""
    path = Path(options.save) if options.save else None
    earlier = json.loads(path.read_text()) if path and options.merge and path.is_file() else None
    prepare(options.database)
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
    order = [row for benchmark in benchmarks for row in benchmark.rows]
    took: dict[str, int] = {}
    results: dict[str, Any] = {"suite": getattr(options, "suite", ""), "repeats": plan.repeats, "scale": plan.scale}
    if earlier:
        saving.check_alike(earlier, results)  # now, and not after an hour
    with database.own_database(options.database, keep=options.keep):
        results |= {"machine": machine.describe(), "took_seconds": took, "rows": []}
        for benchmark in wanted:
            began = time.monotonic()
            found = _measure(benchmark, plan) if options.command == "check" else benchmark.measure(plan)
            took[benchmark.rows[0]] = round(time.monotonic() - began)
            results["rows"] += [figure.to_json() for figure in found]
            if path:
                saving.save(saving.merged(earlier, results, order) if earlier else results, path)
            say(f"{', '.join(benchmark.rows)}: took {took[benchmark.rows[0]]} s")
    return results


def prepare(name: str) -> None:
    """Set up Django on the benchmarks' settings, and find or start the server; the database itself is made later."""
    # As with Ctrl-C, no worker and no database may be left behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.settings"
    os.environ[database.NAME_VARIABLE] = name
    database.server_url()
    import django

    django.setup()


def _measure(benchmark: Benchmark, plan: Plan) -> list[Figure]:
    """Measure the rows of one benchmark; one that breaks off leaves rows that do not hold, and the others go on."""
    try:
        return benchmark.measure(plan)
    except BROKEN_OFF as error:
        say(f"{', '.join(benchmark.rows)}: broke off: {error}")
        reason = f"broke off: {type(error).__name__}: {in_a_line(error)[:300]}"
        return [figures.not_measured(row, reason) for row in benchmark.rows if plan.wants(row)]


def _of_command(command: str) -> list[Benchmark]:
    return [benchmark for benchmark in ENGINE if benchmark.command == command]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure the product beside bare SQL; beside its peers with --peers (see --peers all --help).",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for command in COMMANDS:
        _add_options(commands.add_parser(command, help=f"measure {command} and show the figures"), _rows_of(command))
    check = commands.add_parser("check", help="measure all rows of a table; status 1 when one falls short")
    check.add_argument("suite", choices=sorted(CHECKS))
    _add_options(check, ROWS)
    writer = commands.add_parser("report", help="write docs/benchmarks.md from saved results")
    writer.add_argument("results", nargs="*", type=Path, help="default: what is saved in benchmarks/")
    writer.add_argument("--output", type=Path, default=report.PAGE, help="default: %(default)s")
    return parser


def _rows_of(command: str) -> tuple[str, ...]:
    return tuple(row for benchmark in _of_command(command) for row in benchmark.rows)


def _add_options(parser: argparse.ArgumentParser, rows: Sequence[str]) -> None:
    parser.add_argument("--only", action="append", default=[], choices=rows, help="one row only; may be repeated")
    shared.add_options(parser, retakes=2, database=database.DEFAULT_NAME, saved="benchmark")
    parser.add_argument("--merge", action="store_true", help="into that file: its rows of earlier runs are kept there")
    parser.add_argument("--scale", type=float, default=1.0, help="of the sizes; less than 1 only shows that it works")
    parser.add_argument("--keep", action="store_true", help="leave the database as it is at the end")


if __name__ == "__main__":
    sys.exit(main())
