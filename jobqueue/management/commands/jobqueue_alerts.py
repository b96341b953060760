"""Evaluate the alert rules and tell people at once: `manage.py jobqueue_alerts`, for cron or a timer."""

from __future__ import annotations

import contextlib
import json
import logging
import time
from pathlib import Path
from typing import Any, Final

from django.core.management.base import CommandParser
from django.db import DatabaseError, InterfaceError, connections

from jobqueue.maintenance.alerts import Evaluation, evaluate, overdue
from jobqueue.management import outages
from jobqueue.management.database import DatabaseCommand, one_line_errors
from jobqueue.management.durations import duration
from jobqueue.management.outages import Outage
from jobqueue.models import Incident
from jobqueue.ops.alert_messages import database_message
from jobqueue.ops.alert_sending import has_targets, send_at_once, send_messages

logger = logging.getLogger("jobqueue.alerts")

AGAIN_SECONDS: Final = 1.0
NOT_SENT: Final = 3


class Command(DatabaseCommand):
    """Do what the workers' maintenance does, and send without them: the worst incident, no worker, is heard too."""

    help = (
        "Evaluate the alert rules, and send what is to be told by mail and webhook from this process, without a worker "
        "or the outbox. Run it every minute beside the workers: it tells what they did not. Exit codes: 0 evaluated "
        "and told, whatever fires; 1 the database does not answer, which is told too; 2 wrong options; 3 a message "
        "could not be sent."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the options."""
        super().add_arguments(parser)
        parser.add_argument("--dry-run", action="store_true", help="print what would fire; keep, send and log nothing")
        parser.add_argument("--json", action="store_true", help="print one JSON object")
        parser.add_argument(
            "--patience", type=_seconds, default=10.0, help="a database that answers within this is not away (10 s)"
        )
        parser.add_argument(
            "--state-file", type=Path, help="where an outage is remembered (default: in the temp folder)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Evaluate, send, print."""
        alias = self.manager(options).write_db
        path = options["state_file"] or outages.default_path(connections[alias].settings_dict)
        with one_line_errors():
            found = self._evaluated(alias, path, options)
        failures = [] if options["dry_run"] else [*self._told_that_it_is_back(path), *self._sent(alias, found)]
        self._print(found, failures, options)
        if failures:
            raise SystemExit(NOT_SENT)

    def _evaluated(self, alias: str, path: Path, options: dict[str, Any]) -> Evaluation:
        give_up = time.monotonic() + options["patience"]
        while True:
            try:
                return evaluate(alias, hand_over=False, dry=options["dry_run"])
            except (DatabaseError, InterfaceError) as error:
                connections[alias].close()
                if time.monotonic() >= give_up:
                    if not options["dry_run"]:
                        _tell_of_outage(path, next(iter(str(error).strip().splitlines()), type(error).__name__))
                    raise
            time.sleep(AGAIN_SECONDS)

    def _told_that_it_is_back(self, path: Path) -> list[str]:
        outage = outages.remembered(path)
        if outage is None:
            return []
        logger.info("alert resolved rule=database since=%s", outage.since.isoformat())
        message = database_message("the database answers again", outage.since, over=True)
        sent = send_at_once(message) if outage.told else None
        if sent is None or sent.messages or not has_targets():
            outages.forget(path)
        return [] if sent is None else sent.failures

    def _sent(self, alias: str, found: Evaluation) -> list[str]:
        """Send what this evaluation brought, and what no worker has sent in time. Returns what went wrong."""
        failures: list[str] = []
        with one_line_errors():
            due = {incident.pk for incident in (*found.fired, *found.resolved)} | set(overdue(alias))
            for incident_id in sorted(due):
                failures += send_messages(incident_id, using=alias).failures
        return failures

    def _print(self, found: Evaluation, failures: list[str], options: dict[str, Any]) -> None:
        if options["json"]:
            self.stdout.write(json.dumps(_as_json(found, failures)))
            return
        for failure in failures:
            self.stderr.write(f"not sent: {failure}")
        for problem in found.problems:
            self.stderr.write(f"left out: {problem}")
        if options["verbosity"] == 0:
            return
        if found.at is None:
            self.stdout.write("Somebody else evaluates the rules at this moment.")
            return
        for word, incidents in (("firing", found.firing), ("pending", found.pending), ("resolved", found.resolved)):
            for incident in incidents:
                self.stdout.write(f"{word:<9} {f'{incident.rule} {incident.subject}'.strip()}: {incident.text}")
        if not (found.firing or found.pending or found.resolved):
            self.stdout.write("No alert fires.")
        if found.unknown:
            self.stdout.write(f"unknown   {', '.join(found.unknown)}")


def _tell_of_outage(path: Path, error: str) -> None:
    """Tell that the database is away, once an outage: by log, mail and webhook."""
    outage = outages.remembered(path) or Outage(outages.now(), told=False)
    if outage.told:
        return
    message = database_message(f"the jobs' database does not answer: {error}", outage.since)
    logger.error("alert firing rule=database text=%s", message.text)
    sent = send_at_once(message)
    with contextlib.suppress(OSError):  # a full disk must not keep the next run from telling
        outages.remember(path, Outage(outage.since, told=bool(sent.messages) or not has_targets()))


def _as_json(found: Evaluation, failures: list[str]) -> dict[str, Any]:
    return {
        "at": None if found.at is None else found.at.isoformat(),
        **{
            name: [_incident(incident) for incident in getattr(found, name)]
            for name in ("firing", "pending", "fired", "resolved")
        },
        "unknown": found.unknown,
        "problems": found.problems,
        "failures": failures,
    }


def _incident(incident: Incident) -> dict[str, Any]:
    fields = ("rule", "subject", "value", "worst", "threshold", "text")
    since = {"since": incident.broken_since.isoformat()}
    return {"id": incident.pk} | {name: getattr(incident, name) for name in fields} | since


def _seconds(text: str) -> float:
    return duration(text).total_seconds()
