"""Print the figures of the moment: `manage.py jobqueue_ops [--json]`."""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import CommandParser

from jobqueue.management.database import DatabaseCommand, one_line_errors
from jobqueue.ops.snapshot import FIGURES, Snapshot

LABELS = {
    "pending": "pending",
    "running": "running",
    "done": "done",
    "dead": "dead letters",
    "dead_1h": "dead letters of the last hour",
    "stuck_running": "stuck running",
    "oldest_pending_sec": "oldest pending (s)",
    "deadline_1h": "deadlines missed in the last hour",
    "cost_1h_usd": "cost of the last hour (USD)",
}


class Command(DatabaseCommand):
    """Print how the queue stands, as a table for people or as JSON for monitors."""

    help = (
        "Print the figures of the moment. A count that stopped at its cap is shown as >=, one that took too long as "
        "unknown. Exit codes: 0 printed, 1 the database is away, 2 wrong options."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the options."""
        super().add_arguments(parser)
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        """Take a snapshot and print it."""
        manager = self.manager(options)
        with one_line_errors():
            taken = manager.ops()
        self.stdout.write(json.dumps(taken.to_json()) if options["json"] else table(taken))


def table(taken: Snapshot) -> str:
    """Return the figures as lines, the numbers in one column."""
    shown = {LABELS[name]: figure(taken, name) for name in FIGURES}
    label, number = max(map(len, shown)), max(map(len, shown.values()))
    return "\n".join(f"{name:<{label}}  {value:>{number}}" for name, value in shown.items())


def figure(taken: Snapshot, name: str) -> str:
    """Return one figure in words: ">=10000" at its cap, "unknown" where it took too long."""
    value = getattr(taken, name)
    if name in taken.unknown:
        return "unknown"
    if name == "oldest_pending_sec":
        return f"{value:.1f}"
    if name == "cost_1h_usd":
        return f"{value:f}"
    return f">={value}" if name in taken.capped else str(value)
