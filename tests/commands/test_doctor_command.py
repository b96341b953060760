"""jobqueue_doctor: lines for people, JSON for deploys, exit codes by the worst finding."""

import json
import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from jobqueue import __version__
from jobqueue.models import Queue, Worker
from jobqueue.states import Status
from tests.conftest import ROOT
from tests.factories import JobFactory, WorkerFactory, ago
from tests.ops.conftest import patient  # noqa: F401  (a fixture)

from .conftest import Ran

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("patient")]
Run = Callable[..., Ran]


@pytest.fixture(autouse=True)
def worker(db: None) -> Worker:
    worker: Worker = WorkerFactory.create(queues=["*"], claimed_at=ago(1), version=__version__, listening=True)
    return worker


def test_a_notice_is_told_and_nothing_to_mend(run: Run) -> None:
    Queue.objects.create(name="mail", paused_at=ago(5), paused_by="anna\x1b[31m")

    ran = run("jobqueue_doctor")

    assert ran.code == 0
    assert ran.out.splitlines()[0] == "ok       settings: 0 of the system checks speak"
    assert ran.out.splitlines()[-1] == "0 errors, 0 warnings, 1 notice"
    assert "\x1b" not in ran.out
    place = next(number for number, line in enumerate(ran.out.splitlines()) if line.startswith("NOTICE   queues: "))
    shown = ran.out.splitlines()[place + 1 : place + 4]
    assert [line.split(":")[0].strip() for line in shown] == ["queue_paused mail", "means", "do"]


def test_warnings_and_errors_have_codes_of_their_own(run: Run) -> None:
    JobFactory.create(status=Status.DEAD)
    assert run("jobqueue_doctor").code == 3

    JobFactory.create(expired=True)
    assert run("jobqueue_doctor").code == 4


def test_the_json_has_each_check_and_each_finding(run: Run) -> None:
    JobFactory.create(expired=True)

    told = json.loads(run("jobqueue_doctor", "--json").out)

    assert (told["status"], told["reachable"], len(told["checks"])) == ("error", True, 17)
    [jobs] = [check for check in told["checks"] if check["check"] == "jobs"]
    assert jobs["status"] == "error"
    assert jobs["findings"][0].keys() == {"finding", "severity", "subject", "text", "means", "do"}


def test_without_a_database_the_settings_are_looked_at_all_the_same() -> None:
    environment = {**os.environ, "DATABASE_URL": "postgresql://somebody:pass-word@127.0.0.1:9/nothing"}

    done = subprocess.run(
        [sys.executable, "manage.py", "jobqueue_doctor"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert [line.split()[:2] for line in done.stdout.splitlines()[:2]] == [["ok", "settings:"], ["UNREAD", "database:"]]
    assert "Connection refused" in done.stdout
    assert "pass-word" not in done.stdout + done.stderr
