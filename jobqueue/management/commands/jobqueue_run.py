"""Run one job in the foreground, under a debugger: `manage.py jobqueue_run TYPE --payload '{"path": "a.pdf"}'`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from django.core.management.base import CommandError, CommandParser
from django.db import connections, transaction

from jobqueue.exceptions import JobQueueError, UnknownJobType
from jobqueue.internal import is_internal
from jobqueue.logs import speak_by_default
from jobqueue.management.database import DatabaseCommand, one_line_errors
from jobqueue.management.debugging import DebugRunner, LeaseKeeper, claim, make_worker_id
from jobqueue.managers import Done, Ending, JobManager
from jobqueue.models import Job
from jobqueue.registry import registry
from jobqueue.states import Status

NOT_DONE: Final = 3
WRONG: Final = 2


class Command(DatabaseCommand):
    """Enqueue one job, claim it for this process alone, run it, and show how it ended."""

    help = (
        "Run one job in this process: breakpoint() works, and no limit on time or memory holds. Exit codes: 0 done, 1 "
        "the database is away or the job cannot be had, 2 wrong options or payload, 3 it did not end well."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the options."""
        super().add_arguments(parser)
        parser.add_argument("type", nargs="?", help="the job type")
        parser.add_argument("--payload", default="{}", help="JSON, @FILE, or - for standard input (default: {})")
        parser.add_argument("--job", type=int, metavar="ID", help="run this job instead: one that is due or dead")
        parser.add_argument("--no-save", action="store_true", help="roll everything back at the end")
        parser.add_argument("--deadline", type=float, metavar="SECONDS", help="stop it after so long (default: never)")
        parser.add_argument("--pdb", action="store_true", help="open a debugger where it failed")

    def handle(self, *args: Any, **options: Any) -> None:
        """Make or find the job, run it, tell its end, exit."""
        speak_by_default()
        _check(options)
        manager, worker_id = self.manager(options), make_worker_id()
        if connections[manager.write_db].in_atomic_block and not options["no_save"]:
            raise CommandError("there is a transaction around this: it takes --no-save")
        payload = None if options["job"] else read_payload(options["payload"])
        with one_line_errors(), _told(), self._rolled_back(manager, options["no_save"]):
            with transaction.atomic(using=manager.write_db):
                job = claim(manager, self._job(manager, payload, options), worker_id=worker_id)
            self._say(f"job {job.pk} ({job.job_type}), attempt {job.attempts} of {job.max_attempts}")
            runner = self._run(manager, worker_id, job, options)
            done = self._report(manager, job, runner)
        if not done:
            sys.exit(NOT_DONE)

    def _job(self, manager: JobManager, payload: Any, options: dict[str, Any]) -> Job:
        if options["job"]:
            try:
                return manager.get(pk=options["job"])
            except Job.DoesNotExist as error:
                raise CommandError(f"there is no job {options['job']}") from error
        # One attempt: what fails under somebody's eyes is not to be tried again behind their back.
        try:
            made = manager.enqueue(options["type"], payload, max_attempts=1)
        except UnknownJobType as error:
            raise CommandError(f"not enqueued: {error}; {_known(options['type'])}", returncode=WRONG) from error
        except (JobQueueError, TypeError, ValueError) as error:
            raise CommandError(f"not enqueued: {error}", returncode=WRONG) from error
        assert made is not None, "only a dedupe key makes it None"
        return manager.get(pk=made.pk)

    def _run(self, manager: JobManager, worker_id: str, job: Job, options: dict[str, Any]) -> DebugRunner:
        runner = DebugRunner(
            worker_id,
            manager=manager,
            say=self._say,
            deadline=options["deadline"],
            post_mortem=options["pdb"],
            kept=not options["no_save"],
            own=not options["job"],
        )
        keeper = LeaseKeeper(manager.write_db, worker_id, job, self._say)
        if not options["no_save"]:  # else nobody sees the row, so nobody takes it
            keeper.start()
        try:
            runner.run(job)
        finally:
            keeper.end()
        return runner

    def _report(self, manager: JobManager, job: Job, runner: DebugRunner) -> bool:
        after = manager.get(pk=job.pk)
        if runner.settled is None:
            self._say("its end was refused: somebody else has the job now")
            return False
        if isinstance(runner.end, Done | Ending):
            self._say(f"ran {runner.end.run_seconds:.3f} s, {runner.end.cpu_seconds or 0:.3f} s of the processor")
            for line in runner.end.costs:
                self._say(f"cost: {line.amount} {line.unit} {line.component}".rstrip())
        status = Status(after.status)
        if status == Status.DONE:
            self.stdout.write(json.dumps(after.result, indent=2, ensure_ascii=False))
        elif after.last_error:
            self._say(f"{after.error_class}: {after.last_error}")
        again = f", due again {after.run_after}" if status in (Status.PENDING, Status.SCHEDULED) else ""
        self._say(f"job {job.pk} is {status.name}{again}")
        return status == Status.DONE

    def _say(self, text: str) -> None:
        # The result alone goes to standard output, so that it can be piped on.
        self.stderr.write(text, style_func=str)
        self.stderr.flush()

    @contextmanager
    def _rolled_back(self, manager: JobManager, wanted: bool) -> Iterator[None]:
        if not wanted:
            yield
            return
        with transaction.atomic(using=manager.write_db):
            yield
            transaction.set_rollback(True, using=manager.write_db)
        self._say(f"rolled back: nothing of it is kept in {manager.write_db}")


def _known(wanted: str) -> str:
    """Return which types somebody may have meant."""
    names = [name for name in registry.names() if not is_internal(name)]
    if near := get_close_matches(wanted, names, n=3):
        return f"is it {' or '.join(near)}?"
    return f"there are {', '.join(names)}" if names else "there is none: handlers are in the jobs module of an app"


def _check(options: dict[str, Any]) -> None:
    if bool(options["type"]) is bool(options["job"]):
        raise CommandError("give a job type, or --job ID", returncode=WRONG)
    if options["job"] and options["payload"] != "{}":
        raise CommandError("--payload is for a new job: one that exists has its own", returncode=WRONG)
    if options["deadline"] is not None and not options["deadline"] > 0:
        raise CommandError("--deadline must be above 0", returncode=WRONG)


def read_payload(text: str) -> Any:
    """Return the payload that JSON, @FILE or - names. Raises CommandError where it is none."""
    try:
        if text == "-":
            text = sys.stdin.read()
            with suppress(OSError):  # a debugger asks the terminal
                sys.stdin = Path("/dev/tty").open()  # noqa: SIM115
        elif text.startswith("@"):
            text = Path(text[1:]).read_text(encoding="utf-8")
        return json.loads(text)
    except (OSError, ValueError) as error:
        raise CommandError(f"--payload cannot be read: {error}", returncode=WRONG) from error


@contextmanager
def _told() -> Iterator[None]:
    """Turn what refuses the job into a CommandError of one line."""
    try:
        yield
    except JobQueueError as error:
        raise CommandError(str(error)) from error
