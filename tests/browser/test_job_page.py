"""The page of a job as people use it: a payload edited by keyboard, a retry at a time, a stack that comes by itself."""

from collections.abc import Callable

import pytest
from django.urls import reverse

from jobqueue.models import Action, Job, Order
from jobqueue.states import Status
from tests.factories import JobFactory, WorkerFactory, ago

from .conftest import Visit

OpenPage = Callable[..., Visit]

PAYLOAD = {"path": "reports/2026-11.pdf", "password": "hunter2", "pages": 12, "to": ["anna@example.org"]}


@pytest.fixture
def dead(transactional_db: None) -> Job:
    """A dead letter with a secret."""
    job: Job = JobFactory.create(status=Status.DEAD, payload=PAYLOAD, owner="anna@example.org")
    return job


def page_of(job: Job) -> str:
    return reverse("admin:jobqueue_job_change", args=[job.pk])


def test_a_payload_is_edited_by_keyboard_alone(open_page: OpenPage, dead: Job) -> None:
    visit = open_page(page_of(dead))
    keys = visit.page.keyboard
    visit.page.get_by_role("link", name="Edit the payload and retry").focus()
    keys.press("Enter")
    field = visit.page.get_by_label("Payload")
    field.wait_for()
    assert "hunter2" not in field.input_value()
    field.focus()
    keys.press("Control+Home")
    for _ in range(3):
        keys.press("ArrowDown")
    field.fill(field.input_value().replace("2026-11", "2026-12"))
    reached(visit, "Show what changes")
    keys.press("Enter")
    visit.page.get_by_text("reports/2026-12.pdf").wait_for()
    reached(visit, "Save and retry")
    keys.press("Enter")

    visit.page.get_by_text("The payload was changed, and the job put back.").wait_for()
    visit.page.get_by_role("cell", name="Edit and retry").wait_for()
    after = Job.objects.get(pk=dead.pk)
    assert (after.status, after.payload) == (Status.PENDING, PAYLOAD | {"path": "reports/2026-12.pdf"})
    assert Action.objects.latest("pk").detail["payload"]["from"] == PAYLOAD
    assert visit.complaints == []


def reached(visit: Visit, button: str) -> None:
    """Go on by the tab key until a button has the focus."""
    for _ in range(60):
        visit.page.keyboard.press("Tab")
        if visit.page.evaluate("document.activeElement.value") == button:
            return
    pytest.fail(f"{button} is not reached by keyboard")


def test_a_dead_letter_is_retried_at_a_time_and_a_job_is_cloned(open_page: OpenPage, dead: Job) -> None:
    visit = open_page(page_of(dead))
    question = visit.page.get_by_text("It waits as scheduled until then")
    assert not question.is_visible()
    visit.page.get_by_text("Retry at a time…").click()
    assert question.is_visible()
    visit.page.get_by_label("Not before").fill("2099-01-02T03:04:05")
    visit.page.get_by_role("button", name="Yes: Retry at a time").click()

    visit.page.get_by_text("It is not due before 2099-01-02 03:04:05").wait_for()
    visit.page.get_by_role("button", name="Clone").click()
    visit.page.get_by_text(f"enqueued like #{dead.pk}").wait_for()

    assert Job.objects.get(pk=dead.pk).status == Status.SCHEDULED
    assert Job.objects.count() == 2
    assert visit.complaints == []


def test_a_running_job_is_followed_and_its_stack_comes_by_itself(open_page: OpenPage, transactional_db: None) -> None:
    worker = WorkerFactory.create()
    job = JobFactory.create(status=Status.RUNNING, worker_id=worker.worker_id, run_started_at=ago(5))
    visit = open_page(page_of(job))
    visit.page.get_by_role("button", name="Show its stack").click()
    visit.page.get_by_text("Waiting for the worker").wait_for()
    # The button lay where the pointer is; a part under the pointer is left alone.
    visit.page.mouse.move(0, 0)

    Order.objects.update(obeyed=True, answer='File "jobs.py", line 41 in index', answered_at=ago(0))

    visit.page.get_by_role("region", name="Stack").get_by_text("line 41 in index").wait_for()
    Job.objects.filter(pk=job.pk).update(progress={"percent": 40, "message": "page 5"})
    visit.page.get_by_text("It last reported 40 %: page 5.").wait_for()
    Job.objects.filter(pk=job.pk).update(status=Status.DONE, finished_at=ago(0))
    visit.page.get_by_text("The job has moved on since this page was loaded.").wait_for()
    visit.page.get_by_role("link", name="Load it again").click()
    visit.page.get_by_role("heading", name="How it ended").wait_for()
    assert visit.complaints == []
