"""The page of a group of dead letters in a real browser, and the edit of a field for all of it."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from jobqueue import operations
from jobqueue.admin.group_rows import group_url
from jobqueue.models import Job, Release
from jobqueue.operations import Group
from jobqueue.states import Status
from tests.factories import AttemptFactory, JobFactory, ago

from .conftest import Visit
from .walk import beyond

OpenPage = Callable[..., Visit]

GROUP = Group("a1", "documents.index")
TRACE = """Traceback (most recent call last):
  File "/srv/app/documents/jobs.py", line 41, in index
    reader = pypdf.PdfReader(path)
pypdf.errors.PdfReadError: EOF marker not found in /srv/scans/0.pdf"""


@pytest.fixture
def group(transactional_db: None) -> Group:
    """Make a group of dead letters that somebody has looked at already."""
    for number in reversed(range(24)):
        job = JobFactory.create(
            status=Status.DEAD, fingerprint="a1", error_class="pypdf.errors.PdfReadError", job_type="documents.index",
            last_error=f"EOF marker not found in /srv/scans/{number}.pdf", finished_at=ago(2400 * number),
            payload={
                "path": f"/srv/scans/{number}.pdf", "pages": [{"no": 1, "ocr": True}, {"no": 2, "ocr": False}],
                "options": {"language": "de", "token": "hunter2"}, "priority": 3, "title": None,
            },
        )  # fmt: skip
    AttemptFactory.create(job=job, error_class="pypdf.errors.PdfReadError", traceback=TRACE)
    now = timezone.now()
    for version, hours in (("2.3.1", 200), ("2.4.0", 9)):
        Release.objects.create(version=version, first_seen_at=now - timedelta(hours=hours))
    operations.note_group(
        GROUP, "The scanner wrote files before they were whole.\nFixed in 2.4.1: retry then.", actor="anna"
    )
    operations.mute_groups([Group("b2", "probe.ok")], now + timedelta(days=1), actor="anna", reason="known")
    JobFactory.create(status=Status.DEAD, fingerprint="b2")
    return GROUP


def edit(visit: Visit, *, then: str) -> None:
    """Say that the folder of the path is another one, and look at what that does."""
    visit.page.get_by_role("button", name="Edit $.path in all jobs of the group").click()
    visit.page.get_by_label("Replace in its text").check()
    visit.page.get_by_label("Text to find").fill("/srv/scans/")
    visit.page.get_by_label("Replace it by").fill("/srv/whole/")
    visit.page.get_by_label(then).check()
    visit.page.get_by_label("Reason").fill("the folder has moved")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_pages_are_accessible(open_page: OpenPage, group: Group, dark: bool) -> None:
    visit = open_page(group_url(group), dark=dark)
    visit.page.get_by_text("Traceback", exact=True).click()
    visit.picture("group")
    assert visit.violations() == []
    edit(visit, then="Put the jobs back")
    visit.picture("edit-field")
    assert visit.violations() == []
    visit.page.get_by_role("button", name="See what it would do").click()
    visit.page.get_by_text("24 jobs have this field.").wait_for()
    visit.picture("edit-field-preview")
    assert visit.violations() == []
    visit.go(reverse("admin:jobqueue_deadletter_changelist"))
    visit.page.get_by_text("1 muted group").click()
    visit.picture("groups-muted")
    assert visit.violations() == []
    assert visit.complaints == []


def test_the_pages_fit_320_pixels(open_page: OpenPage, group: Group) -> None:
    visit = open_page(group_url(group), width=320)
    visit.picture("group-320")
    assert beyond(visit.page) == []
    edit(visit, then="Put the jobs back")
    visit.picture("edit-field-320")
    assert beyond(visit.page) == []
    visit.page.get_by_role("button", name="See what it would do").click()
    visit.page.get_by_text("24 jobs have this field.").wait_for()
    visit.picture("edit-field-preview-320")
    assert beyond(visit.page) == []


def test_a_group_is_taken_noted_edited_and_put_back(open_page: OpenPage, group: Group) -> None:
    visit = open_page(group_url(group))
    visit.page.get_by_label("In the hands of").fill("anna")
    visit.page.get_by_role("button", name="Hand over").click()
    visit.page.get_by_text("with anna").wait_for()
    visit.page.get_by_label("What is known of it").fill("the folder has moved")
    visit.page.get_by_role("button", name="Save the note").click()
    visit.page.get_by_text("The note was saved.").wait_for()

    edit(visit, then="Put the jobs back")
    visit.page.get_by_role("button", name="See what it would do").click()
    visit.page.get_by_role("button", name="Edit and retry").click()
    visit.page.get_by_text("24 jobs were edited.").wait_for()

    assert Job.objects.filter(payload__path__startswith="/srv/whole/", status=Status.PENDING).count() == 24
    visit.go(group_url(group))
    visit.page.get_by_text("No dead letter of this group is left.").wait_for()
    assert visit.page.get_by_role("row").filter(has_text="Edit a field").count() == 1
    assert visit.complaints == []
