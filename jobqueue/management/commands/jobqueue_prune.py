"""Delete finished jobs past their retention: `manage.py jobqueue_prune [--dry-run]`."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

from django.core.management.base import CommandError, CommandParser

from jobqueue.maintenance.prune import BATCH, Prune, Pruned, retentions
from jobqueue.management.database import DatabaseCommand, one_line_errors
from jobqueue.management.durations import duration
from jobqueue.managers import JobManager
from jobqueue.models.expressions import StatementTimestamp
from jobqueue.states import FINISHED, Status

STATUSES = {status.name.lower(): status for status in FINISHED}


class Command(DatabaseCommand):
    """Delete finished jobs with their attempts, in small batches, by the retention of the settings or by an age."""

    help = (
        "Delete finished jobs past their retention (JOBQUEUE RETENTION_..._SECONDS), in small committed batches, and "
        "print how many by status. Workers do the same by themselves; statistics and costs are kept. Exit codes: "
        "0 done, 1 the database is away, 2 wrong options, 3 stopped at --limit or --max-seconds with more to delete."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the options."""
        super().add_arguments(parser)
        parser.add_argument("--dry-run", action="store_true", help="print how many would be deleted, delete none")
        parser.add_argument("--status", choices=sorted(STATUSES), help="only jobs of this status")
        parser.add_argument("--older-than", type=duration, help="age to delete from instead of the retention: 7d, 12h")
        parser.add_argument("--limit", type=int, help="delete at most so many jobs")
        parser.add_argument("--max-seconds", type=float, help="stop after so many seconds")

    def handle(self, *args: Any, **options: Any) -> None:
        """Count or delete, and print the counts."""
        manager, ages = self.manager(options), self._ages(options)
        if not ages:
            self.stdout.write("Nothing is deleted: the retention keeps every status for good (see --older-than).")
            return
        with one_line_errors():
            if options["dry_run"]:
                self._print({status: _older(manager, status, age) for status, age in ages.items()}, "would be deleted")
                return
            pruned, more = prune(manager, ages, limit=options["limit"], max_seconds=options["max_seconds"])
        self._print(pruned.deleted, "deleted")
        if pruned.kept:
            some = ", ".join(f"#{job_id}" for job_id in pruned.kept[:5])
            self.stdout.write(f"{len(pruned.kept)} kept: a foreign key of the project refers to them, such as {some}")
        if more:
            self.stdout.write("Stopped at the limit that was given: there is more to delete.")
            raise SystemExit(3)

    def _ages(self, options: dict[str, Any]) -> dict[Status, timedelta]:
        if options["limit"] is not None and options["limit"] < 1:
            raise CommandError("--limit must be at least 1", returncode=2)
        if options["max_seconds"] is not None and options["max_seconds"] <= 0:
            raise CommandError("--max-seconds must be above 0", returncode=2)
        with one_line_errors():
            ages = retentions()
        if options["older_than"] is not None:
            # Dead letters wait for people: without being named they go by their retention only.
            named = [options["status"]] if options["status"] else ["done", "cancelled"]
            ages |= {STATUSES[name]: options["older_than"] for name in named}
        return {status: age for status, age in ages.items() if options["status"] in (None, status.name.lower())}

    def _print(self, counts: dict[Status, int], what: str) -> None:
        for status, jobs in counts.items():
            self.stdout.write(f"{status.name.lower():<10} {jobs:>10}")
        self.stdout.write(f"{'all':<10} {sum(counts.values()):>10}  {what}")


def prune(
    manager: JobManager, ages: dict[Status, timedelta], *, limit: int | None, max_seconds: float | None
) -> tuple[Pruned, bool]:
    """Delete batch by batch up to the bounds. Returns (what was deleted and kept, whether a bound stopped it)."""
    ends_at = None if max_seconds is None else time.monotonic() + max_seconds
    pruned, left = Pruned(dict.fromkeys(ages, 0)), limit
    for status, age in ages.items():
        service = Prune(manager.run_sql, ages={status: age})
        while True:
            take = BATCH if left is None else min(BATCH, left)
            if take == 0 or (ends_at is not None and time.monotonic() >= ends_at):
                return pruned, _older(manager, status, age, kept=service.kept, at_most=1) > 0
            kept = len(service.kept)
            deleted = sum(service.run_once(limit=take).values())
            pruned.deleted[status] += deleted
            left = None if left is None else left - deleted
            if deleted == 0 and len(service.kept) == kept:
                break
        pruned.kept += sorted(service.kept)
    return pruned, False


def _older(
    manager: JobManager, status: Status, age: timedelta, *, kept: set[int] | None = None, at_most: int | None = None
) -> int:
    rows = manager.filter(status=status, finished_at__lt=StatementTimestamp() - age).exclude(pk__in=kept or ())
    return rows.order_by()[:at_most].count()
