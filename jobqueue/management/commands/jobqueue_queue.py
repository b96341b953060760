"""Pause, resume and list queues: `manage.py jobqueue_queue pause mail --for 2h --reason "the relay is down"`."""

from __future__ import annotations

import argparse
import json
from datetime import datetime, timedelta
from typing import Any, Final

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from jobqueue import operations
from jobqueue.exceptions import InvalidName
from jobqueue.management.database import DatabaseCommand, one_line_errors
from jobqueue.management.durations import duration
from jobqueue.management.logins import login
from jobqueue.management.tables import printable
from jobqueue.managers import JobManager
from jobqueue.ops.queues import PausedQueue, paused_queues

NOT_PAUSED: Final = 3


class Command(DatabaseCommand):
    """Pause a queue in all workers at once, resume it, or list what is paused; audited like the admin's actions."""

    help = (
        "Pause a queue: its jobs wait, those already claimed go on. The name * means all queues but the package's own, "
        "jobqueue. Exit codes: 0 done, 1 the database is away, 2 wrong options, 3 nothing to resume."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the options."""
        super().add_arguments(parser)
        parser.add_argument("action", choices=("pause", "resume", "list"), help="what to do")
        parser.add_argument("name", nargs="?", help="the queue, or * for all (quote it from the shell)")
        parser.add_argument("--reason", default="", help="why: kept with the pause and in the audit")
        parser.add_argument("--until", type=_instant, help="pause until this time: 2030-01-31T08:00, in TIME_ZONE")
        parser.add_argument("--for", type=duration, dest="period", help="pause for so long: 30m, 2h, 7d")
        parser.add_argument("--json", action="store_true", help="list as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        """Do the action and say what holds now."""
        self._check(options)
        manager = self.manager(options)
        if options["action"] == "pause":
            self._pause(manager, options)
        elif options["action"] == "resume":
            self._resume(manager, options)
        else:
            with one_line_errors():
                paused = paused_queues(manager.write_db)
            self.stdout.write(as_json(paused) if options["json"] else table(paused))

    def _check(self, options: dict[str, Any]) -> None:
        action, timed = options["action"], options["until"] is not None or options["period"] is not None
        if (options["name"] is None) != (action == "list"):
            raise CommandError("list takes no name" if action == "list" else f"{action} which queue?", returncode=2)
        if timed and action != "pause":
            raise CommandError("--until and --for belong to pause", returncode=2)
        if options["until"] is not None and options["period"] is not None:
            raise CommandError("--until or --for, not both", returncode=2)

    def _pause(self, manager: JobManager, options: dict[str, Any]) -> None:
        period: timedelta | None = options["period"]
        name, using = options["name"], manager.write_db
        with one_line_errors():
            try:
                until: datetime | None = options["until"] if period is None else timezone.now() + period
                operations.pause_queue(name, actor=_actor(), reason=options["reason"], until=until, using=using)
            except (InvalidName, ValueError, OverflowError) as error:
                raise CommandError(str(error), returncode=2) from error
            self.stdout.write(table([pause for pause in paused_queues(using) if pause.name == name]))

    def _resume(self, manager: JobManager, options: dict[str, Any]) -> None:
        name, using = options["name"], manager.write_db
        with one_line_errors():
            try:
                resumed = operations.resume_queue(name, actor=_actor(), reason=options["reason"], using=using)
            except InvalidName as error:
                raise CommandError(str(error), returncode=2) from error
            others = [pause for pause in paused_queues(using) if pause.holds(name)]
        self.stdout.write(f"{name} is resumed." if resumed else f"{name} was not paused by a pause of its own.")
        for pause in others:
            self.stdout.write(f"It stays paused by the pause of all queues: {table([pause])}")
        if not resumed:
            raise SystemExit(NOT_PAUSED)


def table(paused: list[PausedQueue]) -> str:
    """Return a line a pause."""
    if not paused:
        return "No queue is paused."
    return "\n".join(
        printable(
            f"{pause.name}  paused since {_shown(pause.paused_at)} by {pause.paused_by}, "
            + (f"until {_shown(pause.resumes_at)}" if pause.resumes_at else "until somebody resumes it")
            + (f": {pause.reason}" if pause.reason else "")
        )
        for pause in paused
    )


def as_json(paused: list[PausedQueue]) -> str:
    """Return the pauses as a JSON list of objects, times as ISO 8601."""
    return json.dumps(
        [
            {
                "name": pause.name,
                "paused_at": pause.paused_at.isoformat(),
                "paused_by": pause.paused_by,
                "reason": pause.reason,
                "resumes_at": pause.resumes_at.isoformat() if pause.resumes_at else None,
            }
            for pause in paused
        ]
    )


def _shown(instant: datetime) -> str:
    return timezone.localtime(instant).isoformat(sep=" ", timespec="seconds")


def _actor() -> str:
    return f"jobqueue_queue ({login()})"


def _instant(text: str) -> datetime:
    """Return the aware time that an option names; without a zone it is one of TIME_ZONE."""
    try:
        parsed = parse_datetime(text)
    except ValueError:  # a 31st of February
        parsed = None
    if parsed is None:
        msg = f"{text!r} is not a time: write 2030-01-31T08:00 or 2030-01-31T08:00+05:30"
        raise argparse.ArgumentTypeError(msg)
    return timezone.make_aware(parsed) if timezone.is_naive(parsed) else parsed
