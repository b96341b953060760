"""Tell by its exit code whether the queue, or one worker of it, is well: `manage.py jobqueue_health`."""

from __future__ import annotations

import json
import sys
from typing import Any

from django.core.management.base import CommandParser

from jobqueue.management.database import DatabaseCommand, one_line_errors
from jobqueue.ops.health import Health, ready, worker_health


class Command(DatabaseCommand):
    """Print what was looked at, and exit by the verdict."""

    help = (
        "Tell whether the queue is ready, or one worker of it (--worker, --name). "
        "Exit codes: 0 well, 1 not well or the database is away, 2 wrong options."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the options."""
        super().add_arguments(parser)
        whose = parser.add_mutually_exclusive_group()
        whose.add_argument("--worker", metavar="ID", help="look at the worker with this id")
        whose.add_argument("--name", help="look at the youngest worker of this name (default: its host's)")
        what = parser.add_mutually_exclusive_group()
        what.add_argument(
            "--live", action="store_true", help="is it heard of? Without a worker: does the database answer?"
        )
        what.add_argument("--ready", action="store_true", help="is it claiming? (the default)")
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        """Look, print, exit."""
        manager = self.manager(options)
        with one_line_errors():
            found = self._look(manager.write_db, options)
        self.stdout.write(json.dumps(found.to_json()) if options["json"] else lines(found))
        if not found.ok:
            sys.exit(1)

    def _look(self, alias: str, options: dict[str, Any]) -> Health:
        if options["worker"] or options["name"]:
            return worker_health(alias, worker_id=options["worker"], name=options["name"], live_only=options["live"])
        return ready(alias, workers=not options["live"])


def lines(found: Health) -> str:
    """Return the verdict and each check on a line of its own."""
    checks = [f"{'ok ' if check.ok else 'BAD'}  {check.name}: {check.detail}" for check in found.checks]
    return "\n".join([*checks, "well" if found.ok else "not well"])
