"""Dead letters by group, and acting on a whole group or set: the preview, the steps, the report."""

import re
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from jobqueue.admin import dead_letters, preview, running
from jobqueue.models import Action, Job
from jobqueue.ops.dead_groups import dead_groups
from jobqueue.states import Status
from tests.factories import CostFactory, JobFactory, StatFactory, ago

from .conftest import DEAD, JOBS
from .test_acting import choose, dead, hidden_fields, statuses

pytestmark = pytest.mark.django_db


@pytest.fixture
def short_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each step do one batch of two jobs."""
    monkeypatch.setattr(running, "BATCH", 2)
    monkeypatch.setattr(running, "STEP_SECONDS", 0)


def ask(client: Client, *, verb: str = "retry", query: str = "") -> str:
    """Return the page that asks about all dead letters that match."""
    newest = Job.objects.order_by("-pk").first()
    assert newest is not None
    answer = client.post(f"{reverse(DEAD)}{query}", choose(verb, newest, across=True))
    assert answer.status_code == 200
    return answer.content.decode()


def go_on(client: Client, html: str, query: str = "", **data: Any) -> str:
    """Send the form of a page, and return the next one."""
    return client.post(f"{reverse(DEAD)}{query}", hidden_fields(html) | data, follow=True).content.decode()


def cells(html: str, table: int = 0) -> list[list[str]]:
    """Return the texts of the rows of a table of ours."""
    found = re.findall(r'<table class="jobqueue-table.*?</table>', html, re.DOTALL)[table]
    return [
        [re.sub(r"<[^>]*>", "", cell).strip() for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)]
        for row in re.findall(r"<tr>(.*?)</tr>", found, re.DOTALL)
    ]


def test_groups_are_counted_by_window_with_their_trend(operator: Client) -> None:
    for hours in (0.2, 0.4, 3, 100, 300):
        JobFactory.create(status=Status.DEAD, finished_at=ago(hours * 3600), last_error="no route to 10.0.0.7")

    html = operator.get(reverse(DEAD)).content.decode()

    head, row = cells(html)
    assert head[2:7] == ["1 hour", "24 hours", "7 days", "All", "Trend"]
    assert row[0] == "RuntimeErrorno route to &lt;n&gt;"
    assert row[1:6] == ["probe.ok", "2", "3", "4", "5"]
    assert row[6].startswith("rising")
    assert "16.0 times the day&#x27;s mean" in row[6]


def test_a_type_of_a_group_is_not_taken_for_another(operator: Client) -> None:
    one, other = dead(3, job_type="a"), dead(2, job_type="b")
    groups = operator.get(reverse(DEAD)).context["groups"]
    assert [(row.group.job_type, row.jobs) for row in groups] == [("a", 3), ("b", 2)]
    query = f"?{groups[0].query}"
    assert operator.get(f"{reverse(DEAD)}{query}").context["cl"].result_count == 3

    answer = operator.post(f"{reverse(DEAD)}{query}", hidden_fields(ask(operator, query=query)), follow=True)

    assert statuses(one) == {Status.PENDING}
    assert statuses(other) == {Status.DEAD}
    assert answer.redirect_chain == [(reverse(DEAD), 302)]


def test_a_filter_stays_when_a_group_is_dealt_with(operator: Client) -> None:
    dead(2, job_type="a", queue="q")
    group = operator.get(f"{reverse(DEAD)}?job_type=a&queue=q").context["groups"][0]

    html = ask(operator, query=f"?{group.query}")
    answer = operator.post(f"{reverse(DEAD)}?{group.query}", hidden_fields(html))

    assert answer.headers["Location"] == f"{reverse(DEAD)}?job_type=a&queue=q"


def test_counts_that_leave_out_older_ones_say_so(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    dead(5)
    monkeypatch.setattr(dead_letters, "dead_groups", partial(dead_groups, reach=3))

    html = operator.get(reverse(DEAD)).content.decode()

    row = cells(html)[1]
    assert row[2:7] == ["≥ 3"] * 4 + ["unknown"]
    assert row[7].startswith("≤ ")
    assert "there may be more" in html


def test_the_page_of_groups_costs_few_queries(operator: Client) -> None:
    for number in range(60):
        dead(1, fingerprint=f"f{number}")

    with CaptureQueriesContext(connection) as queries:
        operator.get(reverse(DEAD))

    reads = [query for query in queries if query["sql"].startswith("SELECT") and "set_config" not in query["sql"]]
    assert len(reads) <= 15


def test_whoever_may_only_look_sees_no_buttons(client_of: Callable[..., Client]) -> None:
    dead(2)

    html = client_of("view_job").get(reverse(DEAD)).content.decode()

    assert "All of the group" not in html
    assert 'name="action"' not in html


def test_texts_of_a_group_and_a_preview_are_escaped_and_masked(operator: Client) -> None:
    nasty = "<img src=x onerror=1>"
    dead(1, job_type=nasty, fingerprint=nasty, error_class=nasty, last_error=f"{nasty} token=hunter2")

    page, asked = operator.get(reverse(DEAD)).content.decode(), ask(operator)

    for html in (page, asked):
        assert nasty not in html
        assert "&lt;img src=x onerror=" in html
    assert page.count("token=***") == 2  # in the group, and in the list
    assert "hunter2" not in page


def test_the_preview_tells_types_ages_and_the_estimated_cost(operator: Client) -> None:
    for hours, job_type in ((0.5, "a"), (2, "a"), (30, "a"), (300, "b")):
        JobFactory.create(status=Status.DEAD, finished_at=ago(hours * 3600), job_type=job_type)
    StatFactory.create(job_type="a", jobs=4)
    CostFactory.create(job_type="a", amount="2")

    html = ask(operator)

    assert cells(html)[1:] == [
        ["a", "3", "1", "1", "1", "0"],
        ["b", "1", "0", "0", "0", "1"],
        ["All types", "4", "1", "1", "1", "1"],
    ]
    assert "<strong>1.50 USD</strong>" in html
    assert "No attempt in that time: b." in html


@pytest.mark.parametrize(("verb", "shown"), [("retry", False), ("discard", True)])
def test_costs_are_for_whoever_may_see_them_and_for_a_retry(
    client_of: Callable[..., Client], verb: str, shown: bool
) -> None:
    dead(1)
    permissions = ("view_job", "retry_job", "discard_job", *(["view_cost"] if shown else []))

    assert "Estimated cost" not in ask(client_of(*permissions), verb=verb)


def test_a_set_is_retried_slowly_at_a_rate(operator: Client) -> None:
    jobs = dead(40)

    go_on(operator, ask(operator), a_minute="10")

    delays = [job.run_after - job.updated_at for job in Job.objects.filter(pk__in=[job.pk for job in jobs])]
    assert statuses(jobs) == {Status.SCHEDULED}
    assert max(delays) <= timedelta(minutes=4)
    assert max(delays) > timedelta(minutes=2)


def test_so_many_are_taken_oldest_first(operator: Client) -> None:
    jobs = dead(7)

    html = go_on(operator, ask(operator), most="3")

    assert statuses(jobs[:3]) == {Status.PENDING}
    assert statuses(jobs[3:]) == {Status.DEAD}
    assert "3 jobs were put back." in html


@pytest.mark.parametrize(
    ("wrong", "said"),
    [({"a_minute": "0"}, "greater than or equal to 1"), ({"most": "-2"}, "greater than or equal to 1")],
)
def test_a_wrong_number_is_asked_again(operator: Client, wrong: dict[str, str], said: str) -> None:
    jobs = dead(2)

    html = go_on(operator, ask(operator), **wrong)

    assert said in html
    assert statuses(jobs) == {Status.DEAD}


def test_a_rate_that_takes_too_long_or_has_no_number_is_refused(operator: Client) -> None:
    jobs = dead(2)
    html = ask(operator)

    assert "more than seven days" in go_on(operator, html, a_minute="1", jobs="20000")
    assert "say how many to retry" in go_on(operator, html, a_minute="1", jobs="")
    assert statuses(jobs) == {Status.DEAD}


@pytest.mark.usefixtures("short_steps")
def test_a_large_set_is_done_in_steps_and_ends_in_a_report(operator: Client) -> None:
    jobs, other = dead(5, queue="a"), dead(1, queue="b")
    held = JobFactory.create(dedupe_key="k", job_type="holder")
    blocked = dead(1, queue="a", dedupe_key="k")[0]
    query = "?queue=a&p=1"

    first = go_on(operator, ask(operator, query=query), query, reason="fixed in 2.4")
    assert '<progress id="jobqueue-progress" max="6" value="2">33 %</progress>' in first
    assert "Retry: 33 % done" in first
    assert statuses(jobs) == {Status.PENDING, Status.DEAD}
    second = go_on(operator, first, query)
    assert "2 jobs were put back." in first
    assert "4 jobs were put back." in second
    report = go_on(operator, second, query)

    assert "Retry: report" in report
    assert "5 jobs were put back." in report
    assert cells(report)[1] == ["blocked by another job", "1"]
    assert f"#{blocked.pk}</a> blocked by #{held.pk}" in report
    assert statuses(jobs) == {Status.PENDING}
    assert statuses(other) == {Status.DEAD}
    assert set(Action.objects.values_list("reason", flat=True)) == {"fixed in 2.4"}
    assert sorted(pk for row in Action.objects.all() for pk in row.job_ids) == [job.pk for job in jobs]
    assert 'href="/admin/jobqueue/deadletter/?queue=a"' in report


@pytest.mark.usefixtures("short_steps")
def test_a_set_that_nobody_can_count_in_time_is_done_all_the_same(
    operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = dead(3)
    monkeypatch.setattr(preview, "read_within", lambda *_, **__: None)
    asked = ask(operator)
    assert "An unknown number of jobs" in asked
    assert "too many to count them by type" in asked

    first = go_on(operator, asked, spread_seconds="")
    last = go_on(operator, first)

    assert "Retry: under way" in first
    assert "2 jobs so far" in first
    assert "<progress" not in first
    assert "3 jobs were put back." in last
    assert statuses(jobs) == {Status.SCHEDULED}  # nobody knows how many there are: they are spread


@pytest.mark.usefixtures("short_steps")
def test_jobs_that_do_not_change_are_met_once(operator: Client) -> None:
    for key in "abc":
        JobFactory.create(dedupe_key=key)
        JobFactory.create(status=Status.DEAD, dedupe_key=key)
    jobs = dead(2)

    html = ask(operator)
    for _step in range(3):
        html = go_on(operator, html)

    assert "Retry: report" in html
    assert cells(html)[1] == ["blocked by another job", "3"]
    assert statuses(jobs) == {Status.PENDING}


def test_a_job_enqueued_after_the_question_is_not_cancelled(operator: Client) -> None:
    first = JobFactory.create()
    html = operator.post(reverse(JOBS), choose("cancel", first, across=True)).content.decode()
    later = JobFactory.create()

    operator.post(reverse(JOBS), hidden_fields(html))

    assert (statuses([first]), statuses([later])) == ({Status.CANCELLED}, {Status.PENDING})


@pytest.mark.usefixtures("short_steps")
def test_a_run_is_stopped_and_goes_on_with_the_rest(operator: Client) -> None:
    jobs = dead(5)
    first = go_on(operator, ask(operator, verb="discard"))

    stopped = go_on(operator, first, stop="1")

    assert "Discard: stopped" in stopped
    assert "2 dead letters were discarded." in stopped
    assert [job.status for job in Job.objects.order_by("pk")] == [Status.CANCELLED] * 2 + [Status.DEAD] * 3
    last = go_on(operator, go_on(operator, stopped))
    assert "5 dead letters were discarded." in last
    assert statuses(jobs) == {Status.CANCELLED}


@pytest.mark.usefixtures("short_steps")
def test_what_dies_meanwhile_is_left_alone(operator: Client) -> None:
    """Also a job with an old id, and one of the set that dies again (sidekiq#6481), and a step that is sent twice."""
    jobs, running_one = dead(2), JobFactory.create(status=Status.RUNNING)
    jobs += dead(2)
    asked = ask(operator)
    first = go_on(operator, asked)
    Job.objects.filter(pk__in=[running_one.pk, jobs[0].pk]).update(status=Status.DEAD, finished_at=ago(0))
    later = dead(1)[0]

    go_on(operator, first)
    go_on(operator, first)
    go_on(operator, go_on(operator, asked))

    assert statuses([running_one, jobs[0], later]) == {Status.DEAD}
    assert statuses(jobs[1:]) == {Status.PENDING}
    assert sum(len(row.job_ids) for row in Action.objects.all()) == 4


@pytest.mark.usefixtures("short_steps")
def test_a_step_asks_for_the_permission_and_takes_no_other_persons_page(client_of: Callable[..., Client]) -> None:
    jobs = dead(4)
    anna = client_of("view_job", "retry_job", "discard_job", username="anna")
    bert = client_of("view_job", "retry_job", username="bert")
    carl = client_of("view_job", username="carl")
    page = go_on(anna, ask(anna))
    fields = hidden_fields(page)

    assert carl.post(reverse(DEAD), fields).status_code == 403
    assert "out of date" in go_on(bert, page)
    assert "out of date" in go_on(anna, page, action="discard")
    assert "out of date" in go_on(anna, page, run=str(fields["run"])[:-3])
    assert statuses(jobs[2:]) == {Status.DEAD}


def test_a_step_needs_the_token_of_the_form(client_of: Callable[..., Client]) -> None:
    job = dead(1)[0]
    client = client_of("view_job", "retry_job", enforce_csrf_checks=True)

    assert client.post(reverse(DEAD), choose("retry", job, across=True)).status_code == 403
    assert statuses([job]) == {Status.DEAD}


def test_nothing_is_left_to_do_where_others_were_quicker(operator: Client) -> None:
    jobs = dead(3)
    html = ask(operator)
    Job.objects.redrive([job.pk for job in jobs])

    assert "0 jobs were put back." in go_on(operator, html)


def test_a_list_of_all_jobs_tells_why_others_did_not_change(operator: Client) -> None:
    job, done = dead(1)[0], JobFactory.create(status=Status.DONE)
    html = operator.post(reverse(JOBS), choose("retry", job, across=True)).content.decode()

    html = operator.post(reverse(JOBS), hidden_fields(html), follow=True).content.decode()

    assert f"1 job was refused: #{done.pk} is done" in html
    assert statuses([job]) == {Status.PENDING}


def test_a_page_without_dead_letters_says_what_they_are(operator: Client) -> None:
    job = dead(1)[0]
    query = f"?{operator.get(reverse(DEAD)).context['groups'][0].query}"
    Job.objects.discard(job.pk)

    assert "Nothing waits for anybody" in operator.get(reverse(DEAD)).content.decode()
    assert "Nothing is left of this group." in operator.get(f"{reverse(DEAD)}{query}").content.decode()
