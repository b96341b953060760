"""The pages of health and of the snapshot: what they say when all is well, when workers hang, and with no database."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from jobqueue.models import Job
from jobqueue.states import Status
from tests.conftest import ROOT
from tests.factories import JobFactory, WorkerFactory, ago

from .conftest import TOKEN

pytestmark = pytest.mark.django_db(transaction=True)

ASK = """
import django, json, sys
django.setup()
from django.test import Client
for page in sys.argv[1:]:
    answer = Client(headers={"Authorization": "Bearer %s"}).get(page, SERVER_NAME="localhost")
    print(json.dumps([answer.status_code, answer.content.decode()]))
"""


def checks(answer: Any) -> dict[str, bool]:
    return {check["name"]: check["ok"] for check in answer.json()["checks"]}


def test_ready_where_nobody_works_yet(bearer: Client) -> None:
    answer = bearer.get("/jobqueue/health/ready")

    assert (answer.status_code, answer.json()["status"]) == (200, "ok")
    assert checks(answer) == {"database": True, "migrations": True, "claims": True}


def test_a_worker_is_needed_where_the_settings_say_so(bearer: Client, settings: Any) -> None:
    settings.JOBQUEUE = {**settings.JOBQUEUE, "READY_NEEDS_WORKER": True}
    assert bearer.get("/jobqueue/health/ready").status_code == 503

    WorkerFactory.create(claimed_at=ago(1))

    assert bearer.get("/jobqueue/health/ready").status_code == 200


@pytest.mark.parametrize(
    ("row", "status"),
    [
        ({"claimed_at": ago(59)}, 200),
        ({"claimed_at": ago(61)}, 503),  # it beats, and claims nothing
        ({"claimed_at": ago(10), "heartbeat_at": ago(10)}, 200),
        ({"claimed_at": ago(20), "heartbeat_at": ago(3600)}, 503),  # it died
        ({"claimed_at": None, "started_at": ago(5)}, 200),  # it has only just started
        ({"claimed_at": None, "started_at": ago(61)}, 503),
        ({"claimed_at": ago(400), "stopping": True}, 200),  # it is to claim nothing
    ],
)
def test_ready_goes_by_the_claim_loop_and_not_by_the_heartbeat(
    bearer: Client, row: dict[str, Any], status: int
) -> None:
    """C74."""
    WorkerFactory.create(**row)

    assert bearer.get("/jobqueue/health/ready").status_code == status


def test_one_claim_loop_that_is_well_is_enough(bearer: Client) -> None:
    WorkerFactory.create(claimed_at=ago(300))
    WorkerFactory.create(claimed_at=ago(1))

    answer = bearer.get("/jobqueue/health/ready").json()

    assert answer["status"] == "ok"
    assert answer["checks"][-1]["detail"].startswith("1 of 2 workers")


def test_a_web_servers_probe_leaves_the_workers_out(bearer: Client) -> None:
    WorkerFactory.create(claimed_at=ago(300))

    answer = bearer.get("/jobqueue/health/ready?workers=no")

    assert (answer.status_code, checks(answer)) == (200, {"database": True, "migrations": True})


def test_dead_letters_and_a_backlog_make_nothing_unhealthy(bearer: Client) -> None:
    """C162: a poisoned record must not have everything restarted."""
    JobFactory.create_batch(3, status=Status.DEAD, finished_at=ago(30 * 3600))
    JobFactory.create_batch(3, run_after=ago(30 * 3600))
    JobFactory.create(expired=True)
    WorkerFactory.create(claimed_at=ago(1))

    assert [bearer.get(f"/jobqueue/health/{page}").status_code for page in ("live", "ready")] == [200, 200]


def test_a_migration_that_is_not_applied_is_named(bearer: Client) -> None:
    """C162."""
    with connection.cursor() as cursor:
        cursor.execute("UPDATE django_migrations SET app = 'elsewhere' WHERE app = 'jobqueue' AND name LIKE '0005%%'")
    try:
        answer = bearer.get("/jobqueue/health/ready")
    finally:
        with connection.cursor() as cursor:
            cursor.execute("UPDATE django_migrations SET app = 'jobqueue' WHERE app = 'elsewhere'")

    assert answer.status_code == 503
    assert answer.json()["checks"][1] == {"name": "migrations", "ok": False, "detail": "not applied: 0005_operations"}


def test_a_locked_table_of_jobs_makes_a_web_server_no_less_ready(bearer: Client, second_connection: Any) -> None:
    second_connection.execute("LOCK TABLE jobqueue_job IN ACCESS EXCLUSIVE MODE")

    assert bearer.get("/jobqueue/health/ready").status_code == 200


def test_ready_leaves_no_connection_behind(bearer: Client, watcher: Any) -> None:
    bearer.get("/jobqueue/health/ready")

    query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'jobqueue health'"
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT pg_stat_clear_snapshot() IS NULL, ({query})")
        assert cursor.fetchone()[1] == 0


def test_with_the_database_down_the_pages_say_so(worker_env: dict[str, str]) -> None:
    """C143: no page fails; live is green, for this process answers."""
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings", "JOBQUEUE_OPS_TOKEN": TOKEN}
    environment["DATABASE_URL"] = "postgresql://somebody:pass-word@127.0.0.1:9/nothing"
    pages = ["live", "ready", "ops", "metrics"]
    paths = [f"/jobqueue/health/{page}" if page in ("live", "ready") else f"/jobqueue/{page}" for page in pages]
    code = ASK.replace("%s", TOKEN)

    done = subprocess.run(
        [sys.executable, "-c", code, *paths], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )

    answers = dict(zip(pages, [json.loads(line) for line in done.stdout.splitlines()], strict=True))
    assert {page: status for page, (status, _) in answers.items()} == {
        "live": 200,
        "ready": 503,
        "ops": 503,
        "metrics": 200,
    }
    ready = json.loads(answers["ready"][1])
    assert [(check["name"], check["ok"]) for check in ready["checks"]] == [("database", False)]
    assert json.loads(answers["ops"][1])["pending"] is None
    assert "jobqueue_up 0.0" in answers["metrics"][1]
    assert "pass-word" not in done.stdout


def test_staff_whose_session_cannot_be_read_is_told_why(client: Client) -> None:
    client.cookies["sessionid"] = "a-session-of-somebody"
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE django_session RENAME TO elsewhere")
    try:
        answer = client.get("/jobqueue/health/ready")
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE elsewhere RENAME TO django_session")

    assert answer.status_code == 503
    assert "send the token" in answer.json()["error"]


def test_ops_is_the_snapshot_as_json(bearer: Client, make_job: Callable[..., Job]) -> None:
    make_job()
    make_job(status=Status.DEAD)

    answer = bearer.get("/jobqueue/ops")

    found = answer.json()
    assert answer["Content-Type"] == "application/json"
    assert (found["pending"], found["dead"], found["reachable"]) == (1, 1, True)
    assert [queue["queue"] for queue in found["queues"]] == ["default"]
