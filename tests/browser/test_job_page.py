"""The page of a job and its repair, as people meet them: why it is not running, an edit with its comparison, masks."""

from collections.abc import Callable

import pytest
from django.urls import reverse

from jobqueue.models import Action, Job
from jobqueue.states import Status
from tests.factories import ActionFactory, AttemptFactory, JobFactory, WorkerFactory, ago

from .conftest import Visit

OpenPage = Callable[..., Visit]

PAYLOAD = {"path": "reports/2026-11.pdf", "password": "hunter2", "pages": 12, "to": ["anna@example.org"]}
PAGES = ("waiting", "running", "dead", "edit", "compare", "unmasked")


@pytest.fixture
def dead(transactional_db: None) -> Job:
    """A dead letter with a history and a secret."""
    job: Job = JobFactory.create(
        status=Status.DEAD, job_type="probe.ok", payload=PAYLOAD, dedupe_key="report-11", owner="anna@example.org",
        last_error="httpx.ConnectError: https://bob:secret@example.org refused", cost_total="0.35",
    )  # fmt: skip
    AttemptFactory.create(job=job, error_text="refused: token=abcdef", traceback="Traceback: token=abcdef")
    ActionFactory.create(job_ids=[job.pk], actor="anna", action="retry", reason="the partner is back")
    return job


def page_of(job: Job) -> str:
    return reverse("admin:jobqueue_job_change", args=[job.pk])


def opened(open_page: OpenPage, name: str, dead: Job, **options: object) -> Visit:
    """Open one of the pages, through those that lead to it."""
    if name == "waiting":
        WorkerFactory.create(queues=["mail"])
        JobFactory.create_batch(3, priority=1)
        return open_page(page_of(JobFactory.create(payload={"path": "a"}, run_after=ago(300))), **options)
    if name == "running":
        running = {"run_started_at": ago(700), "claimed_at": ago(701), "progress": {"percent": 40, "message": "page 5"}}
        return open_page(page_of(JobFactory.create(status=Status.RUNNING, **running)), **options)
    visit = open_page(page_of(dead), **options)
    if name == "unmasked":
        visit.page.get_by_role("button", name="Show them").click()
        visit.page.get_by_role("heading", name="Hidden values of").wait_for()
    if name in ("edit", "compare"):
        visit.page.get_by_role("link", name="Edit the payload and retry").click()
        visit.page.get_by_label("Payload").wait_for()
    if name == "compare":
        change(visit)
    return visit


def change(visit: Visit) -> None:
    payload = visit.page.get_by_label("Payload")
    payload.fill(payload.input_value().replace("2026-11", "2026-12"))
    visit.page.get_by_role("button", name="Show what changes").click()
    visit.page.get_by_role("button", name="Save and retry").wait_for()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_accessible_and_runs_nothing_inline(open_page: OpenPage, dead: Job, name: str, dark: bool) -> None:
    visit = opened(open_page, name, dead, dark=dark)
    visit.picture(f"job-{name}")

    assert visit.violations() == []
    assert visit.complaints == []


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_320_pixels(open_page: OpenPage, dead: Job, name: str) -> None:
    visit = opened(open_page, name, dead, width=320)
    visit.picture(f"job-{name}-320")

    width, window = visit.page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    assert width <= window + 1


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
    visit.page.get_by_role("cell", name="edit_payload").wait_for()
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
    visit.page.get_by_label("Time", exact=True).fill("2099-01-02T03:04:05")
    visit.page.get_by_role("button", name="Retry at this time").click()

    visit.page.get_by_text("It is not due before 2099-01-02 03:04:05").wait_for()
    visit.page.get_by_role("button", name="Clone").click()
    visit.page.get_by_text(f"enqueued like #{dead.pk}").wait_for()

    assert Job.objects.get(pk=dead.pk).status == Status.SCHEDULED
    assert Job.objects.count() == 2
