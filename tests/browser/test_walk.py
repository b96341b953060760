"""Each page of the console as everybody meets it: light, dark, small, enlarged, spaced out, still, and by keyboard."""

import re
from collections.abc import Callable, Iterator

import psycopg
import pytest
from django.conf import settings
from django.contrib import admin
from django.contrib.auth.models import Permission, User
from django.core.management import call_command
from django.db import connections
from django.test import Client, override_settings
from django.urls import resolve
from playwright.sync_api import Browser
from pytest_django import DjangoDbBlocker
from pytest_django.live_server_helper import LiveServer

from jobqueue.registry import registry
from tests.connections import database_conninfo

from . import story, walk
from .conftest import Visit
from .pages import PAGES, stay

# The mark django_db has the test database made; each test has its transaction, which sees what the story committed.
pytestmark = [pytest.mark.walk, pytest.mark.django_db]

Walk = Callable[..., Visit]


@pytest.fixture(scope="module")
def told(console: LiveServer, django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[story.Story]:
    """Tell the story once for all pages: nothing here changes it."""
    site = {**settings.JOBQUEUE, "BUDGETS": story.BUDGETS}
    ours = {name: registry.get(name) for name in registry.names() if not name.startswith(("probe.", "tests."))}
    with django_db_blocker.unblock(), override_settings(JOBQUEUE=site), pytest.MonkeyPatch.context() as monkeypatch:
        # What only these tests' own app declares is no choice that a reader of the pictures would know.
        monkeypatch.setattr(registry, "_handlers", ours)
        try:
            yield story.tell()
        finally:
            call_command("flush", interactive=False, verbosity=0)
            # Of this thread within Playwright's loop; nobody else could close it, and the database is to be dropped.
            connections.close_all()


@pytest.fixture(scope="module")
def cookie(told: story.Story) -> str:
    """Return the session of a person with all permissions of the console."""
    user = User.objects.create_user("anna", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(content_type__app_label="jobqueue"))
    client = Client()
    client.force_login(user)
    return client.cookies[settings.SESSION_COOKIE_NAME].value


@pytest.fixture
def walk_to(console: LiveServer, browser: Browser, told: story.Story, cookie: str) -> Iterator[Walk]:
    """Return the function that opens a page of the registry in a window of its own."""
    visits: list[Visit] = []

    def open_one(name: str, *, dark: bool = False, width: int = 1440, **options: object) -> Visit:
        with psycopg.connect(database_conninfo(), autocommit=True) as connection:
            for statement in story.FRESH:
                connection.execute(statement)
        theme = "dark" if dark else "light"
        given = {"viewport": {"width": width, "height": 900}, "color_scheme": theme, **options}
        context = browser.new_context(base_url=console.url, **given)  # type: ignore[arg-type]
        context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": cookie, "url": console.url}])
        visits.append(visit := Visit(context.new_page(), theme))
        visit.go(PAGES[name].address(told))
        for _time in range(5):
            # A database that is cold, or a machine that is busy: what was not read in time says so.
            if not visit.page.get_by_text(re.compile("^Unknown:")).count():
                break
            visit.go(PAGES[name].address(told))
        PAGES[name].reach(visit.page)
        return visit

    yield open_one
    for visit in visits:
        visit.page.context.close()


# No pages: parts of pages, files, where forms go, and what the stock admin has and nobody may open.
NO_PAGES = re.compile(
    r"_(parts?|json|csv|export|note|act|clone|retry_at|ask_stack|kill|state|stack|history|delete|add)$"
)
ELSEWHERE = {
    "jobqueue_overview": "a part of the overview",
    "jobqueue_alertrule_unmute": "as jobqueue_alertrule_mute",
    "jobqueue_attempt_changelist": "reached from a job that has many attempts; a stock list",
    "jobqueue_deadletter_change": "leads to the job",
    "jobqueue_stuckjob_change": "leads to the job",
    "jobqueue_queue_resume": "as jobqueue_queue_pause",
    "jobqueue_job_unmasked": "reached from job-dead",
}


def test_every_page_is_walked(told: story.Story) -> None:
    names = {
        page.name or ""
        for model in admin.site.get_urls()
        for page in getattr(model, "url_patterns", [])
        if (page.name or "").startswith("jobqueue_")
    }
    walked = {resolve(page.address(told).partition("?")[0]).url_name for page in PAGES.values()}

    missing = {name for name in names - walked if not NO_PAGES.search(name)}
    assert missing == set(ELSEWHERE)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_accessible_and_runs_nothing_inline(walk_to: Walk, name: str, dark: bool) -> None:
    visit = walk_to(name, dark=dark)
    if not dark:
        walk.keep_pictures(visit.page, name)

    assert visit.violations() == []
    assert visit.complaints == []
    assert walk.beyond(visit.page) == []


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_320_pixels(walk_to: Walk, name: str) -> None:
    visit = walk_to(name, width=320)

    assert walk.beyond(visit.page) == []
    assert visit.violations() == []


# What is pressed to come to the other pages is named in English.
@pytest.mark.parametrize("name", [name for name, page in PAGES.items() if page.reach is stay])
@pytest.mark.parametrize("language", ["de", "ko"])
def test_a_page_fits_in_other_languages(walk_to: Walk, name: str, language: str) -> None:
    visit = walk_to(name, locale=language)
    walk.keep_pictures(visit.page, f"{language}-{name}")

    assert visit.page.locator("html").get_attribute("lang") == language
    for width in (1440, 320):
        visit.page.set_viewport_size({"width": width, "height": 900})
        assert walk.beyond(visit.page) == []
        assert walk.cut_off(visit.page) == []
    assert visit.violations() == []


@pytest.mark.parametrize("name", PAGES)
def test_a_page_can_be_enlarged_four_times(walk_to: Walk, name: str) -> None:
    """A window of 1280 by 1024 pixels that shows everything at 400 %."""
    visit = walk_to(name, viewport={"width": 320, "height": 256}, device_scale_factor=4)

    assert walk.beyond(visit.page) == []
    assert walk.cut_off(visit.page) == []


@pytest.mark.parametrize("width", [320, 1280])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_bears_more_space_in_its_text(walk_to: Walk, name: str, width: int) -> None:
    visit = walk_to(name, width=width)
    walk.space_out(visit.page)

    assert walk.beyond(visit.page) == []
    assert walk.cut_off(visit.page) == []


@pytest.mark.parametrize("name", PAGES)
def test_all_of_a_page_is_reached_by_keyboard_and_shows_the_focus(walk_to: Walk, name: str) -> None:
    """Where somebody wants no motion, nothing moves either."""
    visit = walk_to(name, reduced_motion="reduce")

    assert walk.by_keyboard(visit.page) == ([], [])
    assert walk.moving(visit.page) == []
