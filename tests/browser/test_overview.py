"""The overview as people meet it: every part, its charts as tables, and that it follows what happens."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.urls import reverse

from jobqueue.models import Incident
from jobqueue.ops import overview
from jobqueue.states import Status
from tests.factories import JobFactory, ago

from .conftest import Visit
from .story import BUDGETS, tell

OpenPage = Callable[..., Visit]
OVERVIEW = reverse("admin:app_list", args=["jobqueue"])


@pytest.fixture
def story(transactional_db: None, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # What is unknown on a machine that has no time now is not what these tests are about.
    for limit in ("EACH", "TOTAL"):
        monkeypatch.setattr(overview, limit, timedelta(seconds=20))
    settings.JOBQUEUE = {**settings.JOBQUEUE, "BUDGETS": BUDGETS}
    tell()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_part_is_accessible_with_its_tables_open(open_page: OpenPage, story: None, dark: bool) -> None:
    visit = open_page(OVERVIEW, dark=dark)
    visit.picture("overview")
    for summary in visit.page.locator("summary").all():
        summary.click()

    assert visit.page.locator(".jobqueue-overview > section h2").count() == 7
    assert visit.page.locator("svg.jobqueue-chart").count() == 3
    assert visit.violations() == []
    assert visit.complaints == []


def test_every_part_fits_a_small_phone(open_page: OpenPage, story: None) -> None:
    visit = open_page(OVERVIEW, width=320)

    visit.picture("overview-320")
    width, window = visit.page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    assert width <= window


def test_another_time_is_chosen_and_the_parts_keep_to_it(open_page: OpenPage, story: None) -> None:
    visit = open_page(OVERVIEW)
    visit.page.get_by_role("link", name="7 days", exact=True).click()
    visit.page.get_by_role("img", name="Attempts that ended, by 4 hours").wait_for()
    visit.picture("overview-7d")

    with visit.page.expect_response(lambda answer: "/overview/trend/" in answer.url) as answered:
        visit.page.evaluate("htmx.trigger('#jobqueue-live-trend', 'jobqueue-live')")

    assert answered.value.url.endswith("?window=7d")
    assert visit.page.get_by_role("img", name="Attempts that ended, by 4 hours").is_visible()
    assert visit.complaints == []


def test_the_parts_follow_what_happens(open_page: OpenPage, transactional_db: None) -> None:
    visit = open_page(OVERVIEW)
    visit.page.get_by_text("No jobs yet").wait_for()
    visit.picture("overview-empty")
    JobFactory.create_batch(3, queue="documents", run_after=ago(90))
    JobFactory.create(status=Status.DEAD, job_type="probe.ok", error_class="builtins.ValueError", fingerprint="f")
    Incident.objects.create(rule="dead_1h", state=Incident.State.FIRING, text="3 jobs died", fired_at=ago(30))

    visit.page.get_by_role("link", name="dead_1h").wait_for()
    visit.page.get_by_role("link", name="builtins.ValueError").wait_for()
    visit.page.locator(".jobqueue-part-queues").get_by_role("link", name="documents").wait_for()
    assert visit.page.get_by_role("link", name="Dead 1").is_visible()
    assert visit.complaints == []
