"""The door around every view of the console: where a request came from, and refusals that outlive the rollback."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db import connection
from django.http import HttpResponse
from django.test import Client, RequestFactory
from django.urls import reverse
from pytest_django import Settings

from jobqueue import operations
from jobqueue.admin import door
from jobqueue.admin.door import address_of, through_door
from jobqueue.exceptions import ConfigurationError
from jobqueue.models import Action, Job
from jobqueue.models.action import current_address
from jobqueue.states import Status
from tests.connections import SecondConnection
from tests.factories import JobFactory

from .conftest import ACTIONS, COSTS, DEAD, JOBS, act_url, page_of

pytestmark = pytest.mark.django_db

ClientOf = Callable[..., Client]


@pytest.fixture
def atomic_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every request run in a transaction, as many projects do."""
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", True)


def request(**meta: Any) -> Any:
    return RequestFactory(**{"REMOTE_ADDR": "10.0.0.1", **meta}).get("/")


def test_the_address_is_that_of_the_connection_whatever_the_client_says() -> None:
    assert address_of(request(HTTP_X_FORWARDED_FOR="192.0.2.1")) == "10.0.0.1"
    assert address_of(request(REMOTE_ADDR="")) == ""  # a socket of the host


@pytest.mark.parametrize(
    ("told", "address"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("198.51.100.9, 192.0.2.1", "192.0.2.1"),  # the first is what the client itself said
        ("2001:DB8::1", "2001:db8::1"),
        ("192.0.2.1, <script>", "10.0.0.1"),
        ("", "10.0.0.1"),
    ],
)
def test_behind_a_proxy_it_is_what_the_proxy_says(settings: Settings, told: str, address: str) -> None:
    settings.JOBQUEUE = {"ADDRESS_HEADER": "X-Forwarded-For"}

    assert address_of(request(HTTP_X_FORWARDED_FOR=told)) == address


@pytest.mark.parametrize("name", ["", "X Forwarded", 7])
def test_a_header_that_cannot_be_is_refused(settings: Settings, name: Any) -> None:
    settings.JOBQUEUE = {"ADDRESS_HEADER": name}

    with pytest.raises(ConfigurationError, match="name of a header"):
        address_of(request())


def test_what_is_done_on_a_page_has_the_address(client_of: ClientOf) -> None:
    job = JobFactory.create(status=Status.DEAD)

    client_of("view_job", "retry_job").post(act_url(job, "retry"), REMOTE_ADDR="192.0.2.8")

    assert Action.objects.get().address == "192.0.2.8"
    assert current_address() == ""


@pytest.mark.usefixtures("atomic_requests")
def test_a_refusal_stays_where_requests_are_transactions(client_of: ClientOf) -> None:
    job = JobFactory.create(status=Status.DEAD)

    answer = client_of("view_job").post(act_url(job, "retry"), REMOTE_ADDR="192.0.2.8")

    action = Action.objects.get()
    assert (answer.status_code, action.refused, action.address) == (403, True, "192.0.2.8")
    assert action.detail == {"permission": "jobqueue.retry_job", "method": "POST", "path": act_url(job, "retry")}


@pytest.mark.usefixtures("atomic_requests")
def test_a_view_is_the_transaction_that_the_project_asked_for() -> None:
    job = JobFactory.create()

    def change_and_refuse(_request: Any) -> HttpResponse:
        Job.objects.filter(pk=job.pk).update(priority=7)
        raise PermissionDenied

    with pytest.raises(PermissionDenied):
        through_door(change_and_refuse, Job, admin.site)(_from_somebody())

    assert Job.objects.get().priority != 7
    assert Action.objects.get().refused


def test_what_a_view_did_without_a_transaction_stays() -> None:
    job = JobFactory.create()

    def change_and_fail(_request: Any) -> HttpResponse:
        Job.objects.filter(pk=job.pk).update(priority=7)
        raise ValueError

    with pytest.raises(ValueError):
        through_door(change_and_fail, Job, admin.site)(_from_somebody("POST"))

    assert Job.objects.get().priority == 7
    assert not Action.objects.exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("table", "address", "told"),
    [
        ("jobqueue_job", JOBS, "The jobs could not be read in time"),
        ("jobqueue_job", "one job", "The database did not answer in time"),
        ("jobqueue_action", ACTIONS, "The database did not answer in time"),
        ("jobqueue_incident", "admin:jobqueue_alertrule_changelist", "The database did not answer in time"),
        ("jobqueue_attempt", "one group", "The sample could not be read in time"),
        ("jobqueue_action", "one group", "Unknown: the database is busy"),
    ],
)
def test_no_page_waits_for_a_lock_that_somebody_holds(
    client_of: ClientOf,
    second_connection: SecondConnection,
    monkeypatch: pytest.MonkeyPatch,
    table: str,
    address: str,
    told: str,
) -> None:
    """A migration for example: without a limit the browser would wait as long as it does."""
    monkeypatch.setattr(door, "LOCK", "100ms")
    client = client_of("view_job", "view_audit", "view_incident")
    job = JobFactory.create(status=Status.DEAD)
    group = f"{reverse('admin:jobqueue_deadletter_group')}?fingerprint={job.fingerprint}&job_type={job.job_type}"
    url = {"one job": page_of(job), "one group": group}.get(address) or reverse(address)
    second_connection.execute("BEGIN")
    second_connection.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")

    answer = client.get(url)

    assert told in answer.content.decode()
    assert (answer.status_code == 503) == ("did not answer" in told)


def test_a_limit_of_the_sites_own_that_is_shorter_stays() -> None:
    seen: list[str] = []

    def look(_request: Any) -> HttpResponse:
        with connection.cursor() as cursor:
            cursor.execute("SELECT current_setting('statement_timeout'), current_setting('lock_timeout')")
            seen.extend(cursor.fetchone())
        return HttpResponse()

    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('statement_timeout', '700ms', true)")

    through_door(look, Job, admin.site)(_from_somebody())

    assert seen == ["700ms", "1s"]


def _from_somebody(method: str = "GET") -> Any:
    class Somebody:
        def has_perm(self, _permission: str) -> bool:
            return False

        def get_username(self) -> str:
            return "somebody"

    asked: Any = request()
    asked.user, asked.resolver_match, asked.method = Somebody(), None, method
    return asked


def test_a_page_that_is_refused_is_written_down_by_its_name(client_of: ClientOf) -> None:
    client = client_of("view_job")

    for url in (reverse(COSTS), reverse(ACTIONS)):
        assert client.get(url).status_code == 403

    rows = list(Action.objects.order_by("id").values_list("actor", "action", "subject", "refused"))
    assert rows == [
        ("operator", "open", "page:cost_changelist", True),
        ("operator", "open", "page:action_changelist", True),
    ]


def test_a_live_part_that_is_refused_again_and_again_is_one_row(client_of: ClientOf) -> None:
    client = client_of("view_job")

    for _ in range(5):
        client.get(reverse("admin:jobqueue_incident_part"))

    assert Action.objects.count() == 1


def test_the_jobs_that_were_ticked_are_named(client_of: ClientOf) -> None:
    jobs = JobFactory.create_batch(3, status=Status.DEAD)
    ticked = [*(job.pk for job in jobs), "x", 2**64]

    client_of("view_job").post(reverse(DEAD), {"action": "retry", "index": 0, "_selected_action": ticked})

    assert Action.objects.get().job_ids == [job.pk for job in jobs]


def test_ones_own_view_keeps_refusals_by_the_same_door(client_of: ClientOf) -> None:
    with operations.asked_from("192.0.2.8") as asked:
        asked.detail = {"path": "/shop/retry/"}
        with pytest.raises(PermissionDenied):
            operations.retry([1], actor=_from_somebody().user)

    assert Action.objects.get().detail == {"permission": "jobqueue.retry_job", "path": "/shop/retry/"}
