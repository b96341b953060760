"""Every page of the console, by the name that its pictures have in docs/images: add yours, and the walk takes it.

A page is an address, and where it takes more than that, what is done there to come to it. Pages that only differ in
their figures are one; a page that looks different in another state is one more.
"""

from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlencode

from django.urls import reverse
from playwright.sync_api import Page as Tab

from .story import Story


def stay(_tab: Tab) -> None:
    """Do nothing: the address is the page."""


@dataclass(frozen=True, slots=True)
class Page:
    """How a page is reached."""

    address: Callable[[Story], str]
    reach: Callable[[Tab], None] = stay


def page(name: str, *, reach: Callable[[Tab], None] = stay, **query: str) -> Page:
    """Return a page without arguments in its address."""
    ending = f"?{urlencode(query)}" if query else ""
    return Page(lambda _story: reverse(f"admin:jobqueue_{name}") + ending, reach)


def page_of(name: str, attribute: str, *, reach: Callable[[Tab], None] = stay) -> Page:
    """Return a page of one row: of the story, by the attribute that holds the row or its key."""

    def address(story: Story) -> str:
        row = getattr(story, attribute)
        return reverse(f"admin:jobqueue_{name}", args=[getattr(row, "pk", row)])

    return Page(address, reach)


def press(name: str, then: str) -> Callable[[Tab], None]:
    """Press a button or link, the first of that name, and wait for a heading."""

    def reach(tab: Tab) -> None:
        tab.get_by_role("button", name=name).or_(tab.get_by_role("link", name=name)).first.click()
        tab.get_by_role("heading", name=then).first.wait_for()

    return reach


def _compare(tab: Tab) -> None:
    payload = tab.get_by_label("Payload")
    payload.fill(payload.input_value().replace("exmaple", "example"))
    tab.get_by_role("button", name="Show what changes").click()
    tab.get_by_role("button", name="Save and retry").wait_for()


def _ask_to_discard(tab: Tab) -> None:
    tab.get_by_text("Discard…").click()
    tab.get_by_role("button", name="Yes: Discard").wait_for()


def _edit_field(tab: Tab) -> None:
    tab.get_by_role("button", name="Edit $.url in all jobs of the group").click()
    tab.get_by_role("button", name="See what it would do").wait_for()


def _edit_preview(tab: Tab) -> None:
    _edit_field(tab)
    tab.get_by_label("Replace in its text").check()
    tab.get_by_label("Text to find").fill("exmaple")
    tab.get_by_label("Replace it by").fill("example")
    tab.get_by_role("button", name="See what it would do").click()
    tab.get_by_role("button", name="Edit and retry").wait_for()


def _unfold(tab: Tab) -> None:
    """Open what is folded."""
    for summary in tab.locator("#content-start summary").all():
        summary.click()


PAGES = {
    "overview": Page(lambda _story: reverse("admin:app_list", args=["jobqueue"])),
    "jobs": page("job_changelist"),
    "jobs-search": page("job_changelist", q="type:partner.notify -status:done payload.note.id:*"),
    "jobs-search-error": page("job_changelist", q="status:gone"),
    "jobs-nothing": page("job_changelist", q="type:no.such.type"),
    "job-waiting": page_of("job_change", "waiting"),
    "job-running": page_of("job_change", "running"),
    "job-stuck": page_of("job_change", "stuck"),
    "job-dead": page_of("job_change", "dead"),
    "job-done": page_of("job_change", "done"),
    "job-edit": page_of("job_edit", "dead"),
    "job-compare": page_of("job_edit", "dead", reach=_compare),
    "job-discard": page_of("job_change", "dead", reach=_ask_to_discard),
    "job-unmasked": page_of("job_change", "dead", reach=press("Show them", "Hidden values of")),
    "attempt": page_of("attempt_change", "attempt"),
    "dead-letters": page("deadletter_changelist"),
    "group": page("deadletter_group", fingerprint="b2", job_type="partner.notify"),
    "edit-field": page("deadletter_group", fingerprint="b2", job_type="partner.notify", reach=_edit_field),
    "edit-field-preview": page("deadletter_group", fingerprint="b2", job_type="partner.notify", reach=_edit_preview),
    "retry-preview": page("deadletter_changelist", reach=press("Retry: requests", "Retry")),
    "discard-preview": page("deadletter_changelist", reach=press("Discard: pypdf", "Discard")),
    "stuck": page("stuckjob_changelist"),
    "queues": page("queue_changelist"),
    "queue-pause": page("queue_pause", queue="documents"),
    "queue-pause-all": page("queue_pause", queue="*"),
    "workers": page("worker_changelist"),
    "worker": page_of("worker_change", "worker_id"),
    "worker-drain": page_of("worker_drain", "worker_id"),
    "worker-stop": page_of("worker_stop", "worker_id"),
    "costs": page("cost_changelist"),
    "costs-by-hour": page("cost_changelist", by="component", per="hour", reach=_unfold),
    "alerts": page("alertrule_changelist"),
    "alert": Page(lambda _story: reverse("admin:jobqueue_alertrule_change", args=["dead_1h"])),
    "alert-add": page("alertrule_add"),
    "alert-mute": page("alertrule_mute", rule="dead_1h"),
    "incidents": page("incident_changelist"),
    "incident": page_of("incident_change", "incident"),
    "audit": page("action_changelist"),
    "audit-nothing": page("action_changelist", who="nobody"),
    "action": page_of("action_change", "action"),
}
