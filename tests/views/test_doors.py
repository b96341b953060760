"""Who is let in, by which methods, and what every answer has."""

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.test import Client

from tests.conftest import ROOT

from .conftest import BEARER, PAGES

HEALTH = [page for page in PAGES if "health" in page]
Login = Callable[..., Client]

ATOMIC = """
import django, sys
from django.conf import settings
settings.DATABASES["default"]["ATOMIC_REQUESTS"] = True
settings.DATABASES["jobs"] = {**settings.DATABASES["default"]}
django.setup()
from django.core.handlers.base import BaseHandler
from django.urls import resolve
for page in sys.argv[1:]:
    view = resolve(page).func
    assert BaseHandler().make_view_atomic(view) is view, page
"""


@pytest.mark.django_db
@pytest.mark.parametrize("page", PAGES)
def test_nobody_is_let_in_by_default(client: Client, page: str, settings: Any) -> None:
    for token in (None, "a-token-of-thirty-two-characters"):
        settings.JOBQUEUE = {**settings.JOBQUEUE, "OPS_TOKEN": token}

        answer = client.get(page)

        assert (answer.status_code, answer["WWW-Authenticate"]) == (401, 'Bearer realm="jobqueue"')
        assert list(answer.json()) == ["error"]
        assert answer["Cache-Control"] == "no-store"


@pytest.mark.django_db
@pytest.mark.parametrize("page", PAGES)
def test_the_token_opens(client: Client, page: str) -> None:
    answer = client.get(page, headers=BEARER)

    assert answer.status_code == 200
    assert answer["Cache-Control"] == "no-store"


@pytest.mark.django_db
@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize(
    "given", ["Bearer ", "Bearer a-token-of-thirty-two-character", "Bearer é", "bearer None", "Basic eA=="]
)
def test_another_token_does_not(client: Client, page: str, given: str) -> None:
    assert client.get(page, headers={"Authorization": given}).status_code == 401


@pytest.mark.django_db
def test_without_a_token_in_the_settings_none_is_right(client: Client, settings: Any) -> None:
    settings.JOBQUEUE = {**settings.JOBQUEUE, "OPS_TOKEN": None}

    for given in ("Bearer", "Bearer ", "Bearer None"):
        assert client.get("/jobqueue/ops", headers={"Authorization": given}).status_code == 401


@pytest.mark.parametrize("page", PAGES)
def test_staff_that_may_see_jobs_is_let_in(login: Login, page: str) -> None:
    assert login("view_job").get(page).status_code == 200


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize(
    ("codenames", "is_staff"), [((), True), (("view_cost", "view_worker"), True), (("view_job",), False)]
)
def test_others_are_not(login: Login, page: str, codenames: tuple[str, ...], is_staff: bool) -> None:
    answer = login(*codenames, is_staff=is_staff).get(page)

    assert answer.status_code == 403
    assert list(answer.json()) == ["error"]


@pytest.mark.django_db
@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("method", ["post", "put", "patch", "delete", "options"])
def test_nothing_but_get_and_head_is_answered(bearer: Client, page: str, method: str) -> None:
    answer = getattr(bearer, method)(page)

    assert (answer.status_code, answer["Allow"]) == (405, "GET, HEAD")


@pytest.mark.django_db
@pytest.mark.parametrize("page", PAGES)
def test_head_has_the_headers_alone(bearer: Client, page: str) -> None:
    answer = bearer.head(page)

    assert (answer.status_code, answer.content) == (200, b"")


@pytest.mark.django_db
@pytest.mark.parametrize("page", HEALTH)
def test_open_health_tells_anybody_the_verdict_and_no_more(client: Client, page: str, settings: Any) -> None:
    settings.JOBQUEUE = {**settings.JOBQUEUE, "HEALTH_OPEN": True}

    answer = client.get(page).json()

    assert answer["status"] == "ok"
    assert all(set(check) == {"name", "ok"} for check in answer["checks"])


@pytest.mark.django_db
@pytest.mark.parametrize("page", sorted({*PAGES} - {*HEALTH}))
def test_open_health_opens_nothing_else(client: Client, page: str, settings: Any) -> None:
    settings.JOBQUEUE = {**settings.JOBQUEUE, "HEALTH_OPEN": True}

    assert client.get(page).status_code == 401


@pytest.mark.django_db
@pytest.mark.parametrize("page", PAGES)
def test_a_middleware_that_has_everybody_log_in_lets_the_token_through(
    client: Client, page: str, settings: Any
) -> None:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "django.contrib.auth.middleware.LoginRequiredMiddleware"]

    assert client.get(page, headers=BEARER).status_code == 200
    assert client.get(page).status_code == 401


def test_atomic_requests_of_no_database_put_a_transaction_around_a_page() -> None:
    """In one the snapshot is not shared, and with the database down none is begun."""
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"}

    subprocess.run([sys.executable, "-c", ATOMIC, *PAGES], cwd=ROOT, env=environment, check=True)


@pytest.mark.django_db
@pytest.mark.parametrize("page", PAGES)
def test_without_sessions_the_token_is_all(client: Client, page: str, settings: Any) -> None:
    settings.MIDDLEWARE = []

    assert client.get(page, headers=BEARER).status_code == 200
    assert client.get(page).status_code == 401


@pytest.mark.django_db
def test_costs_are_for_those_who_may_see_costs(login: Login) -> None:
    answer = login("view_job").get("/jobqueue/ops").json()

    assert (answer["cost_1h_usd"], answer["hidden"]) == (None, ["cost_1h_usd"])


@pytest.mark.django_db
@pytest.mark.parametrize(("codenames", "shown"), [(("view_job",), False), (("view_job", "view_cost"), True)])
def test_so_are_their_metrics(login: Login, codenames: tuple[str, ...], shown: bool) -> None:
    text = login(*codenames).get("/jobqueue/metrics").content.decode()

    names = ("jobqueue_cost_last_hour", "jobqueue_cost_total", "jobqueue_budget_spent_ratio")
    assert [f"# TYPE {name} " in text for name in names] == [shown] * 3


@pytest.mark.django_db
def test_who_may_see_costs_sees_them(login: Login) -> None:
    answer = login("view_job", "view_cost").get("/jobqueue/ops").json()

    assert answer["cost_1h_usd"] == "0"
    assert "hidden" not in answer


@pytest.mark.django_db
@pytest.mark.parametrize("page", PAGES)
def test_no_page_shows_what_is_secret(bearer: Client, page: str) -> None:
    """C138: neither the token, nor the key, nor the database's password, nor a payload."""
    from jobqueue.models import Job

    Job.objects.enqueue("probe.echo", {"value": "hunter2"}, owner="owner-of-it", dedupe_key="key-of-it")
    database = django_settings.DATABASES["default"]

    text = bearer.get(page).content.decode()

    secrets = (
        "a-token-of-thirty",
        django_settings.SECRET_KEY,
        str(database["PASSWORD"]),
        "hunter2",
        "owner-of-it",
        "key-of-it",
    )
    assert [secret for secret in secrets if secret and secret in text] == []
