"""Who may see and do what: checked on the server for each page and each action (case C56)."""

import logging
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from jobqueue.models import Action, Job
from jobqueue.states import Status
from tests.factories import JobFactory

from .conftest import ACTIONS, ALL, COSTS, DEAD, JOBS, STUCK, VERBS, WORKERS, act_url, page_of

pytestmark = pytest.mark.django_db

ClientOf = Callable[..., Client]

PAGES = {
    JOBS: "view_job",
    DEAD: "view_job",
    STUCK: "view_job",
    COSTS: "view_cost",
    WORKERS: "view_worker",
    ACTIONS: "view_audit",
}

# Verb: the list that offers it, the job it is for, the status after.
TAKEN: dict[str, tuple[str, dict[str, Any], Status]] = {
    "retry": (DEAD, {"status": Status.DEAD}, Status.PENDING),
    "discard": (DEAD, {"status": Status.DEAD}, Status.CANCELLED),
    "cancel": (JOBS, {"status": Status.PENDING}, Status.CANCELLED),
    "release": (STUCK, {"expired": True}, Status.PENDING),
}


def take(client: Client, verb: str, job: Job) -> int:
    """Choose the action in the list and answer the page that asks."""
    page, _, _ = TAKEN[verb]
    data = {
        "action": verb,
        "index": 0,
        "select_across": 0,
        "_selected_action": job.pk,
        "confirmed": 1,
        "newest": job.pk,
    }
    return client.post(reverse(page), data).status_code


def status_of(job: Job) -> Status:
    return Status(Job.objects.get(pk=job.pk).status)


@pytest.mark.parametrize("page", PAGES)
def test_each_page_needs_its_permission(client: Client, client_of: ClientOf, page: str) -> None:
    url, others = reverse(page), set(ALL) - {PAGES[page]}

    assert client.get(url).status_code == 302  # to the login
    assert client_of(*ALL, username="customer", is_staff=False).get(url).status_code == 302
    assert client_of(*others, username="other").get(url).status_code == 403
    assert client_of(PAGES[page], username="reader").get(url).status_code == 200


def test_the_page_of_a_job_and_its_json_need_the_view_permission(client: Client, client_of: ClientOf) -> None:
    job = JobFactory.create()
    json_url = reverse("admin:jobqueue_job_json", args=[job.pk, "payload"])
    stranger = client_of(*(set(ALL) - {"view_job"}), username="stranger")

    for url in (page_of(job), json_url):
        assert client.get(url).status_code == 302
        assert stranger.get(url).status_code == 403
        assert client_of("view_job", username=url).get(url).status_code == 200


@pytest.mark.smoke
@pytest.mark.parametrize("verb", VERBS)
def test_an_action_is_taken_by_whoever_has_its_permission(client_of: ClientOf, verb: str) -> None:
    _, fields, after = TAKEN[verb]
    job = JobFactory.create(**fields)

    assert take(client_of("view_job", f"{verb}_job"), verb, job) == 302

    assert status_of(job) == after
    assert (Action.objects.get().actor, Action.objects.get().action) == ("operator", verb)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("held", ["nothing", "view", "the others"])
def test_an_action_is_refused_to_everybody_else(
    client_of: ClientOf, verb: str, held: str, caplog: pytest.LogCaptureFixture
) -> None:
    _, fields, _ = TAKEN[verb]
    job = JobFactory.create(**fields)
    before = status_of(job)
    codenames = {"nothing": [], "view": ["view_job"], "the others": [name for name in ALL if name != f"{verb}_job"]}
    client = client_of(*codenames[held])

    with caplog.at_level(logging.WARNING, "jobqueue.operations"):
        assert take(client, verb, job) == 403
        assert client.post(act_url(job, verb)).status_code == 403

    assert status_of(job) == before
    assert not Action.objects.filter(refused=False).exists()
    assert caplog.text.count(f"action refused action={verb} actor=operator") == 2


@pytest.mark.parametrize("verb", VERBS)
def test_an_action_by_nobody_and_by_a_customer_goes_to_the_login(
    client: Client, client_of: ClientOf, verb: str
) -> None:
    _, fields, _ = TAKEN[verb]
    job = JobFactory.create(**fields)
    before = status_of(job)

    for visitor in (client, client_of(*ALL, is_staff=False)):
        assert take(visitor, verb, job) == 302
        assert visitor.post(act_url(job, verb)).status_code == 302

    assert status_of(job) == before


def test_a_reader_sees_no_actions(client_of: ClientOf) -> None:
    job = JobFactory.create(status=Status.DEAD)
    client = client_of("view_job")

    for url in (reverse(JOBS), reverse(DEAD), page_of(job)):
        html = client.get(url).content.decode()
        assert 'name="action"' not in html
        assert "formaction" not in html


def test_only_what_is_permitted_is_offered(client_of: ClientOf) -> None:
    job = JobFactory.create(status=Status.DEAD)
    client = client_of("view_job", "retry_job")

    listed, page = client.get(reverse(DEAD)).content.decode(), client.get(page_of(job)).content.decode()

    assert 'value="retry"' in listed
    assert 'value="discard"' not in listed
    assert act_url(job, "retry") in page
    assert act_url(job, "discard") not in page


def test_the_index_lists_the_pages_that_the_user_may_see(client_of: ClientOf) -> None:
    html = client_of("view_job").get(reverse("admin:index")).content.decode()

    assert {page for page in PAGES if reverse(page) in html} == {JOBS, DEAD, STUCK}


@pytest.mark.parametrize("model", ["job", "deadletter", "stuckjob", "worker", "action", "attempt", "cost"])
def test_even_a_superuser_adds_changes_and_deletes_nothing(admin_client: Client, model: str) -> None:
    """Case C132: no form writes a stale row over what a worker did meanwhile."""
    job = JobFactory.create(status=Status.DEAD, priority=7)
    base = f"/admin/jobqueue/{model}/"

    answers = [
        admin_client.get(f"{base}add/"),
        admin_client.post(f"{base}add/", {"job_type": "x"}),
        admin_client.post(f"{base}{job.pk}/change/", {"priority": 1, "status": 1}),
        admin_client.post(f"{base}{job.pk}/delete/", {"post": "yes"}),
        admin_client.post(base, {"action": "delete_selected", "_selected_action": job.pk, "post": "yes"}),
    ]

    # 302: to the list (no action chosen, no such row), or to the job's own page.
    assert {answer.status_code for answer in answers} <= {302, 403, 404, 405, 200}
    after = Job.objects.get()
    assert (after.status, after.priority, after.updated_at) == (Status.DEAD, 7, job.updated_at)
