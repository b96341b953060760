"""Put dead letters back: `manage.py jobqueue_redrive --type documents.index --newer-than 2h`."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from django.core.management.base import CommandError, CommandParser
from django.db.models import Count, Q

from jobqueue import operations
from jobqueue.management.database import DatabaseCommand, one_line_errors
from jobqueue.management.durations import duration
from jobqueue.management.logins import login
from jobqueue.managers import JobManager
from jobqueue.states import Status

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from jobqueue.models import Job

SHOWN: Final = 20


class Command(DatabaseCommand):
    """Retry dead letters that match, after saying how many and asking; audited like the admin's."""

    help = (
        "Put dead letters back with a fresh budget of attempts. Prints how many match, by type and error, then asks. "
        "Exit codes: 0 all put back, or nothing to do, or you said no; 1 it could not be done; 2 wrong options; "
        "3 some were refused (each is told)."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the options; those that choose jobs are combined with AND."""
        super().add_arguments(parser)
        which = parser.add_argument_group("which dead letters")
        several: dict[str, Any] = {"nargs": "+", "action": "extend", "default": []}
        which.add_argument("--id", type=int, help="by id", **several)
        which.add_argument("--type", help="of these job types", **several)
        which.add_argument("--queue", help="of these queues", **several)
        which.add_argument("--fingerprint", help="of these groups of errors, as the admin shows them", **several)
        which.add_argument("--older-than", type=duration, help="that died longer ago: 30m, 2h, 7d")
        which.add_argument("--newer-than", type=duration, help="that died since: 30m, 2h, 7d")
        which.add_argument("--all", action="store_true", help="all of them")
        parser.add_argument(
            "--spread", type=duration, help="make them due over this time (default: 10 ms a job from 100 on)"
        )
        parser.add_argument("--reason", default="", help="kept in the audit")
        parser.add_argument("--dry-run", action="store_true", help="print how many match and end")
        parser.add_argument("--yes", "-y", action="store_true", help="do not ask")

    def handle(self, *args: Any, **options: Any) -> None:
        """Count, ask, act, report."""
        manager = self.manager(options)
        with one_line_errors():
            rows = self._chosen(manager, options)
            jobs = self._print_counts(rows)
            missing = set(options["id"]) - set(rows.values_list("pk", flat=True)) if options["id"] else set()
        if missing:
            self.stdout.write(
                f"Not among them: {_listed(sorted(missing))}: not dead letters, or left out by the other options."
            )
        if jobs and not options["dry_run"] and (options["yes"] or self._confirmed(jobs)):
            with one_line_errors():
                self._redrive(rows, options)

    def _chosen(self, manager: JobManager, options: dict[str, Any]) -> QuerySet[Job]:
        names = ("id", "type", "queue", "fingerprint", "older_than", "newer_than")
        if not options["all"] and all(options[name] in (None, []) for name in names):
            raise CommandError(
                "say which dead letters: --id, --type, --queue, --fingerprint, --older-than, --newer-than, or --all",
                returncode=2,
            )
        # Counted, asked about and put back is what is dead by now: others may die while the question stands.
        now: datetime = manager.run_sql("SELECT statement_timestamp()", {})[0][0]
        rows: QuerySet[Job] = manager.filter(Q(finished_at__isnull=True) | Q(finished_at__lte=now), status=Status.DEAD)
        if options["id"]:
            rows = rows.filter(pk__in=options["id"])
        for name, column in (("type", "job_type"), ("queue", "queue"), ("fingerprint", "fingerprint")):
            if options[name]:
                rows = rows.filter(**{f"{column}__in": options[name]})
        if options["older_than"] is not None:
            rows = rows.filter(finished_at__lt=now - options["older_than"])
        if options["newer_than"] is not None:
            rows = rows.filter(finished_at__gt=now - options["newer_than"])
        return rows

    def _print_counts(self, rows: QuerySet[Job]) -> int:
        groups = rows.order_by().values_list("job_type", "error_class", "fingerprint").annotate(jobs=Count("pk"))
        found = sorted(groups, key=lambda group: (-group[3], str(group[:3])))
        for job_type, error_class, fingerprint, jobs in found[:SHOWN]:
            self.stdout.write(f"{jobs:>8}  {job_type}  {error_class or '-'}  {fingerprint or '-'}")
        if len(found) > SHOWN:
            self.stdout.write(f"{sum(group[3] for group in found[SHOWN:]):>8}  in {len(found) - SHOWN} more groups")
        total: int = sum(group[3] for group in found)
        self.stdout.write(f"{total:>8}  dead letters match" if total else "No dead letters match.")
        return total

    def _confirmed(self, jobs: int) -> bool:
        try:
            answer = input(f"Put {jobs} dead letters back? [y/N] ")
        except EOFError as error:
            raise CommandError("nobody is there to ask: add --yes") from error
        if answer.strip().lower() in ("y", "yes"):
            return True
        self.stdout.write("Nothing was changed.")
        return False

    def _redrive(self, rows: QuerySet[Job], options: dict[str, Any]) -> None:
        spread: timedelta | None = options["spread"]
        actor = f"jobqueue_redrive ({login()})"
        report = operations.retry(rows, actor=actor, reason=options["reason"], spread=spread, using=rows.db)
        self.stdout.write(f"{len(report.changed)} put back, {len(report.refused)} refused.")
        for job_id, why in sorted(report.refused.items())[:SHOWN]:
            self.stdout.write(f"  #{job_id} {why}")
        if len(report.refused) > SHOWN:
            self.stdout.write(f"  and {len(report.refused) - SHOWN} more")
        if report.refused:
            raise SystemExit(3)


def _listed(ids: list[int]) -> str:
    more = f" and {len(ids) - SHOWN} more" if len(ids) > SHOWN else ""
    return ", ".join(f"#{job_id}" for job_id in ids[:SHOWN]) + more
