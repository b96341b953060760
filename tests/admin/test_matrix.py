"""Each address of the console against each permission: whoever may comes in, everybody else does not (case C56)."""

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import AnonymousUser, Permission, User
from django.test import Client, RequestFactory
from django.urls import reverse

from jobqueue.models import Action, Incident
from jobqueue.models.action import request_address
from jobqueue.states import Status
from tests.factories import ActionFactory, AttemptFactory, JobFactory, WorkerFactory

from .matrix import NOBODY, ROWS, Row, World, addresses

pytestmark = pytest.mark.django_db

ClientOf = Callable[..., Client]
#: What the package brings, with Django's own: nobody adds, changes or deletes a row by a form.
PERMISSIONS = {
    *("view_job", "retry_job", "discard_job", "cancel_job", "release_job", "view_payload", "edit_payload"),
    *(
        "view_attempt",
        "view_cost",
        "view_worker",
        "manage_worker",
        "manage_queue",
        "view_incident",
        "manage_alert",
        "view_audit",
    ),
}
each_row = pytest.mark.parametrize("row", ROWS, ids=str)


@pytest.fixture
def world(db: None) -> World:
    """Return rows for every address."""
    dead = JobFactory.create(status=Status.DEAD, payload={"size": 0})
    return World(
        pending=JobFactory.create(),
        dead=dead,
        stuck=JobFactory.create(expired=True),
        attempt=AttemptFactory.create(job=dead),
        worker=WorkerFactory.create(worker_id="worker-1"),
        incident=Incident.objects.create(rule="dead_1h", state=Incident.State.FIRING),
        action=ActionFactory.create(),
    )


def ask(client: Client, row: Row, world: World, **data: Any) -> Any:
    """Ask for the address of a row by its method."""
    url = row.url(world)
    return client.get(url) if row.method == "GET" else client.post(url, {**row.data(world), **data})


def everything(*, refusals: bool = False) -> dict[str, list[Any]]:
    """Return all rows of all tables of the package; refusals are no change."""
    rows: dict[str, list[Any]] = {}
    for model in apps.get_app_config("jobqueue").get_models():
        if model._meta.managed and not model._meta.proxy:
            found = model._default_manager.order_by("pk").values()
            rows[model.__name__] = list(found.filter(refused=False) if model is Action and not refusals else found)
    return rows


def without(row: Row) -> list[set[str]]:
    """Return the largest sets of permissions that do not suffice: of each way in, one permission is missing."""
    return [PERMISSIONS - set(missing) for missing in product(*row.needs)] if row.needs else [PERMISSIONS]


def test_every_address_of_the_console_is_in_the_matrix() -> None:
    known = {row.name for row in ROWS}

    assert addresses() - known == set(), "give the new addresses rows in tests/admin/matrix.py"
    assert known - addresses() == set()


def test_the_package_brings_these_permissions_and_no_others() -> None:
    assert set(Permission.objects.filter(content_type__app_label="jobqueue").values_list("codename", flat=True)) == (
        PERMISSIONS
    )


@each_row
def test_exactly_its_permissions_open_it(client_of: ClientOf, world: World, row: Row) -> None:
    for number, way in enumerate(row.needs):
        answer = ask(client_of(*way, username=f"insider-{number}"), row, world)
        assert answer.status_code in row.answers, way
    assert not Action.objects.filter(refused=True).exists()


@each_row
def test_everybody_else_is_refused_changes_nothing_and_is_written_down(
    client: Client, client_of: ClientOf, world: World, row: Row
) -> None:
    before, outsiders = everything(), without(row)

    for visitor in (client, client_of(*PERMISSIONS, username="customer", is_staff=False)):
        answer = ask(visitor, row, world)
        assert answer.status_code == 302
        assert answer.headers["Location"].startswith(reverse("admin:login"))
    for number, held in enumerate(outsiders):
        answer = ask(client_of(*held, username=f"outsider-{number}"), row, world)
        assert answer.status_code == 403, sorted(PERMISSIONS - held)

    assert everything() == before
    refusals = Action.objects.filter(refused=True).order_by("id")
    assert [one.actor for one in refusals] == [f"outsider-{number}" for number in range(len(outsiders))]
    assert {one.address for one in refusals} <= {"127.0.0.1"}


def test_without_the_token_nothing_is_taken(client_of: ClientOf, world: World) -> None:
    client = client_of(*PERMISSIONS, username="victim", enforce_csrf_checks=True)
    before = everything(refusals=True)

    for row in ROWS:
        if row.method == "POST":
            assert ask(client, row, world).status_code == 403, row
            assert everything(refusals=True) == before, row


def test_reading_an_address_changes_nothing(client_of: ClientOf, world: World) -> None:
    """Case C55: a link that somebody was made to follow, with the words of the form in it."""
    client = client_of(*PERMISSIONS, username="victim")
    before = everything()

    for row in ROWS:
        for method in (client.get, client.head, client.options):
            method(row.url(world), row.data(world) | row.query(world))
        assert everything() == before, row


def test_what_nobody_may_a_superuser_may_not_either(admin_client: Client, world: World) -> None:
    before = everything()

    for row in ROWS:
        if row.needs == NOBODY:
            assert ask(admin_client, row, world).status_code == 403, row
    assert everything() == before


def test_no_page_offers_to_add_change_or_delete_rows() -> None:
    request = RequestFactory().get("/")
    request.user = User(is_superuser=True, is_active=True, is_staff=True)

    for model, page in admin.site._registry.items():
        if model._meta.app_label == "jobqueue" and model.__name__ != "AlertRule":
            has = page.has_add_permission(request), page.has_change_permission(request)
            assert (*has, page.has_delete_permission(request)) == (False, False, False), model
    request.user = AnonymousUser()
    assert not any(
        page.has_view_permission(request)
        for model, page in admin.site._registry.items()
        if model._meta.app_label == "jobqueue"
    )
    assert request_address.get() == ""
