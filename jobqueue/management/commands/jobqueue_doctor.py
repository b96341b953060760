"""Examine the queue and its database, and say what to do: `manage.py jobqueue_doctor`."""

from __future__ import annotations

import json
import sys
from typing import Any, Final

from django.core.management.base import CommandParser

from jobqueue.doctor.examining import examine
from jobqueue.doctor.findings import RANKS, Checked, Diagnosis
from jobqueue.management.database import DatabaseCommand
from jobqueue.management.tables import printable

AWAY: Final = 1
WARNINGS: Final = 3
ERRORS: Final = 4


class Command(DatabaseCommand):
    """Print what was looked at and every finding, and exit by the worst."""

    help = (
        "Examine settings, server, tables, workers and work. Exit codes: 0 nothing to mend (notices at most), 1 the "
        "database is away, 2 wrong options, 3 warnings, or parts that could not be read, 4 errors."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the options."""
        super().add_arguments(parser)
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        """Examine, print, exit."""
        diagnosis = examine(self.manager(options))
        self.stdout.write(json.dumps(diagnosis.to_json()) if options["json"] else report(diagnosis))
        if code := exit_code(diagnosis):
            sys.exit(code)


def exit_code(diagnosis: Diagnosis) -> int:
    """Return the code that the command ends with."""
    if not diagnosis.reachable:
        return AWAY
    worst = RANKS[diagnosis.status]
    return ERRORS if worst >= RANKS["error"] else WARNINGS if worst >= RANKS["warning"] else 0


def report(diagnosis: Diagnosis) -> str:
    """Return each check on a line, and its findings below it with what they mean and what to do."""
    lines = [line for check in diagnosis.checks for line in _check(check)]
    worst = [finding.kind.severity for finding in diagnosis.findings]
    counted = [f"{worst.count(each)} {each}{'s' * (worst.count(each) != 1)}" for each in ("error", "warning", "notice")]
    unread = sum(bool(check.unread) for check in diagnosis.checks)
    counted += [f"{unread} not read"] if unread else []
    return "\n".join([*lines, "", ", ".join(counted)])


def _check(check: Checked) -> list[str]:
    lines = [f"{check.status if check.status == 'ok' else check.status.upper():<8} {check.name}: "]
    lines[0] += printable(check.unread or check.detail)
    for finding in check.findings:
        subject = f" {finding.subject}" if finding.subject else ""
        lines += [
            printable(f"         {finding.code}{subject}: {finding.text}"),
            f"           means: {finding.kind.means}",
            f"           do:    {finding.kind.do}",
        ]
    return lines
