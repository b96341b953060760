"""The pages of workers: what they show, who may drain and stop one, and what is asked before."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from jobqueue.admin import workers
from jobqueue.admin.wording import size
from jobqueue.models import Action, Job, Order, Worker
from jobqueue.ops import worker_table
from jobqueue.states import Status
from tests.factories import JobFactory, WorkerFactory, ago

pytestmark = pytest.mark.django_db

ClientOf = Callable[..., Client]
WORKERS = reverse("admin:jobqueue_worker_changelist")
PART = reverse("admin:jobqueue_worker_parts")
ID = "web-1:a7"


def url(name: str, worker_id: str = ID) -> str:
    return reverse(f"admin:jobqueue_worker_{name}", args=[worker_id])


@pytest.fixture
def manager(client_of: ClientOf) -> Client:
    return client_of("view_job", "view_worker", "manage_worker", username="anna")


def text_of(client: Client, address: str) -> str:
    return client.get(address).content.decode()


def row_of(client: Client) -> Any:
    (row,) = client.get(WORKERS).context["rows"]
    return row


def test_a_worker_is_shown_with_its_figures_and_what_it_runs(manager: Client) -> None:
    WorkerFactory.create(
        worker_id=ID, name="web-1", hostname="web-1.example.org", pid=4711, release="2026.11", slots=4, busy=2,
        jobs_per_second=2.4, memory_bytes=310_000_000, clock_skew_seconds=3.2, listening=False, started_at=ago(7_200),
        gauges=[{"name": "ports", "labels": {"host": "a"}, "value": 27.0}, "of another form"],
    )  # fmt: skip
    job = JobFactory.create(
        status=Status.RUNNING, worker_id=ID, job_type="documents.index", claimed_at=ago(90), run_started_at=ago(90)
    )
    JobFactory.create(status=Status.RUNNING, worker_id="another")

    listed, page = text_of(manager, WORKERS), text_of(manager, url("change"))

    assert "working" in listed
    assert "up for 2 h 0 min" in listed
    for text in (
        "2 / 4",
        "2.4",
        "295.6 MiB",
        "3.2 s",
        "web-1.example.org",
        "4711",
        "2026.11",
        f"documents.index #{job.pk}",
    ):
        assert text in listed, text
        assert text in page, text
    assert "1 min 30 s" in listed
    assert "polls" in listed
    assert "ports (host=a)" in page
    assert "another form" not in page


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (75.0, "clock ahead by 1 min 15 s"),
        (-75.0, "clock behind by 1 min 15 s"),
        (-7_200.0, "clock behind by 2 h 0 min"),
        (-0.4, "clock right"),
        (None, "clock not compared yet"),
    ],
)
def test_how_far_a_clock_is_off_is_told_either_way(manager: Client, seconds: float | None, shown: str) -> None:
    WorkerFactory.create(worker_id=ID, clock_skew_seconds=seconds)

    assert shown in text_of(manager, WORKERS)


def test_what_a_worker_has_not_told_yet_is_not_called_right(manager: Client) -> None:
    WorkerFactory.create(worker_id=ID, clock_skew_seconds=None, listening=None)

    listed = text_of(manager, WORKERS)

    assert "clock right" not in listed
    assert "hears hints" not in listed


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({"heartbeat_at": ago(800)}, "silent"),
        ({"stopping": True, "busy": 1}, "stopping"),
        ({"busy": 1}, "working"),
        ({"busy": 0}, "idle"),
    ],
)
def test_how_it_stands_is_told_in_a_word(manager: Client, fields: dict[str, Any], state: str) -> None:
    WorkerFactory.create(worker_id=ID, **fields)

    assert state in row_of(manager).state


def test_of_many_running_jobs_some_are_named_and_all_are_linked(manager: Client) -> None:
    WorkerFactory.create(worker_id=ID)
    for _ in range(8):
        JobFactory.create(status=Status.RUNNING, worker_id=ID)

    row = row_of(manager)

    assert (len(row.runs), row.more_runs) == (5, "and 3 more")
    assert manager.get(row.runs_url).context["cl"].result_count == 8


@pytest.mark.parametrize("verb", ["drain", "stop"])
def test_a_worker_is_told_to_end_after_asking(manager: Client, verb: str) -> None:
    WorkerFactory.create(worker_id=ID, name="web-1")
    JobFactory.create(status=Status.RUNNING, worker_id=ID, job_type="documents.index")

    asked = manager.get(url(verb))
    assert not Order.objects.exists()
    assert "documents.index" in asked.content.decode()
    told = manager.post(url(verb), {"reason": "a new release"}, follow=True)

    order, action = Order.objects.get(), Action.objects.get()
    assert (order.kind, order.worker_id, order.asked_by, order.answered_at) == (verb, ID, "anna", None)
    assert (action.action, action.actor, action.subject, action.reason) == (
        f"{verb}_worker",
        "anna",
        f"worker:{ID}",
        "a new release",
    )
    assert f"The worker {ID} was told to {verb}." in told.content.decode()


def test_pressed_twice_it_is_told_once(manager: Client) -> None:
    WorkerFactory.create(worker_id=ID)

    for _ in range(2):
        manager.post(url("drain"))

    assert Order.objects.count() == Action.objects.count() == 1


def test_a_worker_that_does_not_answer_is_shown_so(manager: Client) -> None:
    WorkerFactory.create(worker_id=ID)
    order = Order.objects.create(worker_id=ID, kind="stop", asked_by="bob", asked_at=ago(5))
    assert row_of(manager).asked == "bob tells it to stop…"

    Order.objects.filter(pk=order.pk).update(asked_at=ago(11))
    silent = row_of(manager)
    assert (silent.asked, silent.unanswered) == ("bob told it to stop 11 s ago: it has not answered", True)

    Order.objects.filter(pk=order.pk).update(answered_at=ago(1), obeyed=True)
    assert (row_of(manager).asked, row_of(manager).unanswered) == ("bob had it stopped 11 s ago", False)


@pytest.mark.parametrize("verb", ["drain", "stop"])
def test_whoever_may_only_look_sees_no_button_and_is_refused(client_of: ClientOf, verb: str) -> None:
    WorkerFactory.create(worker_id=ID)
    reader = client_of("view_worker", "view_job", "release_job", "manage_queue", username="reader")

    for address in (WORKERS, PART, url("change"), url("part")):
        answer = reader.get(address)
        assert answer.status_code == 200
        assert url(verb) not in answer.content.decode()
    assert reader.get(url(verb)).status_code == 403
    assert reader.post(url(verb)).status_code == 403
    assert not Order.objects.exists()
    assert Action.objects.filter(refused=True, actor="reader", action=f"{verb}_worker").exists()


def test_jobs_are_named_only_to_whoever_may_see_jobs(client_of: ClientOf) -> None:
    WorkerFactory.create(worker_id=ID)
    JobFactory.create(status=Status.RUNNING, worker_id=ID, job_type="secret.plans")
    reader = client_of("view_worker", username="reader")

    for address in (WORKERS, url("change"), PART, url("part")):
        assert "secret.plans" not in text_of(reader, address)


def test_the_pages_need_a_permission(client_of: ClientOf) -> None:
    WorkerFactory.create(worker_id=ID)
    stranger, manager = client_of("view_job", username="stranger"), client_of("manage_worker", username="manager")

    for address in (WORKERS, PART, url("change"), url("part")):
        assert stranger.get(address).status_code == 403
        assert manager.get(address).status_code == 200


def test_a_worker_that_has_ended_is_told_of(manager: Client) -> None:
    for answer in (manager.get(url("change"), follow=True), manager.post(url("drain"), follow=True)):
        assert f"The worker {ID} has ended, or there was none." in answer.content.decode()
    last = manager.get(url("part"))
    assert (last.status_code, "This worker has ended." in last.content.decode()) == (286, True)
    assert not Order.objects.exists()


def test_without_workers_the_page_says_what_would_be_here(manager: Client) -> None:
    assert "manage.py runworker" in text_of(manager, WORKERS)


def test_the_number_of_queries_does_not_grow(manager: Client) -> None:
    def queries() -> int:
        with CaptureQueriesContext(
            connection,
        ) as seen:
            manager.get(WORKERS)
        return len(seen)

    WorkerFactory.create(worker_id=ID)
    few = queries()
    for number in range(30):
        WorkerFactory.create(worker_id=f"w{number}")
        JobFactory.create(status=Status.RUNNING, worker_id=f"w{number}")
        Order.objects.create(worker_id=f"w{number}", kind="drain", asked_by="bob")

    assert queries() == few <= 15


def test_what_cannot_be_read_in_time_is_left_out(manager: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    WorkerFactory.create(worker_id=ID, name="web-1")
    monkeypatch.setattr(
        worker_table, "_runs", lambda _jobs: list(Job.objects.raw("SELECT id, pg_sleep(9) FROM jobqueue_worker"))
    )

    page = text_of(manager, WORKERS)

    assert "The database is busy" in page
    assert "web-1" in page


def test_hostile_names_are_escaped(manager: Client) -> None:
    evil = "<script>alert(1)</script>"
    WorkerFactory.create(
        worker_id="evil", name=evil, hostname=evil, release=evil, version=evil, queues=[evil],
        gauges=[{"name": evil, "labels": {evil: evil}, "value": evil}],
    )  # fmt: skip
    Order.objects.create(worker_id="evil", kind="drain", asked_by=evil)
    JobFactory.create(status=Status.RUNNING, worker_id="evil", job_type=evil)

    for address in (WORKERS, url("change", "evil"), url("drain", "evil")):
        assert evil not in text_of(manager, address)


@pytest.mark.parametrize(
    ("number", "words"),
    [(1023, "1023 bytes"), (1024, "1.0 KiB"), (310_000_000, "295.6 MiB"), (2**33, "8.0 GiB"), (2**55, "32768.0 TiB")],
)
def test_sizes_are_in_units_that_keep_them_short(number: int, words: str) -> None:
    assert size(number) == words


def test_a_busy_database_opens_no_way_to_workers_that_a_subclass_hides(
    manager: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table cannot be read in time, so it does not tell whether the worker is among those that may be seen."""
    for name in (ID, "other"):
        WorkerFactory.create(worker_id=name)
    monkeypatch.setattr(workers, "read_table", lambda *_sets: worker_table.WorkerTable(unknown=frozenset({"workers"})))
    monkeypatch.setattr(workers.WorkerAdmin, "get_queryset", lambda _self, _request: Worker.objects.exclude(pk="other"))

    manager.post(url("stop", "other"), {"reason": ""})
    assert not Order.objects.exists()

    manager.post(url("stop"), {"reason": ""})
    assert Order.objects.get().worker_id == ID
