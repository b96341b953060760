"""jobqueue_health: verdicts by exit code, reasons by line."""

import json
import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from jobqueue.models import Worker
from jobqueue.states import Status
from tests.conftest import ROOT
from tests.factories import JobFactory, WorkerFactory, ago

from .conftest import Ran

pytestmark = pytest.mark.django_db(transaction=True)
Run = Callable[..., Ran]


def test_a_queue_that_is_well(run: Run) -> None:
    WorkerFactory.create(claimed_at=ago(1))
    JobFactory.create(status=Status.DEAD, finished_at=ago(48 * 3600))

    ran = run("jobqueue_health")

    assert ran.code == 0
    assert [line.split()[0] for line in ran.out.splitlines()] == ["ok", "ok", "ok", "well"]


def test_a_worker_that_beats_and_does_not_claim(run: Run) -> None:
    """C74."""
    worker: Worker = WorkerFactory.create(name="mail", claimed_at=ago(90))

    ran = run("jobqueue_health", "--name", "mail")

    assert ran.code == 1
    lines = ran.out.splitlines()
    assert [line.split()[:2] for line in lines[:2]] == [["ok", "database:"], ["ok", "heartbeat:"]]
    assert lines[2].startswith(f"BAD  claims: worker {worker.worker_id}: claim loop last well 90.")
    assert run("jobqueue_health", "--name", "mail", "--live").code == 0
    assert run("jobqueue_health", "--worker", worker.worker_id).code == 1
    assert run("jobqueue_health").code == 1


def test_of_a_name_the_youngest_boot_counts(run: Run) -> None:
    WorkerFactory.create(name="mail", started_at=ago(900), heartbeat_at=ago(600))
    assert run("jobqueue_health", "--name", "mail", "--live").code == 1

    WorkerFactory.create(name="mail", claimed_at=ago(1))

    assert run("jobqueue_health", "--name", "mail").code == 0


def test_a_worker_that_is_not_registered_is_not_well(run: Run) -> None:
    ran = run("jobqueue_health", "--name", "nobody", "--live", "--json")

    assert ran.code == 1
    assert json.loads(ran.out)["checks"][-1] == {
        "name": "worker",
        "ok": False,
        "detail": "no worker nobody is registered",
    }


def test_a_stopping_worker_lives_and_is_not_ready(run: Run) -> None:
    WorkerFactory.create(name="mail", claimed_at=ago(1), stopping=True)

    assert run("jobqueue_health", "--name", "mail", "--live").code == 0
    assert run("jobqueue_health", "--name", "mail", "--ready").code == 1


@pytest.mark.parametrize("options", [("--live", "--ready"), ("--worker", "a", "--name", "b")])
def test_options_that_contradict_each_other_are_refused(run: Run, options: tuple[str, ...]) -> None:
    assert "not allowed with" in run("jobqueue_health", *options).error


def test_with_the_database_down_it_exits_with_one_and_says_so() -> None:
    environment = {**os.environ, "DATABASE_URL": "postgresql://somebody:pass-word@127.0.0.1:9/nothing"}

    done = subprocess.run(
        [sys.executable, "manage.py", "jobqueue_health", "--name", "mail"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "not well"
    assert "Connection refused" in done.stdout
    assert "Traceback" not in done.stderr
    assert "pass-word" not in done.stdout + done.stderr
