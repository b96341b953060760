"""The page of queues: what it shows, who may pause and resume from it, and what it asks before."""

import logging
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from jobqueue import operations
from jobqueue.admin import live, queues, until
from jobqueue.models import Action, Queue
from jobqueue.ops import counts, queue_table
from jobqueue.ops.queues import paused_queues
from jobqueue.states import Status
from tests.connections import SecondConnection
from tests.factories import JobFactory, StatFactory, WorkerFactory, ago, ahead

pytestmark = pytest.mark.django_db

ClientOf = Callable[..., Client]
QUEUES = reverse("admin:jobqueue_queue_changelist")
PART = reverse("admin:jobqueue_queue_part")
PAUSE = reverse("admin:jobqueue_queue_pause")
RESUME = reverse("admin:jobqueue_queue_resume")
MANAGE = operations.PERMISSIONS["pause_queue"].removeprefix("jobqueue.")


@pytest.fixture
def manager(client_of: ClientOf) -> Client:
    return client_of("view_job", MANAGE, username="anna")


def rows_of(client: Client) -> dict[str, Any]:
    return {row["queue"]: row for row in client.get(QUEUES).context["rows"]}


def pause(client: Client, queue: str = "mail", **data: Any) -> Any:
    return client.post(PAUSE, {"queue": queue, "until_choice": "resumed", **data})


def test_every_queue_that_is_known_has_a_row(manager: Client) -> None:
    JobFactory.create(queue="due")
    JobFactory.create(queue="runs", status=Status.RUNNING)
    JobFactory.create(queue="later", status=Status.SCHEDULED, run_after=ahead(3600))
    StatFactory.create(queue="ended", at=ago(3 * 86_400))
    StatFactory.create(queue="folded", at=ago(3 * 86_400), span_seconds=900)
    StatFactory.create(queue="forgotten", at=ago(9 * 86_400))
    WorkerFactory.create(queues=["served", "*"])
    operations.pause_queue("held", actor="test")

    rows = rows_of(manager)

    assert set(rows) == {"due", "runs", "later", "ended", "folded", "served", "held"}
    assert (rows["due"]["depth"], rows["runs"]["running"], rows["later"]["scheduled"]) == ("1", "1", "1")


def test_a_queue_is_shown_with_its_figures(manager: Client) -> None:
    for age in (90, 30):
        JobFactory.create(queue="mail", run_after=ago(age))
    StatFactory.create(queue="mail", jobs=90, wait_buckets=[10] * 90, run_buckets=[8] * 90)
    StatFactory.create(queue="mail", jobs=10, outcome=2, wait_buckets=[10] * 10, run_buckets=[8] * 10)
    WorkerFactory.create(queues=["mail"])

    row = rows_of(manager)["mail"]

    assert (row["depth"], row["oldest"], row["failed"], row["workers"]) == ("2", "1 min 30 s", "10.0%", "1")
    assert float(row["done"]) > 0
    assert " / " in row["waits"]
    assert not row["unserved"]


def test_a_queue_that_nobody_serves_says_so(manager: Client) -> None:
    JobFactory.create(queue="lost")

    assert '<span class="jobqueue-badge jobqueue-is-bad">none</span>' in manager.get(QUEUES).content.decode()


def test_a_pause_is_shown_with_who_until_when_and_why(manager: Client, settings: Any) -> None:
    settings.TIME_ZONE = "Asia/Kolkata"
    until = timezone.now() + timedelta(hours=2)
    operations.pause_queue("mail", actor="ben", reason="the partner is down", until=until)
    JobFactory.create(queue="other")

    rows = rows_of(manager)

    assert rows["mail"]["own_pause"]
    assert "by ben since" in rows["mail"]["pause"]
    assert f"until {until.astimezone(ZoneInfo('Asia/Kolkata')):%Y-%m-%d %H:%M:%S}" in rows["mail"]["pause"]
    assert rows["mail"]["pause"].endswith(": the partner is down")
    assert not rows["other"]["paused"]


def test_no_queue_at_all_is_explained(manager: Client) -> None:
    assert "No queue is known yet" in manager.get(QUEUES).content.decode()


def test_the_page_needs_a_permission(client: Client, client_of: ClientOf, caplog: pytest.LogCaptureFixture) -> None:
    assert client.get(QUEUES).status_code == 302
    assert client_of("view_job", username="reader").get(QUEUES).status_code == 200
    assert client_of(MANAGE, username="keeper").get(QUEUES).status_code == 200
    with caplog.at_level(logging.WARNING):
        assert client_of("view_cost", username="other").get(QUEUES).status_code == 403
    assert QUEUES in caplog.text


def test_a_reader_sees_no_buttons_and_is_refused(client_of: ClientOf, caplog: pytest.LogCaptureFixture) -> None:
    JobFactory.create(queue="mail")
    reader = client_of("view_job", username="reader")

    html = reader.get(QUEUES).content.decode()
    assert PAUSE not in html
    assert RESUME not in html
    with caplog.at_level(logging.WARNING, "jobqueue.operations"):
        assert reader.get(PAUSE, {"queue": "mail"}).status_code == 403
        assert pause(reader).status_code == 403
        assert reader.post(RESUME, {"queue": "mail"}).status_code == 403

    assert "action refused action=pause_queue actor=reader" in caplog.text
    assert "action refused action=resume_queue actor=reader" in caplog.text
    assert not Queue.objects.exists()
    assert not Action.objects.filter(refused=False).exists()


def test_the_rows_are_read_anew_by_a_part_of_their_own(manager: Client, client_of: ClientOf) -> None:
    JobFactory.create(queue="mail")
    page, part = manager.get(QUEUES).content.decode(), manager.get(PART)

    assert f'data-hx-get="{PART}"' in page
    assert live.HEADER in part
    assert "mail" in part.content.decode()
    assert "<html" not in part.content.decode()
    assert client_of("view_worker", username="other").get(PART).status_code == 403


def test_a_queue_is_paused_and_resumed_and_both_are_written_down(manager: Client) -> None:
    assert pause(manager, reason="a new release").status_code == 302
    (held,) = paused_queues()
    assert (held.name, held.paused_by, held.reason, held.resumes_at) == ("mail", "anna", "a new release", None)

    assert manager.post(RESUME, {"queue": "mail"}).status_code == 302

    assert paused_queues() == []
    done = Action.objects.order_by("id").values_list("action", "actor", "subject", "reason")
    assert list(done) == [
        ("pause_queue", "anna", "queue:mail", "a new release"),
        ("resume_queue", "anna", "queue:mail", ""),
    ]


def test_pausing_by_get_changes_nothing(manager: Client) -> None:
    asked = manager.get(PAUSE, {"queue": "mail", "until_choice": "resumed"})
    manager.get(RESUME, {"queue": "mail"})

    assert asked.status_code == 200
    assert not Action.objects.exists()
    assert not Queue.objects.exists()


def test_pausing_needs_the_token(client_of: ClientOf) -> None:
    client = client_of("view_job", MANAGE, enforce_csrf_checks=True)

    assert pause(client).status_code == 403
    assert client.post(RESUME, {"queue": "mail"}).status_code == 403
    assert not Queue.objects.exists()


def test_an_hour_and_tomorrow_are_offered(manager: Client, settings: Any) -> None:
    settings.TIME_ZONE = "Europe/Berlin"
    pause(manager, "a", until_choice="hour")
    pause(manager, "b", until_choice="tomorrow")

    first, second = paused_queues()

    assert first.resumes_at is not None
    assert timedelta(minutes=59) < first.resumes_at - timezone.now() <= timedelta(hours=1)
    assert second.resumes_at == until.tomorrow(timezone.now())


def test_tomorrow_is_that_of_the_zone_also_where_clocks_change(settings: Any) -> None:
    settings.TIME_ZONE = "Europe/Berlin"
    late_on_saturday = datetime(2026, 10, 24, 21, 30, tzinfo=UTC)  # 23:30 there; the clocks go back in the night

    assert until.tomorrow(late_on_saturday) == datetime(2026, 10, 25, 7, 0, tzinfo=UTC)
    assert until.tomorrow(late_on_saturday + timedelta(hours=1)) == datetime(2026, 10, 26, 7, 0, tzinfo=UTC)


def test_a_time_is_taken_in_the_zone_of_the_page(manager: Client, settings: Any) -> None:
    settings.TIME_ZONE = "Asia/Kolkata"

    assert pause(manager, until_choice="time", until_time="2126-05-01T09:30").status_code == 302

    assert paused_queues()[0].resumes_at == datetime(2126, 5, 1, 4, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ({"until_choice": "time"}, "Say until when."),
        ({"until_choice": "time", "until_time": "2001-01-01T00:00"}, "It must be in the future."),
        ({"until_choice": "time", "until_time": "soon"}, "Enter a valid date/time."),
        ({"until_choice": "hour", "until_time": "2126-01-01T00:00"}, "A time is given below"),
        ({"until_choice": "never"}, "Select a valid choice"),
        ({"queue": "no such name!"}, "is not allowed"),
        ({"queue": ""}, "This field is required."),
        ({"reason": "x" * 501}, "at most 500 characters"),
    ],
)
def test_what_cannot_be_is_told_and_not_done(manager: Client, data: dict[str, str], told: str) -> None:
    answer = manager.post(PAUSE, {"queue": "mail", "until_choice": "resumed", **data})

    assert answer.status_code == 200
    assert told in answer.content.decode()
    assert not Queue.objects.exists()


@pytest.mark.parametrize("name", ["*", " * "])
def test_all_queues_are_paused_only_after_the_question(manager: Client, name: str) -> None:
    assert "Yes, all queues" in manager.get(PAUSE, {"queue": name}).content.decode()
    assert pause(manager, name).status_code == 200
    assert paused_queues() == []

    assert pause(manager, name, sure="on").status_code == 302
    assert [one.name for one in paused_queues()] == ["*"]
    assert "All queues are paused" in manager.get(QUEUES).content.decode()

    assert manager.post(RESUME, {"queue": name}).status_code == 200
    assert len(paused_queues()) == 1
    assert manager.post(RESUME, {"queue": name, "sure": "on"}).status_code == 302
    assert paused_queues() == []


def test_a_resumed_queue_that_stays_paused_with_all_is_told(manager: Client) -> None:
    operations.pause_queue("mail", actor="test")
    operations.pause_queue("*", actor="test")

    html = manager.post(RESUME, {"queue": "mail"}, follow=True).content.decode()

    assert "it stays paused with all queues" in html


def test_a_queue_that_somebody_else_resumed_meanwhile_is_told(manager: Client) -> None:
    html = manager.post(RESUME, {"queue": "mail"}, follow=True).content.decode()

    assert "was not paused any more" in html
    assert not Action.objects.exists()


def test_whoever_pauses_again_is_told_whose_pause_is_replaced(manager: Client) -> None:
    operations.pause_queue("mail", actor="budget:daily", reason="budget daily is spent")

    html = manager.get(PAUSE, {"queue": "mail"}).content.decode()

    assert "by the budget daily since" in html
    assert "What you say here takes its place." in html


def test_names_and_reasons_are_text(manager: Client) -> None:
    evil = "<svg onload=1>{{ 1 }}"
    JobFactory.create(queue=evil)
    operations.pause_queue("mail", actor=evil, reason=evil)

    pages = [manager.get(QUEUES), manager.get(PAUSE, {"queue": "mail"}), manager.get(PAUSE, {"queue": evil})]
    pages.append(manager.post(PAUSE, {"queue": evil, "until_choice": "resumed"}))

    for page in pages:
        html = page.content.decode()
        assert "<svg onload" not in html
        assert "&lt;svg onload" in html


def test_the_page_reads_the_same_for_many_queues(manager: Client) -> None:
    def reads() -> list[str]:
        with CaptureQueriesContext(connection) as captured:
            assert manager.get(QUEUES).status_code == 200
        passing = ("SAVEPOINT", "RELEASE", "ROLLBACK")
        return [
            query["sql"]
            for query in captured.captured_queries
            if not query["sql"].startswith(passing) and "set_config(" not in query["sql"]
        ]

    JobFactory.create(queue="first")
    few = reads()
    for number in range(40):
        JobFactory.create(queue=f"queue-{number}")
        StatFactory.create(queue=f"queue-{number}")
        operations.pause_queue(f"queue-{number}", actor="test")

    assert len(reads()) == len(few) <= 15


@pytest.mark.django_db(transaction=True)
def test_what_cannot_be_read_is_unknown_and_the_rest_stands(
    client_of: ClientOf, open_connection: Callable[[], SecondConnection]
) -> None:
    JobFactory.create(queue="mail")
    WorkerFactory.create(queues=["mail"])
    manager, other = client_of("view_job", MANAGE), open_connection()
    other.execute("BEGIN")
    other.execute("LOCK TABLE jobqueue_job IN ACCESS EXCLUSIVE MODE")

    answer = manager.get(QUEUES)

    row = {row["queue"]: row for row in answer.context["rows"]}["mail"]
    assert (str(row["depth"]), str(row["running"]), row["workers"]) == ("unknown", "unknown", "1")
    assert "The database is busy" in answer.content.decode()


def test_more_running_jobs_than_are_counted_are_at_least(manager: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_table, "COUNT_CAP", 2)
    JobFactory.create_batch(3, queue="mail", status=Status.RUNNING)

    assert rows_of(manager)["mail"]["running"] == "≥ 2"


def test_a_queue_beyond_the_cap_is_not_said_to_be_empty_soon(manager: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one such queue the index knows the depth, about; of two it knows the sum only, and there is a lower bound."""
    for module in (queue_table, counts):
        monkeypatch.setattr(module, "COUNT_CAP", 2)
    JobFactory.create_batch(300, queue="mail", created_at=ago(9_000))
    JobFactory.create_batch(2, queue="short", created_at=ago(9_000))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE jobqueue_job")
    for name in ("mail", "short"):
        StatFactory.create(queue=name, jobs=90)

    one = rows_of(manager)
    JobFactory.create_batch(3, queue="other", created_at=ago(9_000))
    two = rows_of(manager)

    assert (one["mail"]["depth"], two["mail"]["depth"]) == ("≥ 2", "≥ 2")
    assert re.fullmatch(r"≈ (49|50|51) min .*", one["mail"]["drain"])
    assert (two["mail"]["drain"], two["short"]["drain"]) == ("≥ 20 s", "20 s")


@pytest.mark.parametrize(
    ("second", "minute"), [(0, "0"), (25.0, "1500"), (0.4446, "26.7"), (0.00445, "0.27"), (1 / 900, "0.067")]
)
def test_rates_are_told_in_few_digits(second: float, minute: str) -> None:
    assert queues.per_minute(second) == minute
