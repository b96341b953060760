"""What jobs, errors and people wrote is text on every page, never markup (case C53)."""

from collections.abc import Callable, Iterator
from html.parser import HTMLParser

import pytest
from django.apps import apps
from django.db.models import JSONField, TextField
from django.test import Client
from django.urls import reverse

from jobqueue.models import Job

from . import hostile
from .conftest import ACTIONS, DEAD, JOBS, page_of
from .matrix import NOBODY, ROWS, World
from .test_matrix import PERMISSIONS

pytestmark = pytest.mark.django_db

EVIL = hostile.EVIL
# Nothing that the theme itself uses.
FORBIDDEN_TAGS = {"b", "iframe", "object", "style"}


class Tags(HTMLParser):
    """Collects the tags of a page with their attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def live_nodes(html: str) -> Iterator[str]:
    """Yield what could run: handlers in attributes, scripts without a file, tags of the attacks, inline styles."""
    parser = Tags()
    parser.feed(html)
    for tag, attributes in parser.found:
        own_file = (attributes.get("src") or "").startswith("/static/")
        handler = any(name.startswith("on") or name == "style" for name in attributes)
        if (
            handler
            or tag in FORBIDDEN_TAGS
            or (tag in ("script", "img") and not own_file and not _is_jsi18n(attributes))
        ):
            yield f"{tag} {attributes}"


def _is_jsi18n(attributes: dict[str, str | None]) -> bool:
    return attributes.get("src") == "/admin/jsi18n/"


@pytest.fixture
def world(db: None) -> World:
    """Return rows whose every text is an attack."""
    return hostile.hostile_world()


@pytest.fixture
def evil_job(world: World) -> Job:
    """Return a dead letter whose every text is an attack."""
    return world.dead


@pytest.fixture
def operator(client_of: Callable[..., Client]) -> Client:
    """Return the client of somebody who may do everything."""
    return client_of(*PERMISSIONS, username="mallory")


def test_every_text_of_every_table_is_an_attack(world: World) -> None:
    missed = [
        f"{model.__name__}.{column.name}"
        for model in apps.get_app_config("jobqueue").get_models()
        if model._meta.managed and not model._meta.proxy
        for column in model._meta.concrete_fields
        if isinstance(column, TextField | JSONField)
        and not any(
            hostile.ATTACKS[0] in str(value) for value in model._default_manager.values_list(column.name, flat=True)
        )
    ]

    assert set(missed) <= hostile.ELSEWHERE, "give them an attack in tests/admin/hostile.py"


@pytest.mark.smoke
def test_no_page_has_a_live_node(operator: Client, world: World) -> None:
    pages = [row for row in ROWS if row.method == "GET" and row.needs != NOBODY]

    for row in pages:
        answer = operator.get(row.url(world), follow=True)
        assert answer.status_code in row.answers, row
        if answer["Content-Type"].startswith("text/html"):
            assert list(live_nodes(answer.content.decode())) == [], row


def test_no_page_that_answers_a_form_has_a_live_node(operator: Client, world: World) -> None:
    for row in ROWS:
        if row.method == "POST" and row.needs != NOBODY:
            data = dict.fromkeys(("reason", "note", "value", "field", "name", "queue"), EVIL) | row.data(world)
            answer = operator.post(row.url(world), data, follow=True)
            if answer["Content-Type"].startswith("text/html"):
                assert list(live_nodes(answer.content.decode())) == [], row


def test_the_start_of_the_console_has_no_live_node(operator: Client, world: World) -> None:
    for url in (reverse("admin:index"), reverse("admin:app_list", args=["jobqueue"])):
        answer = operator.get(url)
        assert answer.status_code == 200
        assert list(live_nodes(answer.content.decode())) == []


def test_the_texts_are_shown_as_they_are(operator: Client, evil_job: Job) -> None:
    html = operator.get(page_of(evil_job)).content.decode()

    assert "&lt;img src=x onerror=1&gt;&lt;/script&gt;" in html
    assert "{{ 1 }}" in html


def test_the_pages_that_ask_and_answer_are_clean_too(operator: Client, evil_job: Job) -> None:
    chosen = {"action": "discard", "index": 0, "select_across": 1, "_selected_action": evil_job.pk}

    asked = operator.post(reverse(DEAD), chosen)
    answered = operator.post(
        reverse(DEAD), chosen | {"confirmed": 1, "newest": evil_job.pk, "reason": EVIL}, follow=True
    )
    refused = operator.post(f"{page_of(evil_job).removesuffix('change/')}act/cancel/", {"reason": EVIL}, follow=True)

    for answer in (asked, answered, refused):
        assert answer.status_code == 200
        assert list(live_nodes(answer.content.decode())) == []


def test_filters_and_searches_are_echoed_as_text(operator: Client, evil_job: Job) -> None:
    for page, query in (
        (JOBS, {"q": EVIL}),
        (JOBS, {"queue": EVIL}),
        (DEAD, {"fingerprint__exact": EVIL}),
        (ACTIONS, {"q": EVIL}),
    ):
        answer = operator.get(reverse(page), query)
        assert answer.status_code == 200
        assert list(live_nodes(answer.content.decode())) == []


def test_the_json_is_a_file_that_no_browser_runs(operator: Client, evil_job: Job) -> None:
    answer = operator.get(reverse("admin:jobqueue_job_json", args=[evil_job.pk, "payload"]))

    assert answer["Content-Type"] == "application/json"
    assert answer["Content-Disposition"].startswith("attachment;")
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer.json() == {EVIL: [EVIL]}
