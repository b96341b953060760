"""The pages as people meet them: accessible, in both themes, within a strict policy, and working."""

from collections.abc import Callable

import pytest
from django.urls import reverse

from jobqueue.models import Job
from jobqueue.states import Status
from tests.factories import ActionFactory, AttemptFactory, CostFactory, JobFactory, WorkerFactory, ago

from .conftest import Visit

OpenPage = Callable[..., Visit]

DEAD = reverse("admin:jobqueue_deadletter_changelist")


@pytest.fixture
def story(transactional_db: None) -> Job:
    """Make rows of every kind, and return a dead letter with a history."""
    documents = {"job_type": "documents.index", "queue": "documents"}
    for status in (Status.PENDING, Status.RUNNING, Status.DONE, Status.SCHEDULED, Status.CANCELLED):
        JobFactory.create(status=status, payload={"path": "docs/states.md", "page_count": 12}, **documents)
    for number in range(12):
        JobFactory.create(
            status=Status.DEAD, fingerprint="a1", error_class="pypdf.errors.PdfReadError", finished_at=ago(60 * number),
            last_error="EOF marker not found: the file was cut off while it was written", **documents,
        )  # fmt: skip
    JobFactory.create(expired=True, job_type="documents.search", queue="search", claimed_at=ago(700))
    dead: Job = JobFactory.create(
        status=Status.DEAD, job_type="partner.notify", queue="partner", fingerprint="b2", owner="anna@example.org",
        error_class="httpx.ConnectError", last_error="[Errno 111] Connection refused", cost_total="0.35",
        payload={"url": "http://127.0.0.1:8099/notifications", "document": {"id": 2**60, "title": "Größe <b>"}},
    )  # fmt: skip
    for number in (1, 2, 3):
        AttemptFactory.create(
            job=dead, number=number, error_class="httpx.ConnectError", error_text="[Errno 111] Connection refused",
            traceback="Traceback (most recent call last):\n  File \"jobs.py\", line 12, in notify\nhttpx.ConnectError",
            cost="0.1", peak_memory_bytes=52_000_000, exit_code=None if number < 3 else -9,
        )  # fmt: skip
    ActionFactory.create(job_ids=[dead.pk], actor="anna", action="retry", reason="the partner is back")
    for job_type, amount, age in (("documents.index", "12.5", 60), ("partner.notify", "0.00000012", 90_000)):
        CostFactory.create(job_type=job_type, amount=amount, at=ago(age))
    WorkerFactory.create(name="web-1", queues=["documents", "*"])
    return dead


@pytest.mark.parametrize("name", ["dead-letters", "job", "confirm"])
def test_a_page_is_accessible_and_runs_nothing_inline(open_page: OpenPage, story: Job, name: str) -> None:
    """The short part of what tests/browser/test_walk.py does on every page, in every theme and size."""
    visit = open_page(reverse("admin:jobqueue_job_change", args=[story.pk]) if name == "job" else DEAD)
    if name == "confirm":
        visit.page.get_by_role("button", name="Discard: pypdf.errors.PdfReadError").click()
        visit.page.get_by_text("Discard these dead letters for good?").wait_for()

    assert visit.violations() == []
    assert visit.complaints == []


def test_a_group_is_retried_and_is_gone(open_page: OpenPage, story: Job) -> None:
    visit = open_page(DEAD)
    visit.page.get_by_role("button", name="Retry: pypdf.errors.PdfReadError").click()
    visit.page.get_by_text("12 jobs", exact=True).wait_for()
    visit.page.get_by_label("Reason").fill("the files are whole again")

    visit.page.get_by_role("button", name="Retry").click()

    visit.page.get_by_text("12 jobs were put back.").wait_for()
    visit.picture("retried")
    assert visit.page.get_by_role("button", name="Retry: pypdf.errors.PdfReadError").count() == 0
    assert visit.complaints == []
    assert Job.objects.filter(fingerprint="a1", status=Status.PENDING).count() == 12
    assert Job.objects.get(pk=story.pk).status == Status.DEAD


def test_a_group_leads_to_its_jobs_and_back(open_page: OpenPage, story: Job) -> None:
    visit = open_page(DEAD)

    visit.page.get_by_role("link", name="httpx.ConnectError").click()
    visit.page.get_by_role("link", name="Show its dead letters one by one").click()
    visit.page.get_by_role("link", name="Show all groups").wait_for()
    assert visit.page.locator("#result_list tbody tr").count() == 1
    visit.page.get_by_role("link", name="Show all groups").click()

    visit.page.get_by_text("13 dead letters", exact=False).wait_for()
    assert visit.page.locator("#result_list tbody tr").count() == 13


def test_all_that_match_are_selected_through_the_theme_and_discarded(open_page: OpenPage, story: Job) -> None:
    JobFactory.create_batch(120, status=Status.DEAD, queue="bulk")
    visit = open_page(f"{DEAD}?queue=bulk")
    visit.page.locator("#action-toggle").check()
    visit.page.get_by_role("button", name="Select all 120").click()
    visit.page.locator("select[name=action]").select_option("discard")
    visit.page.get_by_role("button", name="Go").click()
    visit.page.get_by_text("120 jobs", exact=True).wait_for()

    visit.page.get_by_role("button", name="Discard").click()

    visit.page.get_by_text("120 dead letters were discarded.").wait_for()
    assert Job.objects.filter(queue="bulk", status=Status.CANCELLED).count() == 120


def test_a_job_is_read_and_put_back_from_its_page(open_page: OpenPage, story: Job) -> None:
    visit = open_page(DEAD)
    visit.page.locator("#result_list").get_by_role("link", name=str(story.pk), exact=True).click()
    visit.page.get_by_text("1152921504606846976").wait_for()
    assert visit.page.get_by_text("Größe <b>").is_visible()
    visit.page.get_by_text("Traceback", exact=True).first.click()
    assert visit.page.get_by_text("line 12, in notify").first.is_visible()
    visit.page.get_by_label("Reason", exact=True).first.fill("the partner answers")

    visit.page.get_by_role("button", name="Retry now", exact=True).click()

    visit.page.get_by_text("1 job was put back.").wait_for()
    visit.page.get_by_role("cell", name="the partner answers").wait_for()
    assert Job.objects.get(pk=story.pk).status == Status.PENDING


def test_a_stuck_job_is_released(open_page: OpenPage, story: Job) -> None:
    visit = open_page(reverse("admin:jobqueue_stuckjob_changelist"))
    visit.page.locator("#result_list tbody input[type=checkbox]").check()
    visit.page.locator("select[name=action]").select_option("release")

    visit.page.get_by_role("button", name="Go").click()

    visit.page.get_by_text("1 job was given back.").wait_for()
    assert Job.objects.get(job_type="documents.search").status == Status.PENDING
