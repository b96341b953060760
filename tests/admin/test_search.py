"""Searching the lists of jobs: what each term finds, what it may not tell, and how far it looks."""

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.apps import apps
from django.contrib.admin import site
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from jobqueue import sql
from jobqueue.admin import job_lists, windows
from jobqueue.models import Job
from jobqueue.states import Status
from tests.factories import JobFactory, ago

from .conftest import DEAD, JOBS, STUCK
from .test_acting import choose, hidden_fields

pytestmark = pytest.mark.django_db

FIRST: dict[str, Any] = {
    "job_type": "documents.index", "queue": "mail", "owner": "anna", "worker_id": "web1:7",
    "dedupe_key": "index:a b",
    "status": Status.DEAD, "error_class": "app.PartnerDown", "last_error": "read timeout of 50% at 10:30",
    "fingerprint": "4f2a", "payload": {"path": "/srv/scan_1.pdf", "account": {"id": 123}, "tags": ["red"],
                "none": None},
    "priority": 50, "attempts": 3, "finished_at": ago(60), "created_at": ago(7_200),
}  # fmt: skip
SECOND: dict[str, Any] = {"job_type": "mail.send", "queue": "default", "owner": "ben", "created_at": ago(60)}


def found(client: Client, text: str, page: str = JOBS, **query: Any) -> list[int]:
    """Return the ids that the list shows."""
    answer = client.get(reverse(page), {"q": text, **query})
    assert answer.status_code == 200, text
    return sorted(job.pk for job in answer.context["cl"].result_list)


def html_of(client: Client, query: dict[str, Any], page: str = JOBS) -> str:
    return client.get(reverse(page), query).content.decode()


@pytest.mark.parametrize(
    "text",
    [
        "type:documents.index", "type:documents.*", "type:*index", 'type:"documents.index"', "queue:mail",
        "-queue:default",
        "status:dead", "status:dead,running", "-status:pending", "owner:anna", "owner:a*a", "worker:web1:7",
        "worker:web*",
        'key:"index:a b"', "key:index*", "error:partnerdown", "error:TIMEOUT",
        'error:"50% at"', "fingerprint:4f2a",
        "payload.path:/srv/scan_1.pdf", "payload.path:*.pdf", "payload.account.id:123", "payload.tags.0:red",
        "payload.path:*", "payload.none:*", "-payload.path:other -owner:ben", "priority:50", "priority:<51",
        "attempt:>=3", "after:3h before:1h", "before:30m", "anna", '"index:a b"', "web1", "PartnerDown", "4f2a",
        "type:documents.* error:timeout payload.account.id:123 queue:mail -owner:ben",
    ],
)  # fmt: skip
def test_a_term_finds_the_first_job_and_not_the_second(operator: Client, text: str) -> None:
    first, _second = JobFactory.create(**FIRST), JobFactory.create(**SECOND)

    assert found(operator, text) == [first.pk]


@pytest.mark.parametrize(
    "text",
    [
        "type:documents", "type:DOCUMENTS.INDEX", 'type:"documents.*"', "-queue:mail queue:mail", "status:done",
        'payload.path:"*.pdf"', "payload.path:/srv/scanX1.pdf", "payload.account:123", "payload.tags.1:red",
        "key:index:a", "error:50_", "after:10s", "priority:>200", "id:1,2", "99999999999999999999",
    ],
)  # fmt: skip
def test_what_does_not_match_finds_nothing(operator: Client, text: str) -> None:
    JobFactory.create(pk=11, **FIRST)
    JobFactory.create(pk=12, **SECOND)

    assert found(operator, text) == []


def test_ids_are_found_on_every_list(operator: Client) -> None:
    dead, stuck = JobFactory.create(status=Status.DEAD), JobFactory.create(expired=True)

    assert found(operator, f"id:{dead.pk},{stuck.pk}") == [dead.pk, stuck.pk]
    assert found(operator, f"#{dead.pk}", DEAD) == [dead.pk]
    assert found(operator, f"{stuck.pk}", STUCK) == [stuck.pk]
    assert found(operator, f"{stuck.pk}", DEAD) == []


def test_after_and_before_mean_the_time_of_death_among_dead_letters(operator: Client) -> None:
    old = JobFactory.create(status=Status.DEAD, created_at=ago(90_000), finished_at=ago(7_000))
    JobFactory.create(status=Status.DEAD, created_at=ago(90_000), finished_at=ago(80_000))

    assert found(operator, "after:2h", DEAD) == [old.pk]
    assert found(operator, "after:2h") == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("colour:red", "<strong>colour:red</strong>: there is no key “colour”"),
        ("status:broken", "a status is one of pending, running"),
        ("after:yesterday", "a time is 2h"),
        ("after:2026-13-45", "a time is 2h"),
        ("before:999999999w", "a time is 2h"),
        ("priority:99999", "a small number"),
        ("id:x", "an id is a number"),
        ("payload:x", "searched by a path"),
        ('type:"<b>', "&lt;b&gt;"),
    ],
)
def test_a_wrong_term_is_named_and_finds_nothing(operator: Client, text: str, said: str) -> None:
    job = JobFactory.create()

    html = html_of(operator, {"q": text})

    assert said in html
    assert 'role="alert"' in html
    assert 'aria-invalid="true"' in html
    assert f">{job.pk}</a>" not in html


def test_terms_are_shown_each_with_the_address_without_it(operator: Client) -> None:
    answer = operator.get(reverse(JOBS), {"q": 'type:mail.send "a <b>"', "queue": "mail"})

    assert [(chip.text, chip.address) for chip in answer.context["cl"].chips] == [
        ("type:mail.send", "?queue=mail&q=%22a+%3Cb%3E%22"),
        ('"a <b>"', "?queue=mail&q=type%3Amail.send"),
    ]
    assert "&quot;a &lt;b&gt;&quot;" in answer.content.decode()


@hypothesis_settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.one_of(
        st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
        st.builds(
            "{}:{}{}".format,
            st.sampled_from(
                ["type", "status", "error", "id", "priority", "attempt", "after", "payload.a", "-payload.a"]
            ),
            st.sampled_from(["", "<", ">=", "*", '"', "9"]),
            st.text(alphabet='*%_\\"0123456789:-hTZ+', max_size=25),
        ),
    )
)
def test_nothing_that_is_typed_breaks_the_page(operator: Client, text: str) -> None:
    found(operator, text)


# -- what may not be found out ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "payload.password:*", "payload.login.api_key:hun*", "payload.login:*hunter2*", "payload.url:*hunter2*",
        "payload.note:*hunter2*", "error:hunter2", "error:=hunter2",
    ],
)  # fmt: skip
def test_hidden_values_are_not_found_out_by_searching(client_of: Callable[..., Client], text: str) -> None:
    """Case C138."""
    url = "https://anna:hunter2@example.org/"
    payload = {"password": "hunter2", "login": {"api_key": "hunter2"}, "url": url, "note": "password=hunter2"}
    job = JobFactory.create(status=Status.DEAD, payload=payload, last_error="cannot log in: password=hunter2")

    assert found(client_of("view_job"), text) == []
    assert found(client_of("view_job", "view_payload", username="trusted"), text) == [job.pk]


def test_what_is_not_hidden_is_found_by_everybody(client_of: Callable[..., Client]) -> None:
    payload = {"path": "/srv/a.pdf", "note": "red, password=hunter2"}
    job = JobFactory.create(payload=payload, last_error="no answer, password=hunter2")
    client = client_of("view_job")

    for text in ("payload.path:/srv/*", "payload.note:red*", "error:answer", "payload.note:*"):
        assert found(client, text) == [job.pk]


def test_patterns_that_the_database_reads_otherwise_leave_texts_unsearched(
    client_of: Callable[..., Client], settings: Any
) -> None:
    settings.JOBQUEUE = {**settings.JOBQUEUE, "SECRET_PATTERNS": (r"\bpin\b",)}
    job = JobFactory.create(error_class="app.Broken", last_error="pin=1234", payload={"a": "pin=1234"})
    client = client_of("view_job")

    assert found(client, "error:1234") == []
    assert found(client, "error:broken") == [job.pk]
    assert "a whole value without *" in html_of(client, {"q": "payload.a:*1234"})


@pytest.mark.parametrize(
    "query", ["payload__password__startswith=h", "last_error__contains=x", "owner__icontains=a", "result__isnull=True"]
)
@pytest.mark.parametrize("page", [JOBS, DEAD, STUCK])
def test_addresses_have_no_other_lookups_than_those_of_the_pages(operator: Client, page: str, query: str) -> None:
    assert operator.get(f"{reverse(page)}?{query}").status_code == 400


LISTS = sorted(model._meta.model_name or "" for model in site._registry if model._meta.app_label == "jobqueue")


@pytest.mark.parametrize("name", LISTS)
def test_no_list_tells_by_its_address_what_its_columns_hide(admin_client: Client, name: str) -> None:
    """Whether rows came told each letter of a masked text: of an attempt's traceback, of a payload in the audit."""
    url = reverse(f"admin:jobqueue_{name}_changelist")
    model = apps.get_model("jobqueue", name)
    linked: frozenset[str] = getattr(site.get_model_admin(model), "lookups", frozenset())
    plain = admin_client.get(url)

    fields, words = model._meta.concrete_fields, ("startswith", "contains", "isnull", "gt", "a__startswith")
    for lookup in {f"{field.name}__{word}" for field in fields for word in words} - linked:
        answer = admin_client.get(f"{url}?{lookup}=1", follow=True)
        # Pages that are no list of Django's take no notice of it.
        assert answer.status_code == 400 or "cl" not in answer.context, lookup
    assert plain.status_code == 200


@pytest.mark.parametrize(
    ("name", "query"),
    [
        ("attempt", "job__id__exact=1"), ("attempt", "outcome__exact=2"), ("attempt", "id__lt=5"),
        ("action", "who=a&what=retry&refused=0&since=2026-01-01&until=2026-02-01&q=x&p=1"),
        ("action", "at__lte=2026-01-01T00:00:00%2B00:00"), ("incident", "state__exact=2&rule=dead_1h"),
        ("incident", "broken_since__lte=2026-01-01T00:00:00%2B00:00"),
    ],
)  # fmt: skip
def test_what_the_pages_link_to_is_no_other_lookup(admin_client: Client, name: str, query: str) -> None:
    answer = admin_client.get(f"{reverse(f'admin:jobqueue_{name}_changelist')}?{query}")

    assert (answer.status_code, "cl" in answer.context) == (200, True)


def test_an_address_does_not_sort_the_table_by_another_column(operator: Client) -> None:
    jobs = [JobFactory.create(job_type=name).pk for name in ("b", "c", "a")]

    answer = operator.get(reverse(JOBS), {"o": "2"})

    assert [job.pk for job in answer.context["cl"].result_list] == jobs[::-1]


# -- how far it looks -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("query", [{"q": "owner:anna"}, {"q": "anna"}, {"queue": "mail"}, {"job_type": "x.y"}])
def test_without_an_index_only_a_window_of_ids_is_looked_at(
    operator: Client, monkeypatch: pytest.MonkeyPatch, query: dict[str, str]
) -> None:
    monkeypatch.setattr(windows, "SEARCHED", 2)
    jobs = JobFactory.create_batch(5, owner="anna", queue="mail", job_type="x.y")
    ids = [job.pk for job in jobs]

    seen, address = [], f"?{'&'.join(f'{name}={value}' for name, value in query.items())}"
    for _window in range(3):
        answer = operator.get(f"{reverse(JOBS)}{address}")
        changes = answer.context["cl"]
        seen.append([job.pk for job in changes.result_list])
        address = changes.behind_query or ""

    assert seen == [ids[:2:-1], ids[2:0:-1], ids[:1]]
    assert f"Looked at the jobs from #{max(1, ids[0] - 1)} to #{ids[0]}." in answer.content.decode()


@pytest.mark.parametrize(
    "query",
    [
        {"status__exact": "4"}, {"q": "status:running owner:anna"}, {"q": "status:pending queue:mail"},
        {"status__exact": "1", "queue": "mail"}, {"q": "status:dead fingerprint:f"}, {"q": "id:7"}, {},
    ],
)  # fmt: skip
def test_what_an_index_finds_is_looked_for_everywhere(operator: Client, query: dict[str, str]) -> None:
    assert operator.get(reverse(JOBS), query).context["cl"].search.window is None


def test_a_time_moves_the_window(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "SEARCHED", 4)
    monkeypatch.setattr(windows, "SLACK", 1)
    ids = [JobFactory.create(created_at=ago(3_600 * (20 - hour))).pk for hour in range(20)]

    assert found(operator, "before:10h") == ids[9:11]
    assert found(operator, "after:5h before:3h") == ids[16:18]
    assert operator.get(reverse(JOBS), {"q": "after:3h"}).context["cl"].behind_query is None


@pytest.mark.parametrize("gap", [0, 3])
def test_the_place_of_a_time_in_the_ids_is_found_by_halves(gap: int) -> None:
    for number in range(40):
        JobFactory.create(pk=1 + number * (gap + 1), created_at=ago(100 - number))
    jobs = list(Job.objects.order_by("pk").values_list("pk", "created_at"))

    with connection.cursor() as cursor:
        for job_id, at in jobs:
            cursor.execute(sql.ID_AT, {"at": at})
            number = cursor.fetchone()[0]
            assert job_id - gap <= number <= job_id
        cursor.execute(sql.ID_AT, {"at": jobs[-1][1] + timedelta(seconds=1)})
        assert cursor.fetchone() == (jobs[-1][0] + 1,)


def test_dead_letters_have_a_window_of_their_own(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "SEARCHED_DEAD", 2)
    jobs = [JobFactory.create(status=Status.DEAD, owner="anna", finished_at=ago(60 - n)).pk for n in range(5)]

    first = operator.get(reverse(DEAD), {"q": "owner:anna", "behind": "7"})
    older = operator.get(f"{reverse(DEAD)}{first.context['cl'].behind_query}")

    assert [job.pk for job in first.context["cl"].result_list] == jobs[:1:-1]
    assert "Looked at the dead letters that died since" in first.content.decode()
    assert [job.pk for job in older.context["cl"].result_list] == jobs[2::-1]
    assert "behind" not in older.request["QUERY_STRING"]  # the row of another time
    for query in ({"queue": "default"}, {"q": "type:probe.ok fingerprint:x after:2d"}):
        assert operator.get(reverse(DEAD), query).context["cl"].search.window is None


@pytest.mark.parametrize(("page", "fields"), [(JOBS, {}), (DEAD, {"status": Status.DEAD})])
def test_an_action_takes_what_the_search_showed_whatever_comes_meanwhile(
    operator: Client, monkeypatch: pytest.MonkeyPatch, page: str, fields: dict[str, Any]
) -> None:
    """The window, and what `1h` is, are those of the moment that the preview was made."""
    monkeypatch.setattr(windows, "SEARCHED", 3)
    monkeypatch.setattr(windows, "SEARCHED_DEAD", 2)
    jobs = [JobFactory.create(owner="anna", finished_at=ago(50 - n), **fields) for n in range(5)]
    verb, url = ("cancel" if page == JOBS else "discard"), f"{reverse(page)}?q=owner:anna+after:1h"

    html = operator.post(url, choose(verb, jobs[4], across=True)).content.decode()
    assert "3 jobs" in html
    JobFactory.create_batch(2, owner="anna", **fields)
    address = re.findall(r'<form method="post" action="(\?[^"]*)"', html)[0].replace("&amp;", "&")
    assert "1h" not in address
    operator.post(f"{reverse(page)}{address}", hidden_fields(html))

    cancelled = Job.objects.filter(status=Status.CANCELLED).order_by("pk").values_list("pk", flat=True)
    assert list(cancelled) == [job.pk for job in jobs[2:]]


def test_rows_that_take_too_long_leave_the_page_standing(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_lists, "read_within", lambda *_, **__: None)
    JobFactory.create()

    assert "could not be read in time" in html_of(operator, {})


# -- tabs -------------------------------------------------------------------------------------------------------------


def test_tabs_count_each_status_up_to_the_cap(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_lists, "COUNT_CAP", 2)
    JobFactory.create_batch(2, status=Status.DEAD)
    JobFactory.create_batch(3)

    with CaptureQueriesContext(connection) as queries:
        tabs = operator.get(reverse(JOBS), {"status__exact": "4"}).context["cl"].tabs

    assert [(str(tab.label), tab.jobs) for tab in tabs][:5] == [
        ("all", ""), ("pending", "≥ 2"), ("scheduled", "0"), ("running", "0"), ("dead", "2"),
    ]  # fmt: skip
    assert [tab.current for tab in tabs].index(True) == 4
    assert all("LIMIT" in one["sql"] for one in queries.captured_queries if "COUNT(" in one["sql"])


def test_tabs_keep_the_search_and_count_nothing_beside_it(operator: Client) -> None:
    JobFactory.create()

    tabs = operator.get(reverse(JOBS), {"q": "owner:anna", "id__lt": "7", "p": "2"}).context["cl"].tabs

    assert tabs[1].address == "?q=owner%3Aanna&status__exact=1"
    assert {tab.jobs for tab in tabs} == {""}


def test_counts_that_take_too_long_are_unknown(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_lists, "TABS_LIMIT", timedelta(0))

    assert {tab.jobs for tab in operator.get(reverse(JOBS)).context["cl"].tabs} == {"", "unknown"}
