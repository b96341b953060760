"""A project's own subclass of an admin: its get_queryset() and its say on single jobs hold on every path."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib import admin
from django.db import connection
from django.http import HttpRequest
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from jobqueue.admin import guarding
from jobqueue.admin.dead_letters import DeadLetterAdmin
from jobqueue.admin.jobs import JobAdmin
from jobqueue.admin.stuck import StuckJobAdmin
from jobqueue.models import Action, DeadLetter, Job, StuckJob
from jobqueue.states import Status
from tests.factories import JobFactory

from .conftest import DEAD, JOBS, STUCK, act_url, page_of
from .test_acting import choose, hidden_fields, statuses

pytestmark = pytest.mark.django_db

MODELS: dict[str, Any] = {JOBS: Job, DEAD: DeadLetter, STUCK: StuckJob}
VERBS = [(JOBS, "cancel", {}), (DEAD, "retry", {"status": Status.DEAD}), (STUCK, "release", {"expired": True})]


class OwnJobs:
    """Shows the jobs that belong to the user who asks."""

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).filter(owner=request.user.get_username())  # type: ignore[misc]


class SomeJobs:
    """Lets jobs of the queue "mine" be seen and acted on, and notes how often it was asked."""

    asked: list[int]

    def _allows(self, obj: Any) -> bool:
        if obj is not None:
            self.asked.append(obj.pk)
        return obj is None or obj.queue == "mine"

    def has_retry_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_retry_permission(request, obj) and self._allows(obj)  # type: ignore[misc]

    def has_cancel_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_cancel_permission(request, obj) and self._allows(obj)  # type: ignore[misc]

    def has_release_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_release_permission(request, obj) and self._allows(obj)  # type: ignore[misc]


@pytest.fixture
def subclassed() -> Iterator[Callable[[type], list[Any]]]:
    """Return the function that has the three lists be those of a project, with a mixin of its own."""
    originals = {model: admin.site._registry[model] for model in MODELS.values()}
    bases = {Job: JobAdmin, DeadLetter: DeadLetterAdmin, StuckJob: StuckJobAdmin}

    def use(mixin: type) -> list[Any]:
        made = []
        for model, original in originals.items():
            own = type(f"Own{original.__class__.__name__}", (mixin, bases[model]), {"asked": []})
            # In the place of the instance that the addresses lead to.
            original.__class__ = own
            made.append(original)
        return made

    yield use
    for model, original in originals.items():
        original.__class__ = bases[model]


@pytest.mark.parametrize(("page", "verb", "fields"), VERBS)
def test_ids_of_jobs_that_the_queryset_does_not_show_are_refused(
    operator: Client, subclassed: Callable[[type], Any], page: str, verb: str, fields: dict[str, Any]
) -> None:
    subclassed(OwnJobs)
    own, other = JobFactory.create(owner="operator", **fields), JobFactory.create(owner="anna", **fields)
    before = other.status

    chosen = choose(verb, own, other, confirmed="1", reason="")
    answer = operator.post(reverse(page), chosen, follow=True)

    assert statuses([other]) == {before}
    assert statuses([own]) != {before}
    assert f"#{other.pk} is not in this list any more" in answer.content.decode()


@pytest.mark.parametrize(("page", "verb", "fields"), VERBS)
def test_all_that_match_are_those_that_the_queryset_shows(
    operator: Client, subclassed: Callable[[type], Any], page: str, verb: str, fields: dict[str, Any]
) -> None:
    subclassed(OwnJobs)
    own = JobFactory.create_batch(3, owner="operator", **fields)
    others = JobFactory.create_batch(2, owner="anna", **fields)
    before = others[0].status

    html = operator.post(reverse(page), choose(verb, own[0], across=True)).content.decode()
    assert "3 jobs" in html
    operator.post(reverse(page), hidden_fields(html))

    assert statuses(others) == {before}
    assert before not in statuses(own)
    assert {job_id for action in Action.objects.all() for job_id in action.job_ids} == {job.pk for job in own}


def test_lists_tabs_searches_and_single_jobs_keep_to_the_queryset(
    operator: Client, subclassed: Callable[[type], Any]
) -> None:
    subclassed(OwnJobs)
    own = JobFactory.create(owner="operator", status=Status.DEAD, queue="seen")
    other = JobFactory.create(owner="anna", status=Status.DEAD, queue="unseen", fingerprint="other")

    for page, query in ((JOBS, {}), (JOBS, {"q": f"id:{own.pk},{other.pk}"}), (DEAD, {"q": "status:dead"})):
        answer = operator.get(reverse(page), query)
        assert [job.pk for job in answer.context["cl"].result_list] == [own.pk]
        assert "unseen" not in answer.content.decode()
    tabs = operator.get(reverse(JOBS)).context["cl"].tabs
    assert {str(tab.label): tab.jobs for tab in tabs}["dead"] == "1"
    assert operator.get(page_of(other)).status_code == 302
    assert operator.post(act_url(other, "retry")).status_code == 404
    assert operator.get(reverse("admin:jobqueue_job_json", args=[other.pk, "payload"])).status_code == 404
    assert statuses([other]) == {Status.DEAD}


@pytest.mark.parametrize(("page", "verb", "fields"), VERBS)
@pytest.mark.parametrize("across", [False, True])
def test_a_say_on_single_jobs_is_asked_for_each(
    operator: Client,
    subclassed: Callable[[type], Any],
    page: str,
    verb: str,
    fields: dict[str, Any],
    across: bool,
) -> None:
    subclassed(SomeJobs)
    mine, others = JobFactory.create_batch(3, queue="mine", **fields), JobFactory.create_batch(2, queue="q", **fields)
    before = others[0].status

    chosen = choose(verb, *mine, *others, across=across)
    answer = operator.post(reverse(page), chosen, follow=True)
    if 'name="confirmed"' in answer.content.decode():
        answer = operator.post(
            reverse(page), chosen | hidden_fields(answer.content.decode()) | _ids(chosen), follow=True
        )

    assert before not in statuses(mine)
    assert statuses(others) == {before}
    assert "2 jobs were refused" in answer.content.decode()
    assert "may not be touched by you" in answer.content.decode()


def _ids(chosen: dict[str, object]) -> dict[str, object]:
    return {"_selected_action": chosen["_selected_action"]}


def test_one_job_is_asked_about_before_it_is_acted_on(operator: Client, subclassed: Callable[[type], Any]) -> None:
    subclassed(SomeJobs)
    job = JobFactory.create(status=Status.DEAD, queue="q")

    operator.post(act_url(job, "retry"))

    assert statuses([job]) == {Status.DEAD}


def test_rows_are_read_in_batches_for_a_say_on_each(
    operator: Client, subclassed: Callable[[type], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guarding, "ROWS", 4)
    admins = subclassed(SomeJobs)
    jobs = JobFactory.create_batch(10, status=Status.DEAD, queue="mine")

    with CaptureQueriesContext(connection) as queries:
        operator.post(reverse(DEAD), choose("retry", *jobs))

    reads = [
        one["sql"] for one in queries.captured_queries if one["sql"].startswith("SELECT") and '"id" IN (' in one["sql"]
    ]
    assert len([sql for sql in reads if '"queue"' in sql and "error_head" in sql]) >= 3
    assert sorted({job_id for each in admins for job_id in each.asked}) == [job.pk for job in jobs]
    assert statuses(jobs) == {Status.PENDING}
