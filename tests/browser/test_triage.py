"""The whole way from a page of dead letters to jobs that are done, by keyboard alone and with a real worker."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.urls import reverse

from jobqueue.models import Action, Job
from jobqueue.states import Status

from .conftest import Visit

pytestmark = pytest.mark.walk

OpenPage = Callable[..., Visit]

ROOT = Path(__file__).resolve().parents[2]
MISSPELT, RIGHT = "partner.exmaple.org", "partner.example.org"
NOTES = 6
# The name of what has the focus, as a screen reader tells it: of its label, or of its own.
NAME = """() => {
    const here = document.activeElement;
    const own = here.getAttribute('aria-label') || here.labels?.[0]?.innerText || here.innerText || here.value || '';
    return own.replace(/\\s+/g, ' ').trim();
}"""


def press_until(visit: Visit, name: str) -> None:
    """Go on with the tabulator until what bears this name has the focus."""
    passed: list[str] = []
    while passed.count("Skip to main content") < 2 and len(passed) < 300:
        visit.page.keyboard.press("Tab")
        passed.append(visit.page.evaluate(NAME)[:80])
        if passed[-1].removesuffix(":") == name:
            return
    pytest.fail(f"the keyboard does not reach {name!r}, only {passed}")


def enter(visit: Visit, name: str, then: str) -> None:
    """Press a button or follow a link by keyboard, and wait for a text on the page that it leads to."""
    press_until(visit, name)
    visit.page.keyboard.press("Enter")
    visit.page.get_by_text(then).first.wait_for()


def fill(visit: Visit, label: str, text: str) -> None:
    press_until(visit, label)
    visit.page.keyboard.type(text)


@contextmanager
def working(environment: dict[str, str], *arguments: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Have a real worker at work."""
    command = [sys.executable, "manage.py", "runworker", "--queues", "default", *arguments]
    worker = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield worker
    finally:
        worker.terminate()
        worker.wait()


@pytest.fixture
def died(worker_env: dict[str, str]) -> list[int]:
    """Have a real worker run jobs that cannot do with what is in their payloads; return their ids."""
    jobs = [("demo.deliver", {"host": MISSPELT, "note": {"id": number}}) for number in range(NOTES)]
    ids = [job.pk for job in Job.objects.enqueue_many(jobs) if job is not None]
    with working(worker_env, "--drain") as worker:
        assert worker.wait(60) == 0
    assert Job.objects.dead().filter(pk__in=ids).count() == NOTES
    return ids


def test_a_group_is_edited_and_retried_slowly_and_its_jobs_succeed(
    open_page: OpenPage, died: list[int], worker_env: dict[str, str]
) -> None:
    visit = open_page(reverse("admin:app_list", args=["jobqueue"]))
    keys = visit.page.keyboard

    enter(visit, "Dead letters", then="Groups of errors")
    enter(visit, "ConnectionError", then="What people say of it")
    enter(visit, "Edit $.host in all jobs of the group", then="Before anything changes")
    press_until(visit, "Set it to")
    keys.press("ArrowDown")
    fill(visit, "Text to find", "exmaple")
    fill(visit, "Replace it by", "example")
    fill(visit, "Reason", "the import misspelt the host")
    fill(visit, "At most a minute", "30")
    enter(visit, "See what it would do", then=f"{NOTES} jobs have this field.")
    assert visit.page.get_by_text(RIGHT).first.is_visible()
    enter(visit, "Edit and retry", then=f"{NOTES} jobs were edited.")

    waiting = Job.objects.filter(pk__in=died)
    assert {job.payload["host"] for job in waiting} == {RIGHT}
    assert {job.status for job in waiting} == {Status.SCHEDULED}
    assert len({job.run_after for job in waiting}) > 1

    with working(worker_env):
        for _look in range(60):
            visit.page.goto(f"{reverse('admin:jobqueue_job_changelist')}?q=type:demo.deliver+status:done")
            if visit.page.locator("#result_list tbody tr").count() == NOTES:
                break
            visit.page.wait_for_timeout(500)
    assert visit.page.locator("#result_list tbody tr").count() == NOTES
    enter(visit, str(max(died)), then="It is done since")
    enter(visit, "Audit", then="the import misspelt the host")

    told = Action.objects.get(action="edit_field")
    assert (told.actor, told.reason, told.address) == ("anna", "the import misspelt the host", "127.0.0.1")
    assert sorted(told.job_ids) == sorted(died)
    assert visit.complaints == []
