"""Print the figures of the moment: `manage.py jobqueue_ops [--json] [--watch [SECONDS]]`."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final

from django.core.management.base import CommandError, CommandParser

from jobqueue.management.database import DatabaseCommand, one_line_errors
from jobqueue.management.durations import duration
from jobqueue.management.telling import tell
from jobqueue.managers import JobManager
from jobqueue.ops.snapshot import Snapshot, take_snapshot

WATCH: Final = timedelta(seconds=2)
PATIENCE: Final = 4.0  # the first look of a process, and of a connection, takes longer than all later ones
CLEAR: Final = "\x1b[H\x1b[2J"


class Command(DatabaseCommand):
    """Print how the queues, the workers and the database stand, as tables for people or as JSON for monitors."""

    help = (
        "Print the figures of the moment. A count that stopped at its cap is shown as >=, one that took too long as "
        "unknown. Exit codes: 0 printed, 1 the database is away, 2 wrong options."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the options."""
        super().add_arguments(parser)
        parser.add_argument("--json", action="store_true", help="print one JSON object, with --watch one a line")
        parser.add_argument(
            "--watch",
            nargs="?",
            type=duration,
            const=WATCH,
            metavar="SECONDS",
            help="print again and again until Ctrl-C, every 2 s unless told",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Take a snapshot and print it; with --watch, go on."""
        manager = self.manager(options)
        if options["watch"] is None:
            taken = take(manager)
            if taken.error:
                raise CommandError(f"the database does not answer: {taken.error}")
            self.stdout.write(shown(taken, as_json=options["json"]))
            return
        with suppress(KeyboardInterrupt):
            self._watch(manager, max(options["watch"].total_seconds(), 0.1), as_json=options["json"])

    def _watch(self, manager: JobManager, seconds: float, *, as_json: bool) -> None:
        clear = CLEAR if self.stdout.isatty() and not as_json else ""
        while True:
            taken = take(manager)
            gone = f"the database does not answer: {taken.error}" if taken.error and not as_json else ""
            self.stdout.write(clear + (gone or shown(taken, as_json=as_json)) + ("" if clear or as_json else "\n"))
            self.stdout.flush()
            time.sleep(seconds)


def take(manager: JobManager) -> Snapshot:
    """Return the figures of this moment. Raises CommandError for wrong settings."""
    with one_line_errors():
        return take_snapshot(manager, fresh=True, patience=PATIENCE)


def shown(taken: Snapshot, *, as_json: bool) -> str:
    """Return a snapshot as text or as one line of JSON."""
    return json.dumps(taken.to_json()) if as_json else tell(taken)
