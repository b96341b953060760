"""Move waiting tasks of django-tasks-db into jobs: `manage.py jobqueue_adopt_tasks_db --dry-run`."""

from __future__ import annotations

import argparse
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from jobqueue.contrib.tasks_db.adopting import Move, Report
from jobqueue.exceptions import BudgetSpent
from jobqueue.management.database import one_line_errors

MOST_A_BATCH = 10_000


class Command(BaseCommand):
    """Moves what is ready; running tasks are told and left to their worker."""

    help = (
        "Move the ready tasks of django-tasks-db into jobs, a batch a transaction. Stop db_worker first, else it takes "
        "some of them; running ones are left to it. May be repeated. Exit codes: 0 all moved, or a dry run; 1 it could "
        "not be done; 2 wrong options; 3 some are left, each reason is told."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the options."""
        parser.add_argument("--backend", help="only tasks that this alias enqueued (default: all)")
        parser.add_argument("--to", help="the alias of TASKS that gets them (default: the one that enqueued them)")
        parser.add_argument("--batch", type=_batch, default=500, help="rows a transaction (500)")
        parser.add_argument("--dry-run", action="store_true", help="tell what would be done, and change nothing")

    def handle(self, *args: Any, **options: Any) -> None:
        """Move, telling each batch, and report."""
        dry, talks = options["dry_run"], options["verbosity"] > 1
        with one_line_errors():
            move = Move(backend=options["backend"], to=options["to"], batch=options["batch"])
            try:
                report = move.run(dry=dry, told=lambda moved: self.stdout.write(f"{moved} so far") if talks else None)
            except BudgetSpent as error:
                raise CommandError(f"after {move.report.moved} tasks: {error}") from error
        self._tell(report, dry=dry)
        if not dry and (report.left or report.still_ready):
            raise SystemExit(3)

    def _tell(self, report: Report, *, dry: bool) -> None:
        self.stdout.write(f"{report.moved} {'would be moved' if dry else 'moved'}, {report.left.total()} left.")
        for why, number in report.left.most_common():
            self.stdout.write(f"  {number} left, as {report.examples[why]}: {why}")
        busy = 0 if dry else report.still_ready - report.left.total()
        if busy > 0:
            self.stdout.write(f"  {busy} were locked by a worker, or came meanwhile: stop db_worker and repeat.")
        if report.running:
            self.stdout.write(f"  {report.running} are running: they are left to their db_worker.")


def _batch(text: str) -> int:
    number = int(text)
    if not 1 <= number <= MOST_A_BATCH:
        raise argparse.ArgumentTypeError(f"from 1 to {MOST_A_BATCH}, not {number}")
    return number
