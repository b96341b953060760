"""Print what jobs cost: `manage.py jobqueue_costs [--since 24h] [--by job_type,owner] [--per day] [--json]`."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from django.core.management.base import CommandError, CommandParser

from jobqueue.management.database import DatabaseCommand, one_line_errors
from jobqueue.management.durations import duration
from jobqueue.management.tables import printable
from jobqueue.ops.costly import costliest_jobs, retry_costs
from jobqueue.ops.costs import PARTS, cost_series, costs_by
from jobqueue.states import status_name

DAY: Final = timedelta(days=1)
Row = dict[str, Any]


class Command(DatabaseCommand):
    """Print exact sums by type, queue, component or owner, by hour, day or month, or the costliest jobs."""

    help = (
        "Print what jobs cost since a while ago, dearest first; units are never added up. "
        "Exit codes: 0 printed, 1 the database is away, 2 wrong options."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the options."""
        super().add_arguments(parser)
        parser.add_argument("--since", type=duration, default=DAY, help="so long ago: 90m, 24h, 30d (default: 24h)")
        parser.add_argument("--by", default="job_type", help=f"any of {','.join(PARTS)} (default: job_type)")
        parser.add_argument("--per", choices=["hour", "day", "month"], help="a sum for each, in TIME_ZONE")
        parser.add_argument("--unit", help="this unit only")
        parser.add_argument("--jobs", type=int, metavar="NUMBER", help="the costliest jobs instead, so many")
        parser.add_argument("--retries", action="store_true", help="what attempts cost that did not end well instead")
        parser.add_argument("--json", action="store_true", help="print one JSON array")

    def handle(self, *args: Any, **options: Any) -> None:
        """Read the sums and print them."""
        by = [part for part in options["by"].split(",") if part]
        if wrong := [part for part in by if part not in PARTS]:
            raise CommandError(f"--by {wrong[0]}: costs are by {', '.join(PARTS)}", returncode=2)
        with one_line_errors():
            rows = _rows(by, self.manager(options).db, options)
        self.stdout.write(json.dumps(rows, default=_as_text) if options["json"] else _table(rows))


def _rows(by: Sequence[Any], alias: str, options: dict[str, Any]) -> list[Row]:
    since, only = options["since"], {"unit": options["unit"]} if options["unit"] else {}
    if options["jobs"] is not None:
        jobs = costliest_jobs(since, limit=max(options["jobs"], 0), using=alias)
        fields = ("id", "job_type", "queue", "owner", "status", "attempts", "cost_total", "cost_last", "at")
        return [{name: getattr(job, name) for name in fields} | {"status": status_name(job.status)} for job in jobs]
    if options["retries"]:
        found = retry_costs(since, using=alias)
        return [
            {"job_type": c.job_type, "spent": c.spent, "failed": c.failed, "share": round(c.share, 4)} for c in found
        ]
    if options["per"]:
        points = cost_series(*by, since=since, per=options["per"], using=alias, **only)
        return [{"from": p.at, **dict(zip(by, p.key, strict=True)), "unit": p.unit, "amount": p.amount} for p in points]
    groups = costs_by(*by, since=since, using=alias, **only)
    return [{**dict(zip(by, g.key, strict=True)), "unit": g.unit, "amount": g.amount} for g in groups]


def _table(rows: Sequence[Row]) -> str:
    if not rows:
        return "nothing"
    cells = [list(rows[0]), *[[_as_cell(value) for value in row.values()] for row in rows]]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    adjust: list[Callable[[str, int], str]] = [
        str.rjust if isinstance(value, Decimal | int) else str.ljust for value in rows[0].values()
    ]
    lines = ["  ".join(how(cell, width) for how, cell, width in zip(adjust, row, widths, strict=True)) for row in cells]
    return "\n".join(line.rstrip() for line in lines)


def _as_cell(value: Any) -> str:
    return value.isoformat(timespec="minutes") if isinstance(value, datetime) else printable(_as_text(value)) or "-"


def _as_text(value: Any) -> str:
    """Return an amount as exact text: a number in JSON would be read as a float."""
    if isinstance(value, datetime):
        return value.isoformat()
    return f"{value:f}" if isinstance(value, Decimal) else str(value)
