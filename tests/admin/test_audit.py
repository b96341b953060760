"""The audit's page and files: what was done and refused, readable, filtered, and taken away only by whoever may."""

import csv
import io
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from pytest_django import Settings

from jobqueue.admin import audit_export
from jobqueue.models import Action
from jobqueue.states import Status
from tests.factories import ActionFactory, JobFactory

from .conftest import ACTIONS

pytestmark = pytest.mark.django_db

EXPORT = reverse("admin:jobqueue_action_export")


@pytest.fixture
def auditor(client_of: Callable[..., Client]) -> Client:
    """Return the client of somebody who reads the audit and nothing else."""
    return client_of("view_audit", username="auditor")


def listed(client: Client, **query: Any) -> list[str]:
    """Return the actors of the rows that the list shows."""
    answer = client.get(reverse(ACTIONS), query)
    assert answer.status_code == 200
    return [row.actor for row in answer.context["cl"].result_list]


def page_of(action: Action) -> str:
    return reverse("admin:jobqueue_action_change", args=[action.pk])


def body(answer: Any) -> str:
    assert answer.status_code == 200
    return b"".join(answer.streaming_content).decode()


def test_a_row_tells_who_when_what_on_how_many_why_and_from_where(auditor: Client, settings: Settings) -> None:
    settings.TIME_ZONE = "Asia/Kolkata"
    ActionFactory.create(
        actor="ann",
        action="discard",
        reason="ticket 4711",
        job_ids=[4, 5, 6],
        address="192.0.2.7",
        at=datetime(2026, 5, 1, 12, tzinfo=UTC),
    )

    html = auditor.get(reverse(ACTIONS)).content.decode()

    for words in ("2026-05-01 17:30:00", "Asia/Kolkata", "ann", "Discard", "ticket 4711", "192.0.2.7"):
        assert words in html
    assert "<div>3 jobs</div>" in html
    assert "dead → cancelled" in html


def test_a_change_is_told_from_what_to_what(auditor: Client) -> None:
    detail = {"threshold": {"from": None, "to": 12.0}, "muted_until": {"from": None, "to": "2026-05-01T12:00:00+00:00"}}
    action = ActionFactory.create(action="change_alert", subject="alert:dead_1h", detail=detail)

    lists, page = (auditor.get(url).content.decode() for url in (reverse(ACTIONS), page_of(action)))

    assert "nothing → 12<" in lists
    assert "nothing → 2026-05-01 12:00:00" in lists
    assert reverse("admin:jobqueue_alertrule_change", args=["dead_1h"]) in page
    assert "muted until" in page


def test_a_page_leads_to_its_jobs_to_some_of_very_many(auditor: Client) -> None:
    few, many = ActionFactory.create(job_ids=[4, 5]), ActionFactory.create(job_ids=list(range(1, 300)))

    pages = [auditor.get(page_of(action)).content.decode() for action in (few, many)]

    assert '<a href="/admin/jobqueue/job/4/change/">4</a>, <a href="/admin/jobqueue/job/5/change/">5</a>' in pages[0]
    assert ">200</a>, …" in pages[1]


def test_an_edit_of_many_jobs_is_told_job_by_job_and_cut(auditor: Client) -> None:
    jobs = {str(number): {"from": {"size": 1}, "to": {"size": 2}} for number in range(100, 160)}
    action = ActionFactory.create(action="edit_field", detail={"edit": "set", "field": "size", "jobs": jobs})

    page = auditor.get(page_of(action)).content.decode()

    assert ("#100" in page, "#149" in page, "#150" in page) == (True, True, False)
    assert "and so on" in page


def test_secrets_are_hidden_on_the_page_and_in_the_files(auditor: Client) -> None:
    detail = {"payload": {"from": {"password": "hunter2"}, "to": {"password": "hunter3"}}}
    action = ActionFactory.create(action="edit_payload", detail=detail)

    shown = auditor.get(page_of(action)).content.decode() + auditor.get(reverse(ACTIONS)).content.decode()
    files = [body(auditor.post(EXPORT, {"format": form})) for form in ("csv", "json")]

    assert "***" in shown
    assert "hunter" not in shown + "".join(files)


def test_a_list_does_not_read_large_details(auditor: Client) -> None:
    large = {"payload": {"from": {"text": "".join(map(str, range(9_000)))}, "to": {}}}
    ActionFactory.create(action="edit_payload", detail=large)

    answer = auditor.get(reverse(ACTIONS))

    assert "8999" not in answer.content.decode()
    assert "… on its page" in answer.content.decode()


def test_refusals_are_marked_with_what_was_missing(auditor: Client, client_of: Callable[..., Client]) -> None:
    job = JobFactory.create(status=Status.DEAD)
    client_of("view_job", username="bob").post(reverse("admin:jobqueue_job_act", args=[job.pk, "retry"]))
    action = Action.objects.get()

    lists, page = (auditor.get(url).content.decode() for url in (reverse(ACTIONS), page_of(action)))

    assert (action.actor, action.action, action.job_ids, action.refused) == ("bob", "retry", [job.pk], True)
    assert ">refused</span>" in lists
    assert "dead → pending" not in lists
    assert "jobqueue.retry_job" in page
    assert f"/admin/jobqueue/job/{job.pk}/act/retry/" in page


def test_it_is_looked_through_by_who_what_refused_and_period(auditor: Client, settings: Settings) -> None:
    settings.TIME_ZONE = "Asia/Kolkata"
    # 18:30 UTC is midnight there.
    evening, midnight = datetime(2026, 5, 1, 18, 29, tzinfo=UTC), datetime(2026, 5, 1, 18, 30, tzinfo=UTC)
    ActionFactory.create(actor="ann", action="retry", at=evening)
    ActionFactory.create(actor="bob", action="discard", at=midnight)
    ActionFactory.create(actor="carl", action="discard", refused=True, at=midnight)

    assert listed(auditor, who="ann") == ["ann"]
    assert set(listed(auditor, what="discard")) == {"bob", "carl"}
    assert listed(auditor, refused="1") == ["carl"]
    assert set(listed(auditor, refused="0")) == {"ann", "bob"}
    assert listed(auditor, until="2026-05-01") == ["ann"]
    assert set(listed(auditor, since="2026-05-02")) == {"bob", "carl"}
    assert listed(auditor, since="2026-05-02", what="discard", refused="0") == ["bob"]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"since": "yesterday"}, "Enter a valid date."),
        ({"since": "2026-05-02", "until": "2026-05-01"}, "This is before the first day."),
        ({"refused": "maybe"}, "Select a valid choice."),
        ({"who": "\x00"}, ""),
    ],
)
def test_a_filter_that_cannot_be_shows_nothing_and_says_why(auditor: Client, query: dict[str, str], words: str) -> None:
    ActionFactory.create()

    answer = auditor.get(reverse(ACTIONS), query)

    assert words in answer.content.decode()
    assert (len(answer.context["cl"].result_list) == 0) is bool(words)


def test_a_search_finds_by_job_and_by_text(auditor: Client) -> None:
    ActionFactory.create(actor="ann", job_ids=[41, 42])
    ActionFactory.create(actor="bob", job_ids=[], subject="queue:mail", reason="maintenance")

    assert listed(auditor, q="42") == ["ann"]
    assert listed(auditor, q="#42") == ["ann"]
    assert listed(auditor, q=str(2**70)) == []
    assert [listed(auditor, q=text) for text in ("queue:MAIL", "mainten", "bo")] == [["bob"]] * 3


def test_the_list_is_newest_first_and_goes_on_behind_its_end(auditor: Client) -> None:
    ActionFactory.create(actor="old", at=datetime(2026, 1, 1, tzinfo=UTC))
    ActionFactory.create(actor="older", at=datetime(2025, 1, 1, tzinfo=UTC))

    assert listed(auditor) == ["old", "older"]
    assert listed(auditor, at__lte="2025-06-01T00:00:00+00:00") == ["older"]


def test_a_page_takes_few_queries_however_many_rows(auditor: Client) -> None:
    ActionFactory.create_batch(60, detail={"note": {"from": "a", "to": "b"}})

    with CaptureQueriesContext(
        connection,
    ) as captured:
        assert len(listed(auditor)) == 60

    assert len(captured) <= 15


def test_an_empty_audit_says_what_would_be_here(auditor: Client) -> None:
    assert "Nobody has done anything yet" in auditor.get(reverse(ACTIONS)).content.decode()
    assert "Nothing was found" in auditor.get(reverse(ACTIONS), {"who": "x"}).content.decode()


# The files


def test_the_csv_has_what_the_list_shows_and_no_formula(auditor: Client) -> None:
    ActionFactory.create(actor="ann", reason="=HYPERLINK(1)", subject="@x", job_ids=[3, 4])
    ActionFactory.create(actor="bob")

    answer = auditor.post(f"{EXPORT}?who=ann", {"format": "csv"})

    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    assert answer["Content-Disposition"].startswith('attachment; filename="jobqueue-audit-')
    assert answer["X-Content-Type-Options"] == "nosniff"
    (row,) = csv.DictReader(io.StringIO(body(answer)))
    assert (row["actor"], row["reason"], row["subject"]) == ("ann", "'=HYPERLINK(1)", "'@x")
    assert (row["jobs"], row["job_ids"], row["refused"]) == ("2", "3 4", "False")


def test_the_json_is_a_list_of_all_columns(auditor: Client) -> None:
    ActionFactory.create(actor="</script>", detail={"note": {"from": "ä", "to": None}}, refused=True, address="::1")

    answer = auditor.post(EXPORT, {"format": "json"})

    assert answer["Content-Type"] == "application/json"
    assert answer["Content-Disposition"].startswith("attachment;")
    assert answer["X-Content-Type-Options"] == "nosniff"
    export, row = json.loads(body(answer))
    assert tuple(row) == audit_export.COLUMNS
    assert (row["actor"], row["refused"], row["address"]) == ("</script>", True, "::1")
    assert row["detail"] == {"note": {"from": "ä", "to": None}}
    assert export["action"] == "export_audit"


def test_nothing_to_take_is_an_empty_list(auditor: Client) -> None:
    assert json.loads(body(auditor.post(f"{EXPORT}?who=nobody", {"format": "json"}))) == []


def test_who_takes_a_file_is_written_down_with_what_was_taken(auditor: Client) -> None:
    auditor.post(f"{EXPORT}?who=ann&q=7", {"format": "csv"}, REMOTE_ADDR="192.0.2.9")

    action = Action.objects.get()
    assert (action.actor, action.action, action.address) == ("auditor", "export_audit", "192.0.2.9")
    assert action.detail == {"format": "csv", "filters": {"who": "ann", "q": "7"}}


def test_a_file_has_every_row_once_also_those_of_one_instant_and_stops_at_its_bound(
    auditor: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_export, "PIECE", 3)
    at = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [ActionFactory.create(actor="ann", at=at).pk for _ in range(7)]
    rows += [ActionFactory.create(actor="ann").pk for _ in range(4)]
    address = f"{EXPORT}?who=ann"

    taken = [row["id"] for row in json.loads(body(auditor.post(address, {"format": "json"})))]
    monkeypatch.setattr(audit_export, "MOST", 5)
    bounded = [row["id"] for row in json.loads(body(auditor.post(address, {"format": "json"})))]

    assert sorted(taken) == sorted(rows)
    assert bounded == taken[:5]


def test_a_file_is_not_read_into_memory(auditor: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_export, "PIECE", 2)
    ActionFactory.create_batch(6)

    with CaptureQueriesContext(connection) as captured:
        answer: Any = auditor.post(EXPORT, {"format": "json"})
        content = iter(answer.streaming_content)
        before = len(captured)
        next(content)
        first = len(captured)
        list(content)

    # Two a piece: where its rows are, and the rows.
    assert (first - before, len(captured) - first) == (2, 6)


@pytest.mark.parametrize("form", ["", "xml", "html"])
def test_another_format_is_a_bad_request_and_leaves_no_row(auditor: Client, form: str) -> None:
    assert auditor.post(EXPORT, {"format": form}).status_code == 400
    assert Action.objects.count() == 0


def test_a_file_is_not_sent_by_get(auditor: Client) -> None:
    assert auditor.get(EXPORT, {"format": "csv"}).status_code == 405
    assert Action.objects.count() == 0
