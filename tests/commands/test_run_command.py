"""jobqueue_run: one job in this process, on a real row that no worker may take."""

import io
import json
import pdb  # noqa: T100  (what --pdb opens)
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Queue
from types import TracebackType
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from jobqueue import models
from jobqueue.managers import leasing
from jobqueue.models import Action, Attempt, Job
from jobqueue.outcomes import Outcome
from jobqueue.registry import registry
from jobqueue.states import Status
from tests.connections import SecondConnection, database_conninfo
from tests.factories import JobFactory, ago

from .conftest import Ran

pytestmark = pytest.mark.django_db(transaction=True)
Run = Callable[..., Ran]


@pytest.fixture
def run() -> Run:
    """Return the function that runs the command; `error` is what it wrote there, or its CommandError."""

    def run_command(*arguments: str) -> Ran:
        out, error = io.StringIO(), io.StringIO()
        try:
            call_command("jobqueue_run", *arguments, stdout=out, stderr=error)
        except CommandError as refused:
            return Ran(refused.returncode, out.getvalue(), str(refused))
        except SystemExit as end:
            return Ran(int(end.code or 0), out.getvalue(), error.getvalue())
        return Ran(0, out.getvalue(), error.getvalue())

    return run_command


@pytest.fixture
def handler(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Callable[..., Any]], None]]:
    """Return the function that has probe.ok do something else."""
    known = registry.get("probe.ok")
    yield lambda function: monkeypatch.setattr(known, "func", function)
    monkeypatch.undo()


def test_a_job_runs_here_and_its_result_alone_goes_to_standard_output(run: Run) -> None:
    before = Job.objects.enqueue("probe.ok")
    assert before is not None

    ran = run("probe.ok")

    job = Job.objects.latest("pk")
    assert (ran.code, json.loads(ran.out)) == (0, job.result)
    assert (job.status, job.attempts, str(job.worker_id)[:4]) == (Status.DONE, 1, "run-")
    assert f"job {job.pk} is DONE" in ran.error
    before.refresh_from_db()
    assert before.status == Status.PENDING  # whatever waits before it


def test_no_worker_can_take_it_while_it_runs(run: Run, handler: Callable[..., None]) -> None:
    def look(context: Any) -> None:
        other = SecondConnection(database_conninfo())
        try:
            seen.extend(other.execute("SELECT status, lease_until > now() FROM jobqueue_job"))
        finally:
            other.close()

    seen: list[tuple[Any, ...]] = []
    handler(look)

    assert run("probe.ok").code == 0
    assert seen == [(Status.RUNNING, True)]


def test_a_failure_shows_its_traceback_and_is_dead_at_once(run: Run, handler: Callable[..., None]) -> None:
    def fail(context: Any) -> None:
        context.progress(0.5, "half")
        raise RuntimeError("no toner")

    handler(fail)

    ran = run("probe.ok")

    job = Job.objects.get(job_type="probe.ok")
    assert (ran.code, ran.out, job.status) == (3, "", Status.DEAD)
    assert "progress: " in ran.error
    assert 'raise RuntimeError("no toner")' in ran.error
    assert "RuntimeError: no toner" in ran.error


def test_nothing_is_kept_where_it_is_rolled_back(run: Run, handler: Callable[..., None]) -> None:
    handler(lambda context: JobFactory.create(job_type="probe.other").pk)

    ran = run("probe.ok", "--no-save")

    assert ran.code == 0
    assert "rolled back" in ran.error
    assert not Job.objects.exists()


def test_a_dead_letter_runs_again_and_the_audit_says_who_did_it(run: Run) -> None:
    dead: Job = JobFactory.create(status=Status.DEAD)

    assert run("--job", str(dead.pk)).code == 0

    dead.refresh_from_db()
    assert dead.status == Status.DONE
    [row] = Action.objects.all()
    assert (row.action, row.actor[:13]) == ("retry", "jobqueue_run ")


def test_a_dead_letter_that_is_rolled_back_is_as_it_was(run: Run) -> None:
    dead: Job = JobFactory.create(status=Status.DEAD)

    assert run("--job", str(dead.pk), "--no-save").code == 0

    before = (dead.attempts, dead.finished_at, dead.lease_epoch)
    dead.refresh_from_db()
    assert (dead.status, (dead.attempts, dead.finished_at, dead.lease_epoch)) == (Status.DEAD, before)


def test_a_due_job_behind_others_is_the_one_that_runs(run: Run) -> None:
    first, wanted, last = (JobFactory.create(run_after=ago(age)) for age in (30, 20, 10))

    assert run("--job", str(wanted.pk)).code == 0

    statuses = dict(Job.objects.values_list("pk", "status"))
    assert statuses == {first.pk: Status.PENDING, wanted.pk: Status.DONE, last.pk: Status.PENDING}


@pytest.mark.parametrize("status", [Status.RUNNING, Status.DONE, Status.SCHEDULED, Status.CANCELLED])
def test_what_is_neither_due_nor_dead_is_refused(run: Run, status: Status) -> None:
    job: Job = JobFactory.create(status=status)

    ran = run("--job", str(job.pk))

    assert (ran.code, "only what is due or dead" in ran.error) == (1, True)


def test_a_paused_queue_is_named_and_nothing_is_left(run: Run) -> None:
    models.Queue.objects.create(name="default", paused_at=ago(5), paused_by="anna")

    ran = run("probe.ok")

    assert (ran.code, "its queue default is paused" in ran.error) == (1, True)
    assert not Job.objects.exists()


def test_a_deadline_holds_where_one_is_asked_for(run: Run, handler: Callable[..., None]) -> None:
    def spin(context: Any) -> None:
        while True:
            pass

    handler(spin)

    assert run("probe.ok", "--deadline", "0.1").code == 3
    assert Job.objects.get(job_type="probe.ok").outcome == Outcome.DEADLINE


@pytest.mark.parametrize(("own", "status"), [(True, Status.CANCELLED), (False, Status.PENDING)])
def test_ctrl_c_cancels_a_new_job_and_gives_an_old_one_back(
    run: Run, handler: Callable[..., None], own: bool, status: Status
) -> None:
    def interrupt(context: Any) -> None:
        raise KeyboardInterrupt

    handler(interrupt)
    job = None if own else JobFactory.create()

    ran = run("probe.ok") if job is None else run("--job", str(job.pk))

    assert (ran.code, Job.objects.get(job_type="probe.ok").status) == (3, status)
    assert not Attempt.objects.filter(outcome=Outcome.FAILED).exists()


def test_the_lease_is_renewed_while_somebody_sits_at_a_breakpoint(
    run: Run, handler: Callable[..., None], settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    renewed, plain = Queue[Any](), leasing.renew

    def renew(*arguments: Any, **named: Any) -> Any:
        renewed.put(plain(*arguments, **named))
        return []

    monkeypatch.setattr(leasing, "renew", renew)
    settings.JOBQUEUE = {**settings.JOBQUEUE, "LEASE_SECONDS": 5, "STATEMENT_TIMEOUT": 2}
    handler(lambda context: renewed.get(timeout=20)[0].verdict)

    assert json.loads(run("probe.ok").out) == "renewed"


def test_a_run_that_lost_its_lease_is_refused(run: Run, handler: Callable[..., None]) -> None:
    handler(lambda context: Job.objects.filter(job_type="probe.ok").update(lease_epoch=99) and None)

    ran = run("probe.ok")

    assert (ran.code, "its end was refused" in ran.error) == (3, True)


def test_a_debugger_opens_where_it_failed(
    run: Run, handler: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(context: Any) -> None:
        raise RuntimeError

    opened: list[TracebackType] = []
    monkeypatch.setattr(pdb, "post_mortem", opened.append)
    handler(fail)

    assert run("probe.ok", "--pdb").code == 3
    assert len(opened) == 1


def test_a_breakpoint_in_a_handler_works(run: Run, handler: Callable[..., None]) -> None:
    def stop(context: Any, **payload: Any) -> str:
        answer = "old"
        debugger = pdb.Pdb(stdin=io.StringIO("answer = 'new'\ncontinue\n"), stdout=io.StringIO(), nosigint=True)
        debugger.use_rawinput = False
        debugger.set_trace()
        return answer

    handler(stop)

    assert json.loads(run("probe.ok").out) == "new"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((), "give a job type, or --job ID"),
        (("probe.ok", "--job", "1"), "give a job type, or --job ID"),
        (("--job", "1", "--payload", "[]"), "one that exists has its own"),
        (("probe.ok", "--payload", "{"), "--payload cannot be read"),
        (("probe.ok", "--payload", "[1]"), "not enqueued: "),
        (("probe.ok", "--deadline", "0"), "--deadline must be above 0"),
        (("probe.nowhere",), "no handler is registered"),
        (("probe.okk",), "; is it probe.ok"),
        (("nothing.like.it",), "; there are "),
    ],
)
def test_wrong_options_are_told_with_code_two(run: Run, arguments: tuple[str, ...], why: str) -> None:
    ran = run(*arguments)

    assert (ran.code, why in ran.error) == (2, True), ran.error
    assert not Job.objects.exists()


def test_the_payload_comes_from_a_file_or_from_standard_input(
    run: Run, handler: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "payload.json"
    path.write_text('{"a": 1}')
    handler(lambda context, **payload: payload)
    monkeypatch.setattr(sys, "stdin", io.StringIO('{"a": 2}'))

    assert json.loads(run("probe.ok", "--payload", f"@{path}").out) == {"a": 1}
    assert json.loads(run("probe.ok", "--payload", "-").out) == {"a": 2}


def test_a_job_that_is_not_there_is_named(run: Run) -> None:
    assert run("--job", "999").error == "there is no job 999"
