"""The page of one job: why it is not running, what is hidden on it, and who may look behind the masks (case C138)."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from jobqueue.models import Action, Job
from jobqueue.states import Status
from tests.factories import AttemptFactory, JobFactory, WorkerFactory

from .conftest import ACTIONS, ALL, DEAD, JOBS, asked_of_tables, page_of

pytestmark = pytest.mark.django_db

ClientOf = Callable[..., Client]

SECRETS = {
    "password": "hunter2",
    "nested": {"api_key": "kkk-1", "Authorization": "Bearer zzz-2", "deep": [{"auth": {"user": "u", "pin": 777001}}]},
    "my secret word": "sss-3",
    "url": "https://bob:ppp-4@example.org/x",
    "text": "it said token=ttt-5 and went on",
    "plain": "shown-6",
}
HIDDEN = ("hunter2", "kkk-1", "zzz-2", "777001", "sss-3", "ppp-4", "ttt-5", "eee-7", "rrr-8", "ggg-9")


def unmasked_url(job: Job) -> str:
    return reverse("admin:jobqueue_job_unmasked", args=[job.pk])


@pytest.fixture
def job() -> Job:
    """A dead letter with secrets wherever something is stored."""
    made: Job = JobFactory.create(
        status=Status.DEAD,
        payload=SECRETS,
        result={"cookie": "rrr-8"},
        progress={"percent": 5, "message": "token=ggg-9"},
        last_error="refused: password='eee-7'",
    )
    AttemptFactory.create(job=made, error_text="refused: password='eee-7'", traceback="login(password='eee-7')")
    return made


def found(html: str) -> list[str]:
    return [secret for secret in HIDDEN if secret in html]


def test_the_page_tells_why_the_job_is_not_running(operator: Client) -> None:
    WorkerFactory.create(queues=["mail"])

    html = operator.get(page_of(JobFactory.create())).content.decode()

    assert "Why it is not running" in html
    assert "No living worker serves its queue default" in html


@pytest.mark.parametrize(
    ("status", "question"), [(Status.RUNNING, "What it is doing"), (Status.DONE, "How it ended"), (6, "Why it is not")]
)
def test_the_question_is_that_of_the_status(operator: Client, status: int, question: str) -> None:
    assert question in operator.get(page_of(JobFactory.create(status=status))).content.decode()


def test_release_is_offered_where_the_job_is_stuck_only(operator: Client) -> None:
    stuck, held = JobFactory.create(expired=True), JobFactory.create(status=Status.RUNNING)

    assert "/act/release/" in operator.get(page_of(stuck)).content.decode()
    assert "/act/release/" not in operator.get(page_of(held)).content.decode()


@pytest.mark.parametrize(
    "columns", [{"status": Status.DEAD, "dedupe_key": "k"}, {"expired": True}, {}, {"status": Status.SCHEDULED}]
)
def test_the_page_takes_few_queries(operator: Client, columns: dict[str, Any]) -> None:
    WorkerFactory.create()
    job = JobFactory.create(**columns)

    with CaptureQueriesContext(connection) as queries:
        operator.get(page_of(job))

    asked = asked_of_tables(queries)
    assert len(asked) <= 15, [sql[:80] for sql in asked]


@pytest.mark.smoke
def test_secrets_are_hidden_on_every_page_and_in_every_file(client_of: ClientOf, job: Job) -> None:
    client = client_of(*ALL)
    attempt = job.attempt_rows.get()
    urls = [
        *(reverse(page) for page in (JOBS, DEAD, ACTIONS)),
        page_of(job),
        reverse("admin:jobqueue_attempt_change", args=[attempt.pk]),
        *(reverse("admin:jobqueue_job_json", args=[job.pk, part]) for part in ("payload", "result", "progress")),
    ]

    for url in urls:
        answer = client.get(url)
        assert answer.status_code == 200
        assert found(answer.content.decode()) == [], url

    html = client.get(page_of(job)).content.decode()
    assert "shown-6" in html
    assert "https://bob:***@example.org/x" in html
    assert "it said token=*** and went on" in html
    file = client.get(reverse("admin:jobqueue_job_json", args=[job.pk, "payload"])).json()
    assert file["nested"] == {"api_key": "***", "Authorization": "***", "deep": [{"auth": "***"}]}
    assert Job.objects.get(pk=job.pk).payload == SECRETS


def test_lists_show_no_payload(operator: Client) -> None:
    JobFactory.create(payload={"path": "report-2026.pdf"}, status=Status.DEAD)

    for page in (JOBS, DEAD):
        assert "report-2026" not in operator.get(reverse(page)).content.decode()


def test_a_number_keeps_every_digit_in_page_and_file(operator: Client) -> None:
    job = JobFactory.create(status=Status.DEAD)
    digits = "123456789012345678901234567890.10"
    with connection.cursor() as cursor:
        cursor.execute("UPDATE jobqueue_job SET payload = %s::jsonb", [f'{{"n": {digits}, "token": 1}}'])

    assert digits in operator.get(page_of(job)).content.decode()
    file = operator.get(reverse("admin:jobqueue_job_json", args=[job.pk, "payload"])).content.decode()
    assert digits in file
    assert json.loads(file)["token"] == "***"


def test_whoever_may_see_payloads_sees_them_and_that_is_written_down(client_of: ClientOf, job: Job) -> None:
    client = client_of("view_job", "view_payload")
    assert unmasked_url(job) in client.get(page_of(job)).content.decode()
    assert not Action.objects.filter(refused=False).exists()

    answer = client.post(unmasked_url(job))

    html = answer.content.decode()
    assert found(html) == list(HIDDEN)
    assert "no-store" in answer["Cache-Control"]
    action = Action.objects.get()
    assert (action.actor, action.action, action.job_ids) == ("operator", "unmask", [job.pk])
    assert "unmask" in client.get(page_of(job)).content.decode()


def test_nobody_else_sees_them(client_of: ClientOf, job: Job, caplog: pytest.LogCaptureFixture) -> None:
    everything_else = client_of(*ALL, "edit_payload")
    html = everything_else.get(page_of(job)).content.decode()

    assert "Secrets are hidden" in html
    assert "Show them" not in html
    assert everything_else.post(unmasked_url(job)).status_code == 403
    assert client_of("view_payload", username="no-reader").post(unmasked_url(job)).status_code == 403
    assert not Action.objects.filter(refused=False).exists()
    assert "action refused action=unmask actor=operator" in caplog.text


def test_they_are_not_shown_to_get_nor_without_the_token(client_of: ClientOf, job: Job) -> None:
    client = client_of("view_job", "view_payload", enforce_csrf_checks=True)

    assert client.get(unmasked_url(job)).status_code == 405
    assert client.post(unmasked_url(job)).status_code == 403
    assert not Action.objects.filter(refused=False).exists()


def test_where_nothing_is_hidden_nothing_is_offered(client_of: ClientOf) -> None:
    html = client_of(*ALL, "view_payload").get(page_of(JobFactory.create(payload={"path": "x"}))).content.decode()

    assert "Secrets are hidden" not in html
