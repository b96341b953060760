"""Run a worker: `manage.py jobqueue_worker`, the same as `runworker` (Channels has a command of that name, too)."""

from __future__ import annotations

import argparse
import sys
from datetime import timedelta
from functools import partial
from typing import Any, Final

from django.core import checks, mail
from django.core.management.base import BaseCommand, CommandError
from django.db import ProgrammingError, connections

from jobqueue.children.launcher import ZygoteFailed
from jobqueue.conf import get_settings
from jobqueue.exceptions import ConfigurationError
from jobqueue.logs import speak_by_default
from jobqueue.management import reloading
from jobqueue.managers.rows import Run
from jobqueue.managers.settling import sqlstate
from jobqueue.models import Job
from jobqueue.ops.health import missing_migrations
from jobqueue.worker.options import WorkerOptions
from jobqueue.worker.supervisor import Supervisor

INSUFFICIENT_PRIVILEGE: Final = "42501"


def _seconds(text: str) -> timedelta:
    try:
        seconds = float(text)
        if seconds < 0:
            raise ValueError
        return timedelta(seconds=seconds)
    except (ValueError, OverflowError) as error:
        msg = f"{text!r} is not a number of seconds"
        raise argparse.ArgumentTypeError(msg) from error


def _refuse_in_tests(alias: str) -> None:
    """Raise CommandError within a test, where a worker would end at once or run jobs on the wrong database."""
    if connections[alias].in_atomic_block or hasattr(mail, "outbox"):  # as setup_test_environment() makes it
        raise CommandError(
            "a worker sees what is committed, and its children open connections of their own: they would miss this "
            "test's transaction, or its database. Run what is due with jobqueue.testing.drain() instead"
        )


class Command(BaseCommand):
    """Claim jobs and run them in child processes until stopped."""

    help = (
        "Run jobs in child processes until stopped (SIGTERM or SIGINT: finish what runs; a second one: cut it off). "
        "Exit codes: 0 stopped in good order, 1 could not start, 2 wrong options, 3 running jobs were cut off."
    )
    requires_system_checks = [checks.Tags.database, "jobqueue"]

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the options; what is left out comes from the settings."""
        parser.add_argument("--queues", help='queues to serve: "default", "mail:2,default,*" (default: *, all of them)')
        parser.add_argument("--job-types", help="serve the home queues of these types instead; comma-separated")
        parser.add_argument("--processes", type=int, help="child processes (default: the cores)")
        parser.add_argument("--threads", type=int, help="jobs a child runs at a time (default: 1)")
        parser.add_argument("--lease", type=_seconds, help="seconds a job is held without renewal")
        parser.add_argument("--poll", type=_seconds, help="seconds between looks for work when no hint comes")
        parser.add_argument("--name", help="name of this worker (default: the host's)")
        parser.add_argument("--database", help="alias of the jobs' database")
        parser.add_argument("--drain", action="store_true", help="end when the queues are empty")
        parser.add_argument("--max-jobs", type=int, help="end after so many jobs")
        parser.add_argument("--max-seconds", type=float, help="end after so many seconds")
        parser.add_argument("--shutdown-timeout", type=_seconds, help="seconds that running jobs get when stopping")
        parser.add_argument("--no-maintenance", action="store_true", help="leave housekeeping to other workers")
        parser.add_argument("--metrics-port", type=int, help="serve health and metrics on this port (0: any free one)")
        parser.add_argument("--metrics-host", help="address to serve them on (default: 127.0.0.1)")
        parser.add_argument("--reload", action="store_true", help="start again when code changes; for development")

    def handle(self, **options: Any) -> None:
        """Run the worker and exit with its code."""
        speak_by_default(verbose=options["verbosity"] > 1)
        if sys.platform != "linux":
            raise CommandError("workers run on Linux: they rely on its process control (enqueueing works anywhere)")
        if options["reload"] and not reloading.is_below_reloader():
            reloading.run(partial(self.stderr.write, style_func=self.style.MIGRATE_HEADING))
        alias = options["database"] or Job.objects.write_db
        if alias not in connections:
            raise CommandError(f"--database {alias!r}: no such alias in settings.DATABASES", returncode=2)
        _refuse_in_tests(alias)
        try:
            supervisor = Supervisor(
                self._options(alias, options),
                ready=partial(self._check_migrations, alias),
                progress=self._progress(options),
            )
            if supervisor.options.metrics_port is not None:
                from jobqueue.worker.monitor import Monitor  # noqa: PLC0415  (a web server, which few workers need)

                supervisor.monitor = Monitor(
                    supervisor, supervisor.options.metrics_host, supervisor.options.metrics_port
                )
            code = supervisor.run()
        except ConfigurationError as error:
            raise CommandError(str(error), returncode=2) from error
        except ZygoteFailed as error:
            raise CommandError(str(error)) from error
        except ProgrammingError as error:
            if sqlstate(error) != INSUFFICIENT_PRIVILEGE:
                raise
            msg = f"{str(error).strip().splitlines()[0]}: this role lacks a grant, docs/databases.md has what it needs"
            raise CommandError(msg) from error
        if code:
            sys.exit(code)

    def _options(self, alias: str, options: dict[str, Any]) -> WorkerOptions:
        if options["job_types"] and options["queues"]:
            raise ConfigurationError("--job-types stands for the types' home queues: give it or --queues, not both")
        types = tuple(filter(None, (options["job_types"] or "").split(",")))
        if options["lease"] is not None and not 5 <= options["lease"].total_seconds() <= 3600:
            raise ConfigurationError(f"--lease must be 5 to 3600 seconds, not {options['lease'].total_seconds():g}")
        return WorkerOptions.make(
            get_settings(),
            alias=alias,
            name=options["name"],
            queues=options["queues"],
            job_types=types or None,
            processes=options["processes"],
            threads=options["threads"],
            lease=options["lease"],
            poll=options["poll"],
            shutdown_timeout=options["shutdown_timeout"],
            drain=options["drain"] or None,
            max_jobs=options["max_jobs"],
            max_seconds=options["max_seconds"],
            maintenance=False if options["no_maintenance"] else None,
            metrics_port=options["metrics_port"],
            metrics_host=options["metrics_host"],
        )

    def _check_migrations(self, alias: str, run: Run) -> None:
        """Refuse to work on tables that this version does not know. Asked by the worker's own connection."""
        if missing := ", ".join(missing_migrations(run)):
            raise CommandError(
                f"the tables of jobqueue are not migrated ({missing}): run manage.py migrate --database {alias}"
            )

    def _progress(self, options: dict[str, Any]) -> Any:
        if not (options["drain"] and self.stderr.isatty()):
            return None

        def show(done: int, held: int) -> None:
            self.stderr.write(f"\r{done} jobs done, {held} in hand ", ending="")
            self.stderr.flush()

        return show
