"""The page of stuck jobs: why each is, whether its worker lives, and what may be done; kept by a live part."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from jobqueue.models import Action, Job
from jobqueue.states import Status
from tests.factories import JobFactory, WorkerFactory, ago, ahead

from .conftest import STUCK, asked_of_tables

pytestmark = pytest.mark.django_db

ClientOf = Callable[..., Client]
PART = reverse("admin:jobqueue_stuckjob_part")


@pytest.fixture
def operator(client_of: ClientOf) -> Client:
    return client_of("view_job", "release_job", "cancel_job", "manage_worker", username="anna")


def shown(client: Client, address: str = "") -> str:
    return client.get(address or reverse(STUCK)).content.decode()


def overlong(**fields: Any) -> Job:
    job: Job = JobFactory.create(
        status=Status.RUNNING, lease_until=ahead(45), claimed_at=ago(7_300), run_started_at=ago(7_300), **fields
    )
    return job


def test_each_tells_why_it_is_stuck_and_whether_its_worker_lives(operator: Client) -> None:
    for worker_id, heard in (("living", ago(2)), ("mute", ago(800))):
        WorkerFactory.create(worker_id=worker_id, heartbeat_at=heard)
    overlong(worker_id="living")
    JobFactory.create(expired=True, worker_id="mute", lease_until=ago(700))
    JobFactory.create(expired=True, worker_id="lost")
    JobFactory.create(status=Status.RUNNING, lease_until=ahead(60), worker_id="fine")

    page = shown(operator)

    assert "it runs too long" in page
    assert re.search("renewed, for (3|4)[0-9] s more", page)
    assert ">lives</span>" in page
    assert re.search("ran out 11 min [45][0-9] s ago", page)
    assert re.search(">silent for 13 min [23][0-9] s</span>", page)
    assert ">gone</span>" in page
    assert "fine" not in page
    assert "3 jobs are stuck now." in page


def test_the_handler_can_be_asked_for_by_whoever_may(operator: Client, client_of: ClientOf) -> None:
    job = overlong()
    link = f"{reverse('admin:jobqueue_job_change', args=[job.pk])}#jobqueue-stack"

    assert link in shown(operator)
    assert link not in (page := client_of("view_job", username="reader").get(reverse(STUCK)).content.decode())
    assert 'name="action"' not in page


def test_stuck_jobs_are_marked_dead_after_asking(operator: Client) -> None:
    stuck, other = JobFactory.create(expired=True), JobFactory.create(expired=True)
    choice = {"action": "mark_dead", "index": 0, "select_across": 0, "_selected_action": stuck.pk}

    asked = operator.post(reverse(STUCK), choice)
    assert "Make dead letters of these stuck jobs?" in asked.content.decode()
    assert not Action.objects.exists()
    operator.post(reverse(STUCK), choice | {"confirmed": 1, "newest": other.pk, "reason": "it is lost"})

    assert Job.objects.get(pk=stuck.pk).status == Status.DEAD
    assert Job.objects.get(pk=other.pk).status == Status.RUNNING
    assert (Action.objects.get().action, Action.objects.get().reason) == ("mark_dead", "it is lost")


def test_marking_dead_needs_the_permission(client_of: ClientOf) -> None:
    stuck = JobFactory.create(expired=True)
    client = client_of("view_job", "cancel_job", "manage_worker", "discard_job", username="other")

    choice = {"action": "mark_dead", "index": 0, "select_across": 0, "_selected_action": stuck.pk, "confirmed": 1}

    assert client.post(reverse(STUCK), choice).status_code == 403
    assert Job.objects.get(pk=stuck.pk).status == Status.RUNNING


def test_the_part_says_when_others_are_stuck_than_those_that_are_shown(operator: Client) -> None:
    first = JobFactory.create(expired=True)
    address = operator.get(reverse(STUCK)).context["part_url"]
    assert "show them" not in shown(operator, address)

    second = JobFactory.create(expired=True)
    assert "2 jobs are stuck now." in shown(operator, address)
    assert "show them" in shown(operator, address)

    Job.objects.filter(pk=second.pk).update(status=Status.DONE)
    assert "show them" not in shown(operator, address)
    Job.objects.filter(pk=first.pk).update(lease_epoch=7)
    assert "show them" in shown(operator, address)


def test_the_part_needs_the_permission(client_of: ClientOf) -> None:
    assert client_of("view_worker", username="other").get(PART).status_code == 403
    assert client_of("view_job", username="reader").get(PART).status_code == 200


def test_without_stuck_jobs_the_page_says_what_would_be_here(operator: Client) -> None:
    page = shown(operator)

    assert "No job is stuck" in page
    assert "would be here" in page


def test_the_number_of_queries_does_not_grow(operator: Client) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as seen:
            shown(operator)
        return len(asked_of_tables(seen))

    JobFactory.create(expired=True)
    few = queries()
    for number in range(20):
        JobFactory.create(expired=True, worker_id=f"w{number}")

    assert queries() == few <= 15


def test_times_that_no_worker_would_write_are_shown_all_the_same(operator: Client) -> None:
    job = JobFactory.create(expired=True)
    Job.objects.filter(pk=job.pk).update(claimed_at=ago(0))
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE jobqueue_job SET lease_until = '-infinity', claimed_at = 'infinity' WHERE id = %s", [job.pk]
        )

    assert f">{job.pk}</a>" in shown(operator)
