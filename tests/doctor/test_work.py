"""Faults of work and of those who do it, each made and found."""

from collections.abc import Callable

import pytest
from django.conf import settings
from django.test import override_settings

from jobqueue import __version__
from jobqueue.models import GroupNote, Queue, Worker
from jobqueue.states import Status
from tests.connections import database_conninfo
from tests.factories import JobFactory, StatFactory, WorkerFactory, ago, ahead

from .conftest import Found

pytestmark = pytest.mark.django_db
Examined = Callable[[], Found]
DAY = 86_400


def test_without_any_worker_one_finding_says_so(examined: Examined) -> None:
    WorkerFactory.create(queues=["*"], stopping=True)
    JobFactory.create()

    assert examined().codes.count("no_worker") == 1
    assert "queue_unserved" not in examined().codes


def test_a_queue_that_no_worker_serves(examined: Examined) -> None:
    WorkerFactory.create(queues=["mail"], claimed_at=ago(1))
    JobFactory.create_batch(3, queue="reports", run_after=ago(90))
    JobFactory.create(queue="mail")

    told = examined().one("queue_unserved")

    assert (told.subject, told.text) == ("reports", "3 jobs, the oldest due for 90 s")


def test_a_paused_queue_is_a_notice_and_not_unserved(examined: Examined, worker: Worker) -> None:
    Queue.objects.create(name="mail", paused_at=ago(5), paused_by="anna", reason="relay down", resumes_at=ahead(3600))
    JobFactory.create(queue="mail")

    found = examined()

    assert found.one("queue_paused").text.startswith("by anna until 2")
    assert found.one("queue_paused").text.endswith(": relay down")
    assert found.codes == ["queue_paused"]
    assert found.diagnosis.status == "notice"


def test_types_that_no_handler_has(examined: Examined, worker: Worker) -> None:
    JobFactory.create_batch(2, job_type="gone.type")
    JobFactory.create(job_type="gone.long_ago", status=Status.DONE)
    JobFactory.create(job_type="jobqueue.notify", queue="jobqueue")

    [told] = examined().diagnosis.findings
    assert (told.code, told.subject, told.text) == ("type_unknown", "gone.type", "2 of the 3 open jobs looked at")


def test_a_task_that_only_its_payload_names_is_known(examined: Examined, worker: Worker) -> None:
    payload = {"args": [], "kwargs": {}, "backend": "default"}
    for name in ("echoes", "gone"):
        JobFactory.create(job_type=f"tests.backends.tasks.{name}", payload=payload, task_backend="default")

    assert [told.subject for told in examined().diagnosis.findings] == ["tests.backends.tasks.gone"]


def test_workers_that_are_not_well(examined: Examined) -> None:
    well = {"claimed_at": ago(1), "version": __version__, "listening": True, "queues": ["*"]}
    silent = WorkerFactory.create(**well | {"heartbeat_at": ago(500)})
    hanging = WorkerFactory.create(**well | {"claimed_at": ago(400)})
    deaf = WorkerFactory.create(**well | {"listening": False})
    old = WorkerFactory.create(**well | {"version": "0.0.9"})
    WorkerFactory.create(**well, stopping=True)

    found = examined()

    assert {told.code: told.subject for told in found.diagnosis.findings} == {
        "worker_silent": silent.worker_id,
        "worker_hangs": hanging.worker_id,
        "worker_deaf": deaf.worker_id,
        "worker_version": old.worker_id,
    }
    assert found.one("worker_version").text == f"0.0.9, not {__version__}"


def test_a_worker_of_another_release(examined: Examined, worker: Worker) -> None:
    with override_settings(JOBQUEUE={"RELEASE": "2026.12"}):
        assert examined().one("worker_release").text == "none, not 2026.12"


def test_a_job_that_hangs(examined: Examined, worker: Worker) -> None:
    JobFactory.create(expired=True)

    assert examined().one("jobs_stuck").text == "1 jobs"


def test_dead_letters_are_told_until_somebody_takes_their_group(examined: Examined, worker: Worker) -> None:
    JobFactory.create_batch(2, status=Status.DEAD, fingerprint="a" * 16)
    JobFactory.create(status=Status.DEAD, fingerprint="b" * 16)
    JobFactory.create(status=Status.DEAD, queue="jobqueue", job_type="jobqueue.notify")

    assert examined().one("dead_letters").text.startswith("3 in 2 groups, most (2) of type probe.ok")

    for mark in "ab":
        GroupNote.objects.create(fingerprint=mark * 16, job_type="probe.ok", assignee="lena")
    assert "dead_letters" not in examined().codes


def test_more_slots_than_connections(examined: Examined, worker: Worker) -> None:
    WorkerFactory.create(queues=["*"], slots=100_000, claimed_at=ago(1), version=__version__, heartbeat_at=ago(999))
    assert "connections_short" not in examined().codes  # of one that is gone

    WorkerFactory.create(queues=["*"], slots=10_000, claimed_at=ago(1), version=__version__)

    needed = 10_000 + 6 + worker.slots + 6
    assert f"up to {needed} needed by workers" in examined().one("connections_short").text


def test_notifications_that_go_elsewhere(examined: Examined, worker: Worker) -> None:
    elsewhere = f"{database_conninfo()} dbname=postgres"
    with override_settings(JOBQUEUE={**settings.JOBQUEUE, "LISTEN_DSN": elsewhere}):
        found = examined()

    assert found.one("listen_deaf").text.endswith("by LISTEN_DSN")


def test_a_listen_dsn_that_leads_nowhere_is_told_without_its_password(examined: Examined, worker: Worker) -> None:
    with override_settings(JOBQUEUE={"LISTEN_DSN": "host=127.0.0.1 port=9 user=me password=hush-hush"}):
        told = examined().check("listen")

    assert "Connection refused" in told.unread
    assert "hush" not in told.unread


def test_where_notify_is_off_nothing_is_listened_for(examined: Examined, worker: Worker) -> None:
    with override_settings(JOBQUEUE={"NOTIFY": False}):
        assert examined().check("listen").detail == "NOTIFY is off: workers poll"


def test_jobs_that_are_kept_for_ever(examined: Examined, worker: Worker) -> None:
    StatFactory.create(jobs=500, at=ago(2 * 3600))
    assert "retention_off" not in examined().codes

    with override_settings(JOBQUEUE={"RETENTION_DONE_SECONDS": None}):
        assert examined().one("retention_off").text.endswith("jobs a day")


def test_jobs_that_nobody_prunes(examined: Examined, worker: Worker) -> None:
    JobFactory.create(status=Status.DONE, finished_at=ago(7 * DAY + 3600))
    assert "prune_behind" not in examined().codes

    JobFactory.create(status=Status.DONE, finished_at=ago(9 * DAY))

    assert examined().one("prune_behind").text.startswith("the oldest finished 9.0 days ago")
