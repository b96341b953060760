"""What no link of the console leads to: NUL, numbers of thousands of digits, rows that are none. Never an error."""

from collections.abc import Callable
from urllib.parse import quote

import pytest
from django.db import transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from jobqueue.models import Action, AlertRule, Job, Queue
from jobqueue.states import Status
from tests.factories import JobFactory

from .test_matrix import PERMISSIONS

pytestmark = pytest.mark.django_db

ClientOf = Callable[..., Client]
LONG = "1" * 5_000
ODD = pytest.mark.parametrize(
    "text", ["\x00", "a\x00b", LONG, "\u0663", "9" * 25], ids=["nul", "in", "long", "arab", "big"]
)
#: Addresses, each with what it may be asked for.
QUERIES = {
    "job": ("q", "id__lt", "queue", "job_type", "fingerprint__exact", "run_after__gte", "status__exact"),
    "deadletter": ("q", "job_type__exact", "finished_at__lte"),
    "action": ("q", "who", "since"),
    "incident": ("rule",),
    "attempt": ("outcome__exact",),
}
PATHS = (*("job", "deadletter", "stuckjob", "attempt", "worker", "incident", "action", "alertrule"),)


@pytest.fixture
def boss(client_of: ClientOf) -> Client:
    """Return the client of somebody who may do everything."""
    client = client_of(*PERMISSIONS, username="boss")
    client.raise_request_exception = False
    return client


def answers(ask: Callable[..., object], *args: object) -> int:
    """Return the status; what fails in the database fails alone."""
    with transaction.atomic():
        return ask(*args).status_code  # type: ignore[attr-defined,no-any-return]


@ODD
def test_an_odd_query_is_answered(boss: Client, text: str) -> None:
    asked = [(f"/admin/jobqueue/{page}/", name) for page, names in QUERIES.items() for name in names]

    found = {(page, name): answers(boss.get, page, {name: text}) for page, name in asked}

    assert {key: status for key, status in found.items() if status >= 400} == {}


@ODD
def test_an_odd_address_is_not_found(boss: Client, text: str) -> None:
    found = {page: answers(boss.get, f"/admin/jobqueue/{page}/{quote(text)}/change/") for page in PATHS}

    assert set(found.values()) <= {302, 404}


def test_rows_that_are_none_are_no_request(boss: Client) -> None:
    job = JobFactory.create(status=Status.DEAD)

    for ticked in ("x", "-1", "\x00"):
        data = {"action": "retry", "index": 0, "_selected_action": [job.pk, ticked]}
        assert answers(boss.post, reverse("admin:jobqueue_deadletter_changelist"), data) == 400
    assert not Action.objects.exists()


@ODD
def test_odd_words_of_a_form_are_an_error_of_the_form(boss: Client, text: str) -> None:
    job = JobFactory.create(status=Status.DEAD)
    forms = {
        f"job/{job.pk}/edit/": {"payload": text, "seen": f"{text}-2026-13-41T00:00:00Z"},
        f"job/{job.pk}/retry-at/": {"when": text, "reason": text},
        "deadletter/group/note/": {"fingerprint": text, "job_type": text, "note": text},
        f"action/export/?who={quote(text)}&q={quote(text)}": {"format": "csv"},
    }

    found = {path: answers(boss.post, f"/admin/jobqueue/{path}", data) for path, data in forms.items()}

    assert max(found.values()) < 500, found


@pytest.mark.parametrize(
    ("path", "data", "page"),
    [
        ("queue/pause/", {"queue": "mail"}, "queue"),
        ("alertrule/mute/?rule=dead_1h", {}, "alertrule"),
    ],
)
def test_no_time_is_stored_that_nobody_can_read_again(boss: Client, path: str, data: dict[str, str], page: str) -> None:
    """West of Greenwich the last evening of the year 9999 is in the year 10000, which Python does not have."""
    told = data | {"until_choice": "time", "until_time": "9999-12-31T23:59"}

    with timezone.override("America/New_York"):
        answer = boss.post(f"/admin/jobqueue/{path}", told)
        assert boss.get(f"/admin/jobqueue/{page}/").status_code == 200

    assert answer.status_code == 200
    assert "before the end of the year 9999" in answer.content.decode()
    assert not Queue.objects.filter(paused_at__isnull=False).exists()
    assert not AlertRule.objects.exists()


def test_no_job_is_put_back_for_a_time_that_an_enqueue_refuses(boss: Client) -> None:
    job = JobFactory.create(status=Status.DEAD)

    with timezone.override("America/New_York"):
        answer = boss.post(
            reverse("admin:jobqueue_job_retry_at", args=[job.pk]), {"when": "9999-12-31T23:59"}, follow=True
        )

    assert "Give a date and a time" in answer.content.decode()
    assert Job.objects.get().status == Status.DEAD
