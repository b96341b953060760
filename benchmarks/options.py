"""The options that the benchmarks of the product and those of peers have in common."""

from __future__ import annotations

import argparse


def add_options(parser: argparse.ArgumentParser, *, retakes: int, database: str, saved: str) -> None:
    """Add how often and how patiently is measured, and where the results go: after each `saved`, what there is."""
    parser.add_argument("--repeats", type=int, default=3, help="samples of each (default: %(default)s)")
    parser.add_argument("--retakes", type=int, default=retakes, help="of disturbed samples (default: %(default)s)")
    parser.add_argument(
        "--patience",
        type=float,
        default=10,
        help="seconds to wait for a quiet machine before each (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    parser.add_argument("--save", metavar="FILE", help=f"write the JSON to a file, too, after each {saved}")
    parser.add_argument("--database", default=database, help="made new, dropped after (default: %(default)s)")
