"""Lists and pages: bounded in what they read, count and send, whatever the rows hold."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from jobqueue.admin import dead_letters, paging
from jobqueue.admin.history import history
from jobqueue.models import Job
from jobqueue.states import Status
from tests.factories import ActionFactory, AttemptFactory, CostFactory, JobFactory, WorkerFactory, ago

from .conftest import ACTIONS, COSTS, DEAD, JOBS, STUCK, WORKERS, page_of

pytestmark = pytest.mark.django_db

LISTS = (JOBS, DEAD, STUCK, COSTS, WORKERS, ACTIONS)
BULK_AT = datetime(2026, 1, 1, 12, 30, 15, 123456, tzinfo=UTC)


def queries_of(client: Client, url: str) -> list[str]:
    with CaptureQueriesContext(connection) as captured:
        assert client.get(url).status_code == 200
    return [query["sql"] for query in captured.captured_queries]


def ids_of(client: Client, page: str, query: dict[str, Any] | str = "") -> list[int]:
    url = reverse(page)
    answer = client.get(f"{url}{query}") if isinstance(query, str) else client.get(url, query)
    return [job.pk for job in answer.context["cl"].result_list]


def make_rows(number: int) -> None:
    for _ in range(number):
        AttemptFactory.create(job=JobFactory.create(status=Status.DEAD))
        JobFactory.create(expired=True)
        CostFactory.create()
        WorkerFactory.create()
        ActionFactory.create(job_ids=[1])


@pytest.mark.parametrize("page", LISTS)
def test_the_number_of_queries_does_not_grow_with_the_rows(operator: Client, page: str) -> None:
    """Case C129."""
    make_rows(1)
    few = queries_of(operator, reverse(page))
    make_rows(12)

    many = queries_of(operator, reverse(page))

    assert len(few) == len(many)
    # Each read under a time limit brings its own SAVEPOINT and settings, which ask no table.
    assert len([sql for sql in many if "jobqueue_" in sql and not sql.startswith("RELEASE")]) <= 15


@pytest.mark.parametrize("page", [JOBS, DEAD, STUCK])
def test_lists_do_not_select_what_may_be_megabytes(operator: Client, page: str) -> None:
    """Case C128."""
    make_rows(2)

    for sql in queries_of(operator, reverse(page)):
        for column in ("payload", "result", "progress", "traceback", "last_error", "error_text"):
            assert f'"{column}"' not in sql.replace('LEFT("jobqueue_job"."last_error"', ""), sql


def test_a_list_of_big_jobs_is_a_small_page(operator: Client) -> None:
    """Case C128."""
    big = "x" * 1_000_000
    JobFactory.create_batch(20, status=Status.DEAD, payload={"big": big}, result=big, last_error=f"boom {big}")

    answer = operator.get(reverse(DEAD))

    assert len(answer.content) < 300_000
    assert "xxx…" in answer.content.decode()


def test_no_list_counts_beyond_the_cap(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Case C126."""
    monkeypatch.setattr(paging, "COUNT_CAP", 150)
    JobFactory.create_batch(160)

    answer = operator.get(reverse(JOBS), {"p": 2})
    html = answer.content.decode()

    assert answer.context["cl"].result_count == 150
    assert "at least 150 jobs" in html
    assert "Select all that match, at least 150" in html
    for sql in queries_of(operator, reverse(JOBS)):
        assert "COUNT(" not in sql.upper() or "LIMIT" in sql, sql


def test_below_the_cap_the_count_is_exact(operator: Client) -> None:
    JobFactory.create_batch(3)

    html = operator.get(reverse(JOBS)).content.decode()

    assert "3 jobs" in html
    assert "at least" not in html


@pytest.mark.parametrize(
    ("page", "query", "fields"),
    [
        (JOBS, "", {}),
        (JOBS, "?status__exact=4", {"status": Status.DEAD}),
        (JOBS, "?status__exact=5", {"status": Status.SCHEDULED}),
        (DEAD, "", {"status": Status.DEAD}),
    ],
)
def test_what_lies_behind_the_last_page_is_reached_by_key(
    operator: Client, monkeypatch: pytest.MonkeyPatch, page: str, query: str, fields: dict[str, Any]
) -> None:
    """Pages by number would skip rows by OFFSET; and none is lost, even where many died at one instant."""
    monkeypatch.setattr(paging, "COUNT_CAP", 200)
    jobs = JobFactory.create_batch(250, **fields)
    Job.objects.filter(pk__in=[job.pk for job in jobs[:20]]).update(finished_at=ago(99) if fields else None)

    seen = set(ids_of(operator, page, query))
    for _ in range(2):
        older = operator.get(f"{reverse(page)}{query}").context["cl"].older_query
        if older is None:
            break
        query = older
        seen |= set(ids_of(operator, page, query))

    assert seen == {job.pk for job in jobs}


@pytest.mark.parametrize(
    ("page", "query", "factory", "fields"),
    [
        (JOBS, "?status__exact=5", JobFactory, {"status": Status.SCHEDULED, "run_after": BULK_AT}),
        (JOBS, "?q=status%3Acancelled", JobFactory, {"status": Status.CANCELLED, "finished_at": BULK_AT}),
        (DEAD, "", JobFactory, {"status": Status.DEAD, "finished_at": BULK_AT}),
        (ACTIONS, "", ActionFactory, {"at": BULK_AT}),
    ],
)
def test_rows_of_one_instant_are_gone_on_behind_too(
    operator: Client, page: str, query: str, factory: Any, fields: dict[str, Any]
) -> None:
    """A bulk has one time: the same page came again and again, and of 100,000 jobs 90,000 were out of reach."""
    factory.create_batch(250, **fields)

    pages: list[list[int]] = []
    for _ in range(3):
        answer = operator.get(f"{reverse(page)}{query}")
        pages.append([row.pk for row in answer.context["cl"].result_list])
        query = answer.context["cl"].older_query

    assert [len(ids) for ids in pages] == [100, 100, 50]
    assert len({pk for ids in pages for pk in ids}) == 250
    assert ids_of(operator, page, query) == []


@pytest.mark.parametrize("behind", ["", "x", "-1", "9" * 30, "\u0663", "\x00"])
def test_a_place_behind_no_row_is_that_of_its_time(operator: Client, behind: str) -> None:
    jobs = JobFactory.create_batch(3, status=Status.DEAD, finished_at=BULK_AT)
    at = {"finished_at__lte": BULK_AT.isoformat()}

    assert sorted(ids_of(operator, DEAD, at | {"behind": behind})) == [job.pk for job in jobs]
    assert ids_of(operator, DEAD, at | {"behind": str(jobs[1].pk)}) == [jobs[0].pk]
    assert len(ids_of(operator, DEAD, {"behind": str(jobs[1].pk)})) == 3  # without its time an id says nothing


def test_another_tab_or_search_does_not_begin_behind_a_row_of_this_one(operator: Client) -> None:
    JobFactory.create_batch(3, status=Status.DEAD, finished_at=BULK_AT)
    query = {"status__exact": "4", "finished_at__lte": BULK_AT.isoformat(), "behind": "7"}

    answer = operator.get(reverse(JOBS), query)

    assert not any("behind" in tab.address for tab in answer.context["cl"].tabs)
    assert 'name="behind"' not in answer.content.decode()


@pytest.fixture
def slow_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every count of a list take longer than it may."""

    def sleep(rows: object, most: int) -> int:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_sleep(30)")
        return 0

    monkeypatch.setattr(paging, "COUNT_LIMIT", timedelta(milliseconds=50))
    monkeypatch.setattr(paging, "count_up_to", sleep)


@pytest.mark.usefixtures("slow_counts")
def test_a_count_that_takes_too_long_is_unknown(operator: Client) -> None:
    """It was told as "at least 10000", of however few."""
    JobFactory.create_batch(101, status=Status.DEAD)
    ActionFactory.create_batch(101)

    listed, html = operator.get(reverse(JOBS)), operator.get(reverse(DEAD)).content.decode()
    audit = operator.get(reverse(ACTIONS), {"q": "a"}).content.decode()

    assert "an unknown number of jobs" in listed.content.decode()
    assert "an unknown number of dead letters" in html
    assert "Select all that match, an unknown number" in html
    assert "an unknown number of" in audit
    assert "at least 1" not in html
    assert "10000" not in html + audit
    assert "10000 jobs" not in listed.content.decode()


@pytest.mark.usefixtures("slow_counts")
def test_an_unknown_number_of_stuck_jobs_is_no_number(operator: Client) -> None:
    JobFactory.create_batch(101, expired=True)

    html = operator.get(reverse(STUCK)).content.decode()

    assert "Unknown: the database is busy." in html
    assert "jobs are stuck now" not in html


def test_more_stuck_jobs_than_are_counted_are_told_as_more(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paging, "COUNT_CAP", 105)
    JobFactory.create_batch(110, expired=True)

    html = operator.get(reverse(STUCK)).content.decode()

    assert "More than 105 jobs are stuck now." in html


def test_groups_that_take_too_long_leave_the_list_standing(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters, "read_within", lambda *_, **__: None)
    job = JobFactory.create(status=Status.DEAD)

    html = operator.get(reverse(DEAD)).content.decode()

    assert "Grouping them takes too long" in html
    assert page_of(job) in html


def test_filters_choose_by_status_queue_and_type(operator: Client) -> None:
    first = JobFactory.create(queue="a", job_type="x.one")
    second = JobFactory.create(queue="b", job_type="x.one", status=Status.DEAD)
    third = JobFactory.create(queue="a", job_type="x.two", status=Status.DEAD)

    assert ids_of(operator, JOBS) == [third.pk, second.pk, first.pk]
    assert ids_of(operator, JOBS, {"queue": "a"}) == [third.pk, first.pk]
    assert ids_of(operator, JOBS, {"job_type": "x.one", "status__exact": 4}) == [second.pk]
    assert ids_of(operator, DEAD, {"queue": "a"}) == [third.pk]
    html = operator.get(reverse(JOBS), {"queue": "elsewhere"}).content.decode()
    for name in ("x.one", "x.two", "probe.ok", "elsewhere"):
        assert name in html


def big_attempts(job: Job, number: int) -> Iterable[object]:
    return [
        AttemptFactory.create(job=job, number=index, error_text="e" * 16_000, traceback="t" * 48_000)
        for index in range(1, number)
    ]


def test_the_page_of_a_big_job_is_small_and_links_to_the_whole(operator: Client) -> None:
    """Case C129."""
    job = JobFactory.create(status=Status.DEAD, payload={"big": "x" * 3_000_000}, last_error="e" * 16_000)
    big_attempts(job, 70)

    answer = operator.get(page_of(job))
    html = answer.content.decode()

    assert len(answer.content) < 1_000_000
    assert "There are older attempts." in html
    assert reverse("admin:jobqueue_job_json", args=[job.pk, "payload"]) in html
    assert operator.get(reverse("admin:jobqueue_job_json", args=[job.pk, "payload"])).json() == job.payload


def test_the_page_of_a_job_asks_as_often_whatever_its_history(operator: Client) -> None:
    job = JobFactory.create(status=Status.DEAD)
    AttemptFactory.create(job=job)
    operator.get(page_of(job))  # the admin looks up the type of the content once a process
    few = len(queries_of(operator, page_of(job)))
    for number in range(2, 30):
        AttemptFactory.create(job=job, number=number)

    assert len(queries_of(operator, page_of(job))) == few
    assert few <= 15
    assert not any('"payload",' in sql for sql in queries_of(operator, page_of(job)))


def test_the_history_tells_of_every_attempt_newest_first(operator: Client) -> None:
    job = JobFactory.create(status=Status.DONE, attempts=2, lease_epoch=2)
    AttemptFactory.create(job=job, number=1, error_text="the first went wrong", exit_code=-9)

    steps, more = history(Job.objects.get(pk=job.pk), using="default")

    assert [(step.run, step.number, step.label) for step in steps] == [(2, 2, "done"), (1, 1, "failed")]
    assert more is False
    html = operator.get(page_of(job)).content.decode()
    assert "the first went wrong" in html
    assert "SIGKILL" in html


def test_numbers_keep_all_their_digits(operator: Client) -> None:
    """Rounded beyond 2^53 in the browser elsewhere."""
    job = JobFactory.create(payload={"account": 2**63 + 1})

    assert str(2**63 + 1) in operator.get(page_of(job)).content.decode()


@pytest.mark.parametrize("zone", ["Asia/Kolkata", "UTC"])
def test_times_are_local_and_name_their_zone(operator: Client, settings: Any, zone: str) -> None:
    """Case C136."""
    settings.TIME_ZONE, settings.LANGUAGE_CODE = zone, "de"
    job = JobFactory.create(run_after=ago(0))

    for url in (reverse(JOBS), page_of(job)):
        html = operator.get(url).content.decode()
        assert f"Zeiten: {zone}" in html
        assert "None" not in html


def test_costs_are_summed_by_type_and_unit(operator: Client) -> None:
    CostFactory.create(job_type="documents.index", amount="0.00000012")
    CostFactory.create(job_type="documents.index", amount="1234567.89", at=ago(3 * 86_400))
    CostFactory.create(job_type="mail.send", amount="3", unit="EUR")

    answer = operator.get(reverse(COSTS))

    assert answer.context["rows"] == [
        ("mail.send", "EUR", ["3.00"] * 4),
        ("documents.index", "USD", ["0.00000012", "0.00000012", "1234567.89000012", "1234567.89000012"]),
    ]
    assert [unit for _type, unit, _amounts in answer.context["totals"]] == ["EUR", "USD"]


def test_empty_pages_say_so(operator: Client) -> None:
    for page in LISTS:
        assert operator.get(reverse(page)).status_code == 200
    assert "Nothing has cost anything" in operator.get(reverse(COSTS)).content.decode()


def test_workers_that_are_not_heard_of_are_told(operator: Client) -> None:
    WorkerFactory.create(name="alive", busy=1)
    WorkerFactory.create(name="gone", heartbeat_at=ago(700))
    WorkerFactory.create(name="ending", stopping=True)
    WorkerFactory.create(name="asleep", idle=True)

    html = operator.get(reverse(WORKERS)).content.decode()

    for word in ("working", "silent", "stopping", "idle", "heard of 11 min 4"):
        assert word in html


def test_actions_are_found_by_job_and_by_person(operator: Client) -> None:
    mine = ActionFactory.create(actor="anna", job_ids=[5, 6])
    ActionFactory.create(actor="ben", job_ids=[7])

    assert ids_of(operator, ACTIONS, {"q": "6"}) == [mine.pk]
    assert ids_of(operator, ACTIONS, {"q": "ann"}) == [mine.pk]
    html = operator.get(reverse("admin:jobqueue_action_change", args=[mine.pk])).content.decode()
    assert "/admin/jobqueue/job/6/change/" in html
