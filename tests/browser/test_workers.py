"""Workers and stuck jobs in a browser: told to end by keyboard, and what the page says of the answer by itself."""

from collections.abc import Callable

import pytest
from django.utils import timezone
from playwright.sync_api import expect

from jobqueue.models import Job, Order
from tests.factories import JobFactory

from . import story
from .conftest import Visit

pytestmark = pytest.mark.django_db(transaction=True)

OpenPage = Callable[..., Visit]
WORKERS = "/admin/jobqueue/worker/"


def test_a_worker_is_drained_by_keyboard_and_the_page_tells_the_answer(open_page: OpenPage) -> None:
    story.tell()
    visit = open_page(WORKERS)
    page = visit.page

    page.get_by_role("link", name="Drain web-1…").focus()
    page.keyboard.press("Enter")
    page.get_by_label("Reason").focus()
    page.keyboard.type("a new release")
    page.keyboard.press("Enter")
    expect(page.get_by_text("The worker web-1:a7 was told to drain.")).to_be_visible()
    row = page.get_by_role("row", name="web-1.example.org")
    expect(row).to_contain_text("anna tells it to drain…")
    Order.objects.filter(kind="drain").update(answered_at=timezone.now(), obeyed=True)

    expect(row).to_contain_text("anna had it drained", timeout=15_000)
    assert visit.complaints == []


def test_the_page_of_stuck_jobs_says_when_others_are_stuck(open_page: OpenPage) -> None:
    story.tell()
    visit = open_page("/admin/jobqueue/stuckjob/")
    page = visit.page
    expect(page.get_by_role("status").filter(has_text="stuck now")).to_have_text("1 job is stuck now.")
    JobFactory.create(expired=True)

    link = page.get_by_role("link", name="show them")
    expect(link).to_be_visible(timeout=15_000)
    link.click()

    expect(page.locator("#result_list tbody tr")).to_have_count(2)
    assert Job.objects.stuck().count() == 2
    assert visit.complaints == []
