"""What jobs, errors and people wrote is text on every page, never markup (case C53)."""

from collections.abc import Iterator
from html.parser import HTMLParser

import pytest
from django.test import Client
from django.urls import reverse

from jobqueue.models import Action, Attempt, Job
from jobqueue.states import Status
from tests.factories import ActionFactory, AttemptFactory, CostFactory, JobFactory, WorkerFactory

from .conftest import ACTIONS, COSTS, DEAD, JOBS, STUCK, WORKERS, page_of

pytestmark = pytest.mark.django_db

ATTACKS = [
    "<img src=x onerror=1>",
    "</script><script>1</script>",
    "\"'><svg onload=1>",
    "{{ 1 }}{% debug %}",
    "</pre><b>",
]
EVIL = "".join(ATTACKS)
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
def evil_job() -> Job:
    """A dead letter and a stuck job whose every text is an attack, with all that hangs on them."""
    names = "job_type queue result last_error error_class fingerprint dedupe_key owner worker_id".split()
    texts = dict.fromkeys(names, EVIL) | {"payload": {EVIL: [EVIL]}, "progress": {"message": EVIL}}
    JobFactory.create(expired=True, **texts | {"dedupe_key": None})
    job: Job = JobFactory.create(status=Status.DEAD, **texts)
    AttemptFactory.create(job=job, worker_id=EVIL, error_class=EVIL, error_text=EVIL, traceback=EVIL, fingerprint=EVIL)
    ActionFactory.create(job_ids=[job.pk], actor=EVIL, action=EVIL, reason=EVIL)
    CostFactory.create(job_type=EVIL, unit=EVIL)
    WorkerFactory.create(worker_id=EVIL, name=EVIL, hostname=EVIL, version=EVIL, queues=[EVIL], job_types=[EVIL])
    return job


@pytest.mark.smoke
def test_no_page_has_a_live_node(operator: Client, evil_job: Job) -> None:
    attempt = Attempt.objects.get()
    urls = [
        *(reverse(page) for page in (JOBS, DEAD, STUCK, COSTS, WORKERS, ACTIONS)),
        page_of(evil_job),
        reverse("admin:jobqueue_attempt_changelist"),
        reverse("admin:jobqueue_attempt_change", args=[attempt.pk]),
        reverse("admin:jobqueue_action_change", args=[Action.objects.get().pk]),
    ]

    for url in urls:
        answer = operator.get(url, follow=True)
        assert answer.status_code == 200, url
        assert list(live_nodes(answer.content.decode())) == [], url


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
