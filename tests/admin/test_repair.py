"""Repair from the page of a job: edit with a look at what changes, retry at a time, clone; who may, what is refused."""

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from jobqueue.admin.jobs import JobAdmin
from jobqueue.models import Action, Job
from jobqueue.states import Status
from tests.factories import JobFactory

from .conftest import ALL, act_url, page_of
from .test_escaping import EVIL, live_nodes

pytestmark = pytest.mark.django_db

ClientOf = Callable[..., Client]
EDITOR = ("view_job", "edit_payload", "retry_job")
PAYLOAD = {"path": "old.pdf", "password": "hunter2", "pages": 12}


def url(job: Job, name: str) -> str:
    return reverse(f"admin:jobqueue_job_{name}", args=[job.pk])


def dead(**columns: Any) -> Job:
    job: Job = JobFactory.create(**{"status": Status.DEAD, "payload": PAYLOAD} | columns)
    return job


def seen(job: Job) -> str:
    return f"{job.lease_epoch}-{job.updated_at.isoformat()}"


def edited(
    job: Job, payload: str = '{"path": "new.pdf", "password": "***", "pages": 12}', **more: Any
) -> dict[str, Any]:
    return {"seen": seen(job), "payload": payload, "when": "", "reason": ""} | more


def stored(job: Job) -> tuple[int, Any]:
    after = Job.objects.get(pk=job.pk)
    return after.status, after.payload


@pytest.fixture
def editor(client_of: ClientOf) -> Client:
    """Return the client of somebody who may edit and retry, but not look behind the masks."""
    return client_of(*EDITOR)


@pytest.mark.smoke
def test_a_payload_is_edited_looked_at_and_put_back(editor: Client) -> None:
    job = dead()
    assert url(job, "edit") in editor.get(page_of(job)).content.decode()
    asked = editor.get(url(job, "edit")).content.decode()
    assert "old.pdf" in asked
    assert seen(job) in asked
    assert "hunter2" not in asked

    shown = editor.post(url(job, "edit"), edited(job, reason="wrong name")).content.decode()

    assert re.search(r"− before</td>\s*<td><code> +&quot;path&quot;: &quot;old.pdf&quot;", shown)
    assert re.search(r"\+ after</td>\s*<td><code> +&quot;path&quot;: &quot;new.pdf&quot;", shown)
    assert "hunter2" not in shown
    assert stored(job) == (Status.DEAD, PAYLOAD)

    hidden = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', shown))
    hidden["payload"] = hidden["payload"].replace("&quot;", '"')
    saved = editor.post(url(job, "edit"), hidden | {"confirmed": "1"}, follow=True)

    assert saved.redirect_chain == [(page_of(job), 302)]
    assert "The payload was changed, and the job put back." in saved.content.decode()
    assert stored(job) == (Status.PENDING, PAYLOAD | {"path": "new.pdf"})
    action = Action.objects.get()
    assert (action.action, action.reason, action.actor) == ("edit_payload", "wrong name", "operator")


def test_the_audit_shows_both_payloads_with_their_secrets_hidden(editor: Client, client_of: ClientOf) -> None:
    job = dead()
    editor.post(url(job, "edit"), edited(job, confirmed=1))

    page = client_of("view_audit", username="auditor").get(
        reverse("admin:jobqueue_action_change", args=[Action.objects.get().pk])
    )

    html = page.content.decode()
    assert "old.pdf" in html
    assert "new.pdf" in html
    assert "hunter2" not in html


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        ('{"path": ', "This is no JSON"),
        ('{"a": 1, "a": 2}', "stands twice"),
        ("[1]", "a payload is a JSON object"),
        ('{"password": {"x": "***"}}', "$.password.x"),
        ('{"path": "old.pdf", "password": "***", "pages": 12}', "Nothing has changed"),
        ("", "This field is required"),
    ],
)
def test_what_cannot_be_saved_is_told_with_the_form_as_it_was_filled(editor: Client, payload: str, words: str) -> None:
    job = dead()

    extras: list[dict[str, Any]] = [{}, {"confirmed": 1}]
    for extra in extras:
        html = editor.post(url(job, "edit"), edited(job, payload, reason="kept text", **extra)).content.decode()
        assert words in html.replace("&#x27;", "'")
        assert "kept text" in html

    assert stored(job) == (Status.DEAD, PAYLOAD)


def test_the_limits_of_the_type_are_told(editor: Client) -> None:
    job = dead(job_type="probe.small_input", payload={"document": {"page_count": 99}})

    html = editor.post(url(job, "edit"), edited(job, '{"document": {"page_count": 11}}')).content.decode()

    assert "payload field document.page_count is 11, its limit is 10" in html


def test_one_can_go_back_from_the_comparison(editor: Client) -> None:
    job = dead()

    html = editor.post(url(job, "edit"), edited(job, reason="kept text", back="1")).content.decode()

    assert "new.pdf" in html
    assert "kept text" in html
    assert "<textarea" in html


@pytest.mark.parametrize("confirmed", [{}, {"confirmed": "1"}])
def test_a_job_that_moved_on_meanwhile_is_left_alone_and_that_is_said(
    editor: Client, confirmed: dict[str, str]
) -> None:
    job = dead()
    form = edited(job, **confirmed)
    Job.objects.redrive(job.pk)

    answer = editor.post(url(job, "edit"), form, follow=True)

    assert "Only the payload of a dead letter can be edited, and this job is pending now." in answer.content.decode()
    assert stored(job) == (Status.PENDING, PAYLOAD)

    Job.objects.filter(pk=job.pk).update(status=Status.DEAD)  # and died again
    answer = editor.post(url(job, "edit"), form, follow=True)

    assert "Nothing was changed, because the job moved on meanwhile" in answer.content.decode()
    assert stored(job) == (Status.DEAD, PAYLOAD)
    assert not Action.objects.filter(refused=False).exists()


def test_a_key_that_another_job_holds_is_told(editor: Client) -> None:
    job, holder = dead(dedupe_key="k"), JobFactory.create(dedupe_key="k")

    answer = editor.post(url(job, "edit"), edited(job, confirmed=1), follow=True)

    assert f"blocked by #{holder.pk}" in answer.content.decode()
    assert stored(job) == (Status.DEAD, PAYLOAD)


@pytest.mark.parametrize("form", ["", "x", "1-", "1-2026-01-01T00:00:00"])
def test_a_form_that_does_not_say_what_was_seen_is_refused(editor: Client, form: str) -> None:
    job = dead()

    assert editor.post(url(job, "edit"), edited(job, seen=form, confirmed=1)).status_code == 200
    assert stored(job) == (Status.DEAD, PAYLOAD)


def test_a_large_payload_is_not_edited_in_a_page(editor: Client) -> None:
    job = dead(payload={"text": "x" * 70_000})

    assert "are not edited in a page" in editor.get(url(job, "edit"), follow=True).content.decode()


@pytest.mark.parametrize("missing", EDITOR)
def test_an_edit_needs_all_its_permissions(client_of: ClientOf, missing: str) -> None:
    job = dead()
    client = client_of(*(set(ALL) | {"edit_payload", "view_payload"}) - {missing})

    assert client.get(url(job, "edit")).status_code == 403
    assert client.post(url(job, "edit"), edited(job, confirmed=1)).status_code == 403
    assert stored(job) == (Status.DEAD, PAYLOAD)
    if missing != "view_job":
        assert url(job, "edit") not in client.get(page_of(job)).content.decode()


def test_a_reader_sees_no_button_and_gets_403_everywhere(client_of: ClientOf) -> None:
    job, client = dead(), client_of("view_job")

    html = client.get(page_of(job)).content.decode()

    for name in ("edit", "clone", "retry_at", "unmasked"):
        assert url(job, name) not in html
        assert client.post(url(job, name), {"when": "2030-01-01T10:00"}).status_code == 403
    assert Job.objects.count() == 1


@pytest.mark.parametrize("name", ["edit", "clone", "retry_at", "unmasked"])
def test_nothing_is_done_without_the_token_and_nothing_for_a_job_that_is_not_there(
    client_of: ClientOf, name: str
) -> None:
    job = dead()
    permissions = (*ALL, "edit_payload", "view_payload")
    checked = client_of(*permissions, enforce_csrf_checks=True)
    client = client_of(*permissions, username="other")

    assert checked.post(url(job, name), edited(job, confirmed=1)).status_code == 403
    for job_id in (job.pk + 1, 2**64):
        address = reverse(f"admin:jobqueue_job_{name}", args=[job_id])
        assert client.post(address, edited(job, confirmed=1)).status_code == 404
    if name != "edit":
        assert client.get(url(job, name)).status_code == 405
    assert stored(job) == (Status.DEAD, PAYLOAD)
    assert not Action.objects.filter(refused=False).exists()


def test_a_dead_letter_is_retried_at_a_time_in_the_zone_of_the_page(operator: Client, settings: Any) -> None:
    settings.TIME_ZONE = "Asia/Kolkata"
    job, when = dead(), timezone.now().replace(microsecond=0) + timedelta(days=2)

    with timezone.override("Asia/Kolkata"):
        text = f"{timezone.localtime(when):%Y-%m-%dT%H:%M:%S}"
        answer = operator.post(url(job, "retry_at"), {"when": text, "reason": "after the move"}, follow=True)

    assert "1 job was put back." in answer.content.decode()
    after = Job.objects.get(pk=job.pk)
    assert (after.status, after.run_after) == (Status.SCHEDULED, when)


@pytest.mark.parametrize("when", ["", "soon", "2026-13-01T00:00"])
def test_a_time_that_is_none_is_told(operator: Client, when: str) -> None:
    job = dead()

    answer = operator.post(url(job, "retry_at"), {"when": when}, follow=True)

    assert "Give a date and a time" in answer.content.decode()
    assert stored(job)[0] == Status.DEAD


def test_a_job_is_cloned_and_the_page_of_the_new_one_is_shown(operator: Client) -> None:
    job = dead(status=Status.DONE)

    answer = operator.post(url(job, "clone"), {"reason": "again"}, follow=True)

    new = Job.objects.exclude(pk=job.pk).get()
    assert answer.redirect_chain == [(page_of(new), 302)]
    assert f"This is job #{new.pk}, enqueued like #{job.pk}." in answer.content.decode()
    assert new.payload == PAYLOAD


def test_a_job_that_cannot_be_cloned_says_why(operator: Client) -> None:
    job = dead(job_type="gone.type")

    answer = operator.post(url(job, "clone"), follow=True)

    assert "no handler is registered for job type" in answer.content.decode()
    assert Job.objects.count() == 1


def test_the_pages_of_the_repair_have_no_live_node(client_of: ClientOf) -> None:
    client = client_of(*EDITOR, "view_payload", "view_audit")
    job = dead(payload={EVIL: EVIL, "password": EVIL}, last_error=f"{EVIL} token={EVIL}", queue=EVIL, owner=EVIL)
    form = edited(job, '{"password": "***", "<img src=x onerror=1>": "</textarea><script>1</script>"}', reason=EVIL)

    answers = [
        client.get(url(job, "edit")),
        client.post(url(job, "edit"), form | {"payload": EVIL}),
        client.post(url(job, "edit"), form),
        client.post(url(job, "unmasked")),
        client.post(url(job, "edit"), form | {"confirmed": 1}, follow=True),
        client.get(reverse("admin:jobqueue_action_change", args=[Action.objects.latest("pk").pk])),
        client.get(page_of(job)),
    ]

    for number, answer in enumerate(answers):
        assert answer.status_code == 200
        assert list(live_nodes(answer.content.decode())) == [], number


def test_the_pages_take_few_queries(client_of: ClientOf) -> None:
    client, job = client_of(*EDITOR, "view_payload"), dead()

    for answer in (
        lambda: client.get(url(job, "edit")),
        lambda: client.post(url(job, "edit"), edited(job)),
        lambda: client.post(url(job, "unmasked")),
    ):
        with CaptureQueriesContext(connection) as queries:
            answer()
        assert len(queries) <= 15


@pytest.mark.parametrize("name", ["edit", "clone", "retry_at", "unmasked"])
def test_a_subclass_that_hides_a_job_hides_it_from_every_address(
    client_of: ClientOf, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    job, client = dead(owner="other"), client_of(*ALL, "edit_payload", "view_payload")
    own = JobAdmin.get_queryset
    monkeypatch.setattr(JobAdmin, "get_queryset", lambda admin, request: own(admin, request).filter(owner="mine"))

    assert client.post(url(job, name), edited(job, confirmed=1)).status_code == 404
    assert client.post(act_url(job, "discard")).status_code == 404
    assert client.get(reverse("admin:jobqueue_job_json", args=[job.pk, "payload"])).status_code == 404
    assert stored(job) == (Status.DEAD, PAYLOAD)
    assert not Action.objects.filter(refused=False).exists()
