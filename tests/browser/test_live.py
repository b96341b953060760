"""Live parts as people meet them: they follow what happens, and hold still while they are used."""

from collections.abc import Callable
from pathlib import Path

import pytest
from django.contrib.staticfiles import finders
from django.urls import reverse

from jobqueue.admin import live
from jobqueue.ops import snapshot
from tests.factories import JobFactory

from .conftest import Visit

OpenPage = Callable[..., Visit]

QUEUES = reverse("admin:jobqueue_queue_changelist")
PART = f"**{reverse('admin:jobqueue_queue_part')}"
ASK = "htmx.trigger('#jobqueue-live-queues', 'jobqueue-live')"


@pytest.fixture
def visit(open_page: OpenPage) -> Visit:
    """Open the queues, of which there is one, with the pointer elsewhere."""
    JobFactory.create(queue="documents")
    snapshot.forget()
    visit = open_page(QUEUES)
    visit.page.get_by_role("button", name="Pause live updates").wait_for()
    return visit


def ask(visit: Visit) -> None:
    """Have the part ask now, not in some seconds, and wait until it was decided on."""
    visit.page.evaluate(ASK)
    visit.page.wait_for_load_state("networkidle")


def test_a_part_follows_by_itself(visit: Visit) -> None:
    JobFactory.create(queue="search")
    snapshot.forget()

    visit.page.get_by_role("rowheader", name="search").wait_for()
    assert visit.page.get_by_role("status").inner_text() == "Live"
    assert visit.complaints == []


def test_a_part_is_held_while_it_is_used_or_paused(visit: Visit) -> None:
    JobFactory.create(queue="search")
    snapshot.forget()
    search = visit.page.get_by_role("rowheader", name="search")
    link = visit.page.get_by_role("link", name="Pause documents…")
    link.focus()
    ask(visit)
    assert not search.is_visible()
    assert visit.page.get_by_text("Waits while you use it").is_visible()
    assert visit.page.evaluate("document.activeElement.innerText") == "Pause…"
    pause = visit.page.get_by_role("button", name="Pause live updates")
    pause.focus()
    visit.page.keyboard.press("Enter")
    ask(visit)
    assert not search.is_visible()
    assert visit.page.get_by_role("status").inner_text() == "Paused"
    assert pause.get_attribute("aria-pressed") == "true"

    visit.page.keyboard.press("Enter")

    search.wait_for()
    assert visit.page.evaluate("document.activeElement.innerText") == "Pause live updates"
    assert visit.page.get_by_role("status").inner_text() == "Live"


@pytest.mark.parametrize("own", [False, True], ids=["our htmx", "the site's"])
def test_a_part_that_does_not_come_in_time_is_told_of_and_tried_again(visit: Visit, own: bool) -> None:
    page = visit.page
    if own:
        path = finders.find(live.HTMX)
        assert path is not None
        page.add_init_script(f"{Path(path).read_text()}\nwindow.htmx = htmx;")
        page.reload()
        page.get_by_role("button", name="Pause live updates").wait_for()
    assert page.locator("meta[name=htmx-config]").count() == (0 if own else 1), "which only ours needs"
    assert page.locator("[data-jobqueue-live-controls]").get_attribute("data-timeout") == f"{live.TIMEOUT_SECONDS}"
    page.evaluate("document.querySelector('[data-jobqueue-live-controls]').dataset.timeout = '0.2'")
    page.route(PART, lambda _route: None)  # nobody answers

    page.evaluate(ASK)
    page.get_by_text("Could not be read: it is tried again").wait_for()
    page.unroute(PART)
    JobFactory.create(queue="search")
    snapshot.forget()
    page.get_by_role("button", name="Pause live updates").click(click_count=2)  # asks at once, without the wait

    page.get_by_role("rowheader", name="search").wait_for()
    assert page.get_by_role("status").inner_text() == "Live"
    assert page.evaluate("htmx.config.timeout") == 0, "that of other requests of the site"


HOLDS = {
    "focus": "part.querySelector('a').focus()",
    "selection": "getSelection().selectAllChildren(part.querySelector('tbody th'))",
    "details": "part.insertAdjacentHTML('beforeend', '<details open><summary>x</summary></details>')",
    "ticked box": "part.insertAdjacentHTML('beforeend', '<input type=checkbox checked>')",
    "hidden tab": "Object.defineProperty(document, 'hidden', {value: true, configurable: true})",
}


def test_a_part_is_not_asked_for_while_it_must_not_move(visit: Visit) -> None:
    """Each way in turn; htmx decides at once, so what was not asked for then is not under way either."""
    asked = """(hold) => {
        const part = document.getElementById("jobqueue-live-queues");
        let sent = 0;
        const count = (event) => { sent += 1; event.preventDefault(); };
        document.body.addEventListener("htmx:beforeSend", count);
        const before = part.innerHTML;
        if (hold) Function("part", hold)(part);
        htmx.trigger(part, "jobqueue-live");
        document.body.removeEventListener("htmx:beforeSend", count);
        document.activeElement.blur();
        getSelection().removeAllRanges();
        delete document.hidden;
        part.innerHTML = before;
        return sent;
    }"""
    evaluate = visit.page.evaluate

    assert {name: evaluate(asked, hold) for name, hold in HOLDS.items()} == dict.fromkeys(HOLDS, 0)
    visit.page.get_by_role("rowheader", name="documents").hover()
    assert evaluate(asked, "") == 0, "under the pointer"
    visit.page.mouse.move(1, 1)
    assert evaluate(asked, "") == 1, "nothing holds it any more"


def test_a_part_that_may_not_be_seen_any_more_says_so(visit: Visit) -> None:
    visit.page.context.clear_cookies()

    ask(visit)

    visit.page.get_by_text("Not live any more: load the page again").wait_for()
    assert visit.page.get_by_role("rowheader", name="documents").is_visible()
