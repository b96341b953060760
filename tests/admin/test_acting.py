"""Acting from lists and pages: what is asked, what is done, what is said."""

import re
from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse

from jobqueue.models import Action, Job
from jobqueue.states import Status
from tests.factories import JobFactory

from .conftest import DEAD, JOBS, STUCK, act_url

pytestmark = pytest.mark.django_db


def choose(verb: str, *jobs: Job, across: bool = False, **data: object) -> dict[str, object]:
    """Return what the list sends when rows are ticked and the action is chosen."""
    return {
        "action": verb, "index": 0, "select_across": int(across), "_selected_action": [job.pk for job in jobs], **data
    }  # fmt: skip


def hidden_fields(html: str) -> dict[str, object]:
    """Return what the page that asks would send, with its visible fields as they stand."""
    fields: dict[str, object] = {}
    for tag in re.findall(r"<input[^>]*>", html):
        attributes = dict(re.findall(r'(\w+)="([^"]*)"', tag))
        if "name" in attributes and attributes["name"] not in ("q", "csrfmiddlewaretoken"):
            fields[attributes["name"]] = attributes.get("value", "")
    return fields


def dead(jobs: int, **fields: object) -> list[Job]:
    return JobFactory.create_batch(jobs, status=Status.DEAD, **fields)


def statuses(jobs: list[Job]) -> set[int]:
    return set(Job.objects.filter(pk__in=[job.pk for job in jobs]).values_list("status", flat=True))


def test_ticked_dead_letters_are_retried_at_once_and_counted(operator: Client) -> None:
    jobs = dead(3)

    answer = operator.post(reverse(DEAD), choose("retry", *jobs[:2]), follow=True)

    assert statuses(jobs[:2]) == {Status.PENDING}
    assert statuses(jobs[2:]) == {Status.DEAD}
    assert "2 jobs were put back." in answer.content.decode()


@pytest.mark.parametrize(("page", "verb"), [(DEAD, "discard"), (JOBS, "cancel")])
def test_what_is_final_is_asked_first(operator: Client, page: str, verb: str) -> None:
    job = JobFactory.create(status=Status.DEAD if verb == "discard" else Status.PENDING)

    asked = operator.post(reverse(page), choose(verb, job))

    html = asked.content.decode()
    assert asked.status_code == 200
    assert "1 job" in html
    assert '<th scope="row">probe.ok</th><td class="jobqueue-number">1</td>' in html
    assert statuses([job]) == {job.status}
    answered = operator.post(reverse(page), hidden_fields(html) | {"reason": "not needed"})
    assert answered.status_code == 302
    assert statuses([job]) == {Status.CANCELLED}
    assert Action.objects.get().reason == "not needed"


def test_all_that_match_the_filter_are_taken_not_the_visible_page(operator: Client) -> None:
    """Case C130, small; the hundred thousand are in test_scale."""
    chosen, others = dead(130, queue="a"), dead(5, queue="b")
    url = f"{reverse(DEAD)}?queue=a"

    html = operator.post(url, choose("retry", chosen[0], across=True)).content.decode()
    assert "130 jobs" in html
    assert statuses(chosen) == {Status.DEAD}
    answer = operator.post(url, hidden_fields(html), follow=True)

    assert statuses(chosen) == {Status.SCHEDULED}
    assert statuses(others) == {Status.DEAD}
    assert "130 jobs were put back." in answer.content.decode()
    assert answer.redirect_chain == [(url, 302)]


def test_jobs_that_come_to_match_after_the_question_are_left_alone(operator: Client) -> None:
    first = dead(2)
    html = operator.post(reverse(DEAD), choose("discard", first[0], across=True)).content.decode()
    later = dead(2)

    operator.post(reverse(DEAD), hidden_fields(html))

    assert statuses(first) == {Status.CANCELLED}
    assert statuses(later) == {Status.DEAD}


def test_a_group_of_errors_is_retried_as_a_whole(operator: Client) -> None:
    group, others = dead(4, fingerprint="f1", error_class="ValueError"), dead(2, fingerprint="f2")
    listed = operator.get(reverse(DEAD))
    assert [(group.jobs, group.error_class) for group in listed.context["groups"]] == [
        (4, "ValueError"),
        (2, "RuntimeError"),
    ]
    url = f"{reverse(DEAD)}?{listed.context['groups'][0].query}"

    html = operator.post(url, choose("retry", group[0], across=True)).content.decode()
    answer = operator.post(url, hidden_fields(html), follow=True)

    assert statuses(group) == {Status.PENDING}
    assert statuses(others) == {Status.DEAD}
    assert answer.redirect_chain == [(reverse(DEAD), 302)]


def test_dead_letters_without_a_fingerprint_are_a_group_too(operator: Client) -> None:
    bare, others = dead(2, fingerprint=None, error_class=None, last_error=None), dead(1)
    query = next(group.query for group in operator.get(reverse(DEAD)).context["groups"] if group.jobs == 2)

    html = operator.post(f"{reverse(DEAD)}?{query}", choose("discard", bare[0], across=True)).content.decode()
    operator.post(f"{reverse(DEAD)}?{query}", hidden_fields(html))

    assert statuses(bare) == {Status.CANCELLED}
    assert statuses(others) == {Status.DEAD}


def test_the_spread_is_offered_and_used(operator: Client) -> None:
    """Case C78."""
    jobs = dead(5)
    fields = hidden_fields(operator.post(reverse(DEAD), choose("retry", jobs[0], across=True)).content.decode())
    assert fields["spread_seconds"] == "0"

    operator.post(reverse(DEAD), fields | {"spread_seconds": "3600"})

    assert statuses(jobs) == {Status.SCHEDULED}
    assert max(job.run_after - job.updated_at for job in Job.objects.all()) <= timedelta(hours=1)


@pytest.mark.parametrize(
    "wrong", [{"spread_seconds": "-1"}, {"spread_seconds": "soon"}, {"reason": "x" * 501}, {"newest": ""}]
)
def test_a_wrong_answer_is_asked_again_and_changes_nothing(operator: Client, wrong: dict[str, str]) -> None:
    jobs = dead(2)
    fields = hidden_fields(operator.post(reverse(DEAD), choose("retry", jobs[0], across=True)).content.decode())

    answer = operator.post(reverse(DEAD), fields | wrong)

    assert answer.status_code == 200
    assert statuses(jobs) == {Status.DEAD}


def test_refusals_are_told_with_their_reasons(operator: Client) -> None:
    holder, blocked, done = (
        JobFactory.create(dedupe_key="k"),
        dead(1, dedupe_key="k")[0],
        JobFactory.create(status=Status.DONE),
    )

    html = operator.post(reverse(JOBS), choose("retry", blocked, done), follow=True).content.decode()

    assert f"2 jobs were refused: #{blocked.pk} blocked by #{holder.pk}; #{done.pk} is done" in html


def test_a_job_that_left_the_list_meanwhile_is_answered_for(operator: Client) -> None:
    job = JobFactory.create(status=Status.DEAD)
    Job.objects.redrive(job.pk)

    html = operator.post(reverse(DEAD), choose("retry", job), follow=True).content.decode()

    assert f"1 job was refused: #{job.pk} is not in this list any more" in html


@pytest.mark.parametrize(
    ("verb", "fields", "after", "said"),
    [
        ("retry", {"status": Status.DEAD}, Status.PENDING, "1 job was put back."),
        ("discard", {"status": Status.DEAD}, Status.CANCELLED, "1 dead letter was discarded."),
        ("cancel", {}, Status.CANCELLED, "1 job was cancelled."),
        ("release", {"expired": True}, Status.PENDING, "1 job was given back."),
    ],
)
def test_one_job_is_acted_on_from_its_page(
    operator: Client, verb: str, fields: dict[str, object], after: Status, said: str
) -> None:
    job = JobFactory.create(**fields)

    answer = operator.post(act_url(job, verb), {"reason": "because"}, follow=True)

    assert statuses([job]) == {after}
    assert said in answer.content.decode()
    assert "because" in answer.content.decode()  # in the job's own history (case C134)


def test_a_stuck_job_is_released_from_its_list(operator: Client) -> None:
    stuck, healthy = JobFactory.create(expired=True), JobFactory.create(status=Status.RUNNING)
    html = operator.get(reverse(STUCK)).content.decode()
    assert "its lease ran out" in html
    assert f">{healthy.pk}</a>" not in html

    operator.post(reverse(STUCK), choose("release", stuck))

    assert statuses([stuck]) == {Status.PENDING}


def test_a_page_offers_what_the_state_allows(operator: Client) -> None:
    offered = {
        Status.PENDING: ["cancel"],
        Status.SCHEDULED: ["cancel"],
        Status.RUNNING: ["cancel"],
        Status.DONE: [],
        Status.CANCELLED: [],
        Status.DEAD: ["retry", "discard"],
    }

    for status, verbs in offered.items():
        job = JobFactory.create(status=status)
        html = operator.get(reverse("admin:jobqueue_job_change", args=[job.pk])).content.decode()
        assert re.findall(r'action="[^"]*/act/(\w+)/"', html) == verbs, status
