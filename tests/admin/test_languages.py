"""The console in each language that has a catalogue: every page is there, and what is no text for people stays."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import translation

from jobqueue.states import Status
from tests.catalogues.catalogue import languages
from tests.factories import JobFactory

from . import hostile
from .conftest import DEAD, JOBS, page_of
from .matrix import NOBODY, ROWS
from .test_matrix import PERMISSIONS

pytestmark = pytest.mark.django_db

PAGES = [row for row in ROWS if row.method == "GET" and row.needs != NOBODY]
OVERVIEW = {"de": "Überblick", "ko": "개요"}
# A comma within a number is for people; SVG, forms and scripts read a point.
ATTRIBUTES = r"(?:x|y|[xyr][12]?|width|height|max|value|data-[\w-]+)"
NUMBER_FOR_PEOPLE = re.compile(rf"""<[^>]*\s{ATTRIBUTES}="-?\d+[,\u00a0 ]\d+\"""")


@pytest.fixture(autouse=True)
def _language_of_other_tests() -> Iterator[None]:
    """Django leaves the language of a request to the thread."""
    with translation.override(translation.get_language()):
        yield


@pytest.mark.parametrize("language", languages())
def test_every_page_is_there(language: str, client_of: Callable[..., Client]) -> None:
    client, world = client_of(*PERMISSIONS), hostile.hostile_world()
    client.defaults["HTTP_ACCEPT_LANGUAGE"] = language

    answers: dict[str, Any] = {str(row): client.get(row.url(world)) for row in PAGES}

    assert [str(row) for row in PAGES if answers[str(row)].status_code not in row.answers] == []
    assert {answer.headers["Content-Language"] for answer in answers.values()} == {language}
    pages = {name: answer.content.decode() for name, answer in answers.items() if not answer.streaming}
    assert [(name, found) for name, html in pages.items() if (found := NUMBER_FOR_PEOPLE.findall(html))] == []
    whole = [html for html in pages.values() if 'class="jobqueue-nav"' in html]
    assert len(whole) > 10
    assert [html for html in whole if OVERVIEW[language] not in html] == []


def test_browser_chooses(client_of: Callable[..., Client]) -> None:
    client = client_of(*PERMISSIONS)

    def heard(accepted: str) -> str:
        return client.get(
            reverse("admin:jobqueue_queue_changelist"), headers={"Accept-Language": accepted}
        ).content.decode()

    assert "Alle Queues pausieren…" in heard("de-AT,en;q=0.5")
    assert "Pause all queues…" in heard("fr,en;q=0.5")


def test_job_tells_its_state_in_the_language(client_of: Callable[..., Client]) -> None:
    client = client_of(*PERMISSIONS)
    client.defaults["HTTP_ACCEPT_LANGUAGE"] = "de"
    dead = JobFactory.create(status=Status.DEAD, fingerprint="f1", error_class="ValueError")

    assert "Er ist tot seit" in client.get(page_of(dead)).content.decode()
    assert "Jobs eines Typs, die an einem Fehler gestorben sind" in client.get(reverse(DEAD)).content.decode()


def test_status_is_searched_by_its_name_in_the_language_or_in_english(client_of: Callable[..., Client]) -> None:
    client = client_of(*PERMISSIONS)
    client.defaults["HTTP_ACCEPT_LANGUAGE"] = "de"
    done = JobFactory.create(status=Status.DONE, job_type="of.done")
    JobFactory.create(job_type="of.pending")

    for name in ("erledigt", "done"):
        found = client.get(reverse(JOBS), {"q": f"status:{name}"}).context["cl"].result_list
        assert [job.pk for job in found] == [done.pk], name
