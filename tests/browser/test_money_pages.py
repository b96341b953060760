"""The pages of queues and costs as people meet them: accessible in both themes, on a phone, and by keyboard alone."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone

from jobqueue import operations
from jobqueue.ops.queues import paused_queues
from jobqueue.outcomes import Outcome
from jobqueue.states import Status
from tests.factories import AttemptFactory, CostFactory, JobFactory, StatFactory, WorkerFactory, ago, ahead

from .conftest import Visit

OpenPage = Callable[..., Visit]

QUEUES = reverse("admin:jobqueue_queue_changelist")
PAUSE = reverse("admin:jobqueue_queue_pause")
COSTS = reverse("admin:jobqueue_cost_changelist")
BUDGETS = {
    "documents": {"amount": "40", "unit": "USD", "per": "day", "queue": "documents", "at_limit": "alert"},
    "everything": {"amount": "150", "unit": "USD", "per": "month", "at_limit": "refuse"},
    "partner": {"amount": "10", "unit": "USD", "per": "month", "job_type": "partner.notify", "at_limit": "pause"},
}


@pytest.fixture
def story(transactional_db: None, settings: Any) -> None:
    """Make queues in every state, a month of costs, and budgets within, near and beyond their limits."""
    settings.JOBQUEUE = {**settings.JOBQUEUE, "BUDGETS": BUDGETS}
    _queues()
    _costs()


def _queues() -> None:
    JobFactory.create_batch(30, queue="documents", run_after=ago(95))
    JobFactory.create_batch(3, queue="documents", status=Status.RUNNING)
    JobFactory.create_batch(2, queue="search", status=Status.SCHEDULED, run_after=ahead(3600))
    JobFactory.create_batch(4, queue="partner", run_after=ago(7000))
    JobFactory.create(queue="lost.and-found")
    for queue, jobs in (("documents", 400), ("search", 40), ("mail", 5)):
        StatFactory.create(queue=queue, jobs=jobs, wait_buckets=[18] * jobs, run_buckets=[14] * jobs)
    StatFactory.create(queue="documents", jobs=12, outcome=Outcome.FAILED, wait_buckets=[30] * 12)
    WorkerFactory.create(name="web-1", queues=["documents", "search", "mail", "partner"])
    until = timezone.now() + timedelta(hours=3)
    operations.pause_queue("partner", actor="anna", reason="the partner is down until noon, ticket 4711", until=until)
    operations.pause_queue("mail", actor="budget:partner", reason="budget partner is spent")


def _costs() -> None:
    for day in range(30):
        for job_type, queue, amount in (("documents.index", "documents", 3), ("partner.notify", "partner", 1)):
            for component, part in (("model", 2), ("cpu", 1)):
                CostFactory.create(
                    job_type=job_type, queue=queue, owner=f"owner-{day % 3}", component=component,
                    amount=f"{(amount + day % 7) * part / 4:.2f}", at=ago(day * 86_400 + 60),
                )  # fmt: skip
    CostFactory.create(job_type="mail.send", queue="mail", unit="EUR", amount="0.00000012")
    CostFactory.create(job_type="documents.index", queue="documents", amount="30")
    for cost in ("9.25", "3", "0.125"):
        job = JobFactory.create(status=Status.DEAD, job_type="documents.index", queue="documents", cost_total=cost)
        AttemptFactory.create(job=job, cost=cost, finished_at=ago(60))


def _press_until(visit: Visit, name: str) -> None:
    """Go on with the tabulator until the element of this name has the focus."""
    focused = "document.activeElement.getAttribute('aria-label') || document.activeElement.innerText"
    for _ in range(80):
        visit.page.keyboard.press("Tab")
        if (visit.page.evaluate(focused) or "").strip() == name:
            return
    pytest.fail(f"the keyboard does not reach {name!r}")


def test_a_queue_is_paused_and_resumed_by_keyboard_alone(open_page: OpenPage, story: None) -> None:
    visit = open_page(QUEUES)
    _press_until(visit, "Pause search…")
    visit.page.keyboard.press("Enter")
    visit.page.get_by_role("radio", name="for 1 hour").focus()
    visit.page.keyboard.press("ArrowUp")  # round to the last one
    visit.page.get_by_label("Reason").focus()
    visit.page.keyboard.type("a new index")

    visit.page.keyboard.press("Enter")

    visit.page.get_by_text("The queue search is paused until somebody resumes it.").wait_for()
    assert [(one.reason, one.resumes_at) for one in paused_queues() if one.name == "search"] == [("a new index", None)]
    _press_until(visit, "Resume search")
    visit.page.keyboard.press("Enter")
    visit.page.get_by_text("The queue search is resumed.").wait_for()
    assert "search" not in {one.name for one in paused_queues()}
    assert visit.complaints == []


def test_all_queues_are_paused_after_the_question_and_resumed(open_page: OpenPage, story: None) -> None:
    visit = open_page(QUEUES)
    visit.page.get_by_role("link", name="Pause all queues…").click()
    visit.page.get_by_label("Yes, all queues").check()
    visit.page.get_by_role("button", name="Pause").click()
    visit.page.get_by_text("All queues are paused", exact=True).wait_for()
    visit.picture("queues-all-paused")
    assert visit.violations() == []

    visit.page.get_by_role("link", name="Resume all queues…").click()
    visit.page.get_by_label("Yes, all queues").check()
    visit.page.get_by_role("button", name="Resume").click()

    visit.page.get_by_text("The pause of all queues is over").wait_for()
    assert "*" not in {one.name for one in paused_queues()}


def test_costs_are_seen_by_another_part_and_downloaded(open_page: OpenPage, story: None) -> None:
    visit = open_page(COSTS)
    assert visit.page.get_by_role("img", name="USD by day, the last 30 days").is_visible()
    visit.page.get_by_role("link", name="Owner", exact=True).click()
    visit.page.get_by_role("heading", name="Costs by owner").wait_for()
    assert visit.page.get_by_role("rowheader", name="owner-2").first.is_visible()

    with visit.page.expect_download() as download:
        visit.page.get_by_role("link", name="Download these sums (CSV)").click()

    assert download.value.suggested_filename == "costs-by-owner.csv"
    assert visit.complaints == []
