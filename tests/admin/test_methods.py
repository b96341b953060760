"""Only a POST with its token changes anything (case C55)."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from jobqueue.models import Job
from jobqueue.states import Status
from tests.factories import JobFactory

from .conftest import ALL, COSTS, DEAD, JOBS, STUCK, VERBS, act_url, page_of

pytestmark = pytest.mark.django_db

FIELDS: dict[str, dict[str, Any]] = {
    "retry": {"status": Status.DEAD},
    "discard": {"status": Status.DEAD},
    "cancel": {},
    "release": {"expired": True},
}


def state_of(job: Job) -> tuple[int, object]:
    after = Job.objects.get(pk=job.pk)
    return after.status, after.updated_at


@pytest.mark.parametrize("verb", VERBS)
def test_an_action_does_not_answer_to_get_or_head(operator: Client, verb: str) -> None:
    job = JobFactory.create(**FIELDS[verb])
    before = state_of(job)

    for method in (operator.get, operator.head, operator.put, operator.delete):
        assert method(act_url(job, verb)).status_code == 405

    assert state_of(job) == before


@pytest.mark.parametrize("verb", VERBS)
def test_an_action_without_the_token_is_refused(client_of: Callable[..., Client], verb: str) -> None:
    client, job = client_of(*ALL, enforce_csrf_checks=True), JobFactory.create(**FIELDS[verb])
    before = state_of(job)

    assert client.post(act_url(job, verb)).status_code == 403
    assert client.post(reverse(JOBS), {"action": verb, "_selected_action": job.pk, "confirmed": 1}).status_code == 403
    assert state_of(job) == before

    client.get(page_of(job))
    token = client.cookies["csrftoken"].value
    assert client.post(act_url(job, verb), {"csrfmiddlewaretoken": token}).status_code == 302
    assert state_of(job) != before


@pytest.mark.parametrize("page", [JOBS, DEAD, STUCK, COSTS])
def test_reading_pages_with_the_words_of_an_action_changes_nothing(operator: Client, page: str) -> None:
    dead, stuck = JobFactory.create(status=Status.DEAD), JobFactory.create(expired=True)
    before = state_of(dead), state_of(stuck)

    for verb in VERBS:
        query: dict[str, Any] = {
            "action": verb,
            "_selected_action": [dead.pk, stuck.pk],
            "select_across": 1,
            "confirmed": 1,
            "index": 0,
        }
        assert operator.get(reverse(page), query).status_code in (200, 302, 400)

    assert (state_of(dead), state_of(stuck)) == before


def test_an_action_or_a_job_that_does_not_exist_is_not_found(operator: Client) -> None:
    job = JobFactory.create()

    assert operator.post(f"/admin/jobqueue/job/{job.pk}/act/explode/").status_code == 404
    assert operator.post(f"/admin/jobqueue/job/{2**64}/act/cancel/").status_code == 404
    assert operator.get(f"/admin/jobqueue/job/{2**64}/payload.json").status_code == 404
    assert operator.get(f"/admin/jobqueue/job/{job.pk}/secrets.json").status_code == 404
    assert operator.get(f"/admin/jobqueue/job/{job.pk}/result.json").status_code == 404
    for object_id in (job.pk + 1, 2**64, "x", "-1"):
        assert operator.get(f"/admin/jobqueue/job/{object_id}/change/").status_code == 302


def test_the_page_of_costs_does_not_answer_to_post(operator: Client) -> None:
    assert operator.post(reverse(COSTS)).status_code == 405
