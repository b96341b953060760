"""Who asks: nobody, a bearer of the token, people with and without permissions."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from jobqueue.ops import day, snapshot

TOKEN = "a-token-of-thirty-two-characters"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
PAGES = ("/jobqueue/ops", "/jobqueue/health/live", "/jobqueue/health/ready", "/jobqueue/metrics")


@pytest.fixture(autouse=True)
def token(settings: Any) -> None:
    """Set the token; and have no figures of an earlier test shared."""
    settings.JOBQUEUE = {**settings.JOBQUEUE, "OPS_TOKEN": TOKEN}
    snapshot.forget()
    day.forget()


@pytest.fixture
def bearer(client: Client) -> Client:
    """Return a client that sends the token."""
    client.defaults["HTTP_AUTHORIZATION"] = BEARER["Authorization"]
    return client


@pytest.fixture
def login(client: Client, db: None) -> Callable[..., Client]:
    """Return the function that logs a user in: login("view_job", is_staff=True)."""

    def login_as(*codenames: str, is_staff: bool = True) -> Client:
        user = User.objects.create_user("ann", password="x", is_staff=is_staff)
        user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
        client.force_login(user)
        return client

    return login_as
