"""Dead letters by group in a real browser: by keyboard, on a phone, and a large set that goes on by itself."""

from collections.abc import Callable

import pytest
from django.urls import reverse

from jobqueue.admin import running
from jobqueue.models import Job
from jobqueue.states import Status
from tests.factories import AttemptFactory, CostFactory, JobFactory, StatFactory, ago

from . import walk
from .conftest import Visit

OpenPage = Callable[..., Visit]

DEAD = reverse("admin:jobqueue_deadletter_changelist")
LONG = "HTTPSConnectionPool(host='partner.example.org', port=443): Max retries exceeded with url: /v1/notes?id=18"
RETRY_PDF = "Retry: pypdf.errors.PdfReadError, documents.index"


@pytest.fixture
def groups(transactional_db: None) -> None:
    """Make dead letters of three causes."""
    for number in range(12):
        JobFactory.create(
            status=Status.DEAD, fingerprint="a1", error_class="pypdf.errors.PdfReadError", job_type="documents.index",
            last_error=f"EOF marker not found in /srv/scans/{number}.pdf", finished_at=ago(400 * number),
        )  # fmt: skip
    for hours in (0.1, 0.2, 0.3, 20, 22, 30, 200):
        JobFactory.create(
            status=Status.DEAD, fingerprint="b2", error_class="requests.exceptions.ConnectionError", last_error=LONG,
            finished_at=ago(hours * 3600), job_type="partner.notify", queue="partner", cost_total="0.35",
        )  # fmt: skip
    JobFactory.create(status=Status.DEAD, fingerprint=None, error_class=None, last_error=None, finished_at=ago(400_000))
    AttemptFactory.create(job=Job.objects.dead().earliest("pk"))
    StatFactory.create(job_type="documents.index", jobs=40)
    CostFactory.create(job_type="documents.index", amount="3.2")


@pytest.fixture
def slow_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each step do two jobs."""
    monkeypatch.setattr(running, "BATCH", 2)
    monkeypatch.setattr(running, "STEP_SECONDS", 0)


def open_preview(visit: Visit) -> None:
    """Ask for the retry of the group of the files."""
    visit.page.get_by_role("button", name=RETRY_PDF).click()
    visit.page.get_by_text("12 jobs", exact=True).wait_for()


@pytest.mark.walk
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_pages_are_accessible(open_page: OpenPage, groups: None, slow_steps: None, dark: bool) -> None:
    visit = open_page(DEAD, dark=dark)
    visit.picture("groups")
    assert visit.violations() == []
    visit.page.get_by_role("link", name="requests.exceptions.ConnectionError").click()
    visit.page.get_by_role("link", name="Show its dead letters one by one").click()
    visit.page.get_by_role("heading", name="One group of errors").wait_for()
    visit.picture("one-group")
    assert visit.violations() == []
    visit.page.get_by_role("link", name="Show all groups").click()
    open_preview(visit)
    visit.picture("preview")
    assert visit.violations() == []
    # Without its script the page stays as it is until a button is pressed.
    visit.page.route("**/steps.js", lambda route: route.fulfill(body="", content_type="text/javascript"))
    visit.page.get_by_role("button", name="Retry").click()
    visit.page.get_by_text("2 of 12 jobs").wait_for()
    visit.picture("step")
    assert visit.violations() == []
    visit.page.get_by_role("button", name="Stop").click()
    visit.page.get_by_role("heading", name="Retry: stopped").wait_for()
    visit.picture("report")
    assert visit.violations() == []
    assert visit.complaints == []


@pytest.mark.walk
def test_the_pages_fit_320_pixels(open_page: OpenPage, groups: None, slow_steps: None) -> None:
    visit = open_page(DEAD, width=320)
    visit.picture("groups-320")
    assert walk.beyond(visit.page) == []
    open_preview(visit)
    visit.picture("preview-320")
    assert walk.beyond(visit.page) == []
    visit.page.route("**/steps.js", lambda route: route.fulfill(body="", content_type="text/javascript"))
    visit.page.get_by_role("button", name="Retry").click()
    visit.page.get_by_text("2 of 12 jobs").wait_for()
    visit.picture("step-320")
    assert walk.beyond(visit.page) == []


def test_a_large_set_goes_on_by_itself_to_its_report(open_page: OpenPage, groups: None, slow_steps: None) -> None:
    visit = open_page(DEAD)
    open_preview(visit)
    visit.page.get_by_label("Reason").fill("the files are whole again")
    visit.page.get_by_label("At most a minute").fill("6")

    visit.page.get_by_role("button", name="Retry").click()

    visit.page.get_by_role("heading", name="Retry: report").wait_for()
    visit.page.get_by_text("12 jobs were put back.").wait_for()
    visit.picture("finished")
    assert visit.complaints == []
    assert Job.objects.filter(fingerprint="a1", status=Status.SCHEDULED).count() == 12
    visit.page.get_by_role("link", name="Each batch is in the audit.").click()
    visit.page.get_by_role("cell", name="the files are whole again").first.wait_for()


def test_stop_is_pressed_while_a_step_is_under_way(open_page: OpenPage, groups: None, slow_steps: None) -> None:
    visit = open_page(DEAD)
    open_preview(visit)
    visit.page.get_by_role("button", name="Retry").click()
    visit.page.get_by_text("of 12 jobs").wait_for()

    visit.page.evaluate(
        """() => {
            document.querySelector("[name=go_on]").form.addEventListener(
                "submit", () => document.querySelector("[name=stop]").click(), {once: true})
        }"""
    )

    visit.page.get_by_role("heading", name="Retry: stopped").wait_for()
    told = visit.page.locator(".jobqueue-total").inner_text()
    changed = Job.objects.filter(fingerprint="a1", status=Status.PENDING).count()
    assert told == f"{changed} jobs were put back."
    assert 2 < changed < 12


def test_the_whole_way_goes_by_keyboard(open_page: OpenPage, groups: None) -> None:
    visit = open_page(DEAD)
    keyboard = visit.page.keyboard
    for _press in range(80):
        keyboard.press("Tab")
        if visit.page.evaluate("document.activeElement.getAttribute('aria-label')") == RETRY_PDF:
            break
    keyboard.press("Enter")
    visit.page.get_by_text("12 jobs", exact=True).wait_for()
    for _press in range(40):
        keyboard.press("Tab")
        if visit.page.evaluate("document.activeElement.value") == "Retry":
            break
    keyboard.press("Enter")

    visit.page.get_by_text("12 jobs were put back.").wait_for()
    assert Job.objects.filter(fingerprint="a1", status=Status.PENDING).count() == 12
