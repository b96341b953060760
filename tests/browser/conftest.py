"""A real Chromium on the console of a real server, logged in as somebody who may do everything.

SCREENSHOTS names a folder to put a picture of every page into.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from django.conf import settings
from django.contrib.auth.models import Permission, User
from django.test import Client, override_settings
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright
from pytest_django.live_server_helper import LiveServer

from tests.browser.policy import StrictPolicy
from tests.worker.waiting import until

CHROMIUM = Path(os.environ.get("CHROMIUM", "/usr/bin/chromium"))
# Chromium in a container has no sandbox of its own to set up, and there is nobody on the network to talk to.
ARGUMENTS = """
--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update
--disable-sync --disable-dev-shm-usage
""".split()
MIDDLEWARE = "tests.browser.policy.StrictPolicy"

# What the law asks for. Axe's "best practices" beyond it find the theme's own search field, whose label is a picture.
RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}

# What the stock admin itself breaks: the rule, the element by a piece of its HTML, and why it is left.
STOCK = (("label", 'class="vTimeField"', "of its two fields for a time the label names the first one only"),)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder, and leave them out where there is no browser, unless CI asks for them."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)
            if not CHROMIUM.exists() and os.environ.get("CI") != "true":
                item.add_marker(pytest.mark.skip(reason=f"no browser at {CHROMIUM}: apt-get install chromium"))


@pytest.fixture(scope="package")
def console(django_db_setup: None) -> Iterator[LiveServer]:
    """Return a server that sends the strict policy."""
    with override_settings(MIDDLEWARE=[MIDDLEWARE, *settings.MIDDLEWARE]):
        server = LiveServer("127.0.0.1")
        try:
            yield server
        finally:
            server.stop()


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Return a Chromium without a window."""
    with pytest.MonkeyPatch.context() as monkeypatch, sync_playwright() as playwright:
        # Playwright keeps an event loop in this thread; Django would refuse the ORM beside it.
        monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        chromium = playwright.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        try:
            yield chromium
        finally:
            chromium.close()


@pytest.fixture
def session_cookie(transactional_db: None) -> str:
    """Return the session of a person with all permissions of the console."""
    user = User.objects.create_user("anna", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(content_type__app_label="jobqueue"))
    client = Client()
    client.force_login(user)
    return client.cookies[settings.SESSION_COOKIE_NAME].value


@pytest.fixture
def open_page(console: LiveServer, browser: Browser, session_cookie: str) -> Iterator[Callable[..., "Visit"]]:
    """Return the function that opens a page: open_page("/admin/", dark=True, width=1200)."""
    visits: list[Visit] = []

    def open_one(path: str, *, dark: bool = False, width: int = 1400) -> Visit:
        context = browser.new_context(
            base_url=console.url, color_scheme="dark" if dark else "light", viewport={"width": width, "height": 900}
        )
        context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": session_cookie, "url": console.url}])
        visits.append(Visit(context.new_page(), "dark" if dark else "light"))
        visits[-1].go(path)
        return visits[-1]

    yield open_one
    for visit in visits:
        visit.page.context.close()
    # A live part may just have been asked for: tables that its request reads cannot be emptied without a deadlock.
    until(lambda: StrictPolicy.under_way == 0, what="requests under way to end")


class Visit:
    """A page with what its console said."""

    def __init__(self, page: Page, theme: str) -> None:
        self.page, self.theme = page, theme
        self.complaints: list[str] = []
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def _heard(self, message: ConsoleMessage) -> None:
        # The browser asks every site for this by itself; the theme has none.
        if message.type in ("error", "warning") and not message.location["url"].endswith("/favicon.ico"):
            self.complaints.append(message.text)

    def go(self, path: str) -> None:
        """Open an address."""
        answer = self.page.goto(path)
        assert answer is not None
        assert answer.status == 200, path

    def picture(self, name: str) -> None:
        """Take a screenshot, where somebody wants to look at it."""
        if folder := os.environ.get("SCREENSHOTS"):
            self.page.screenshot(path=Path(folder) / f"{name}-{self.theme}.png", full_page=True)

    def violations(self) -> list[str]:
        """Return what axe finds; it reads style sheets by itself, which the policy forbids and the console tells."""
        before = len(self.complaints)
        found: list[dict[str, Any]] = Axe().run(self.page, options=RULES).response["violations"]
        del self.complaints[before:]
        return [
            f"{one['id']}: {node['target']} {node['html'][:200]}"
            for one in found
            for node in one["nodes"]
            if not any(one["id"] == rule and piece in node["html"] for rule, piece, _why in STOCK)
        ]
