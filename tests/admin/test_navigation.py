"""The console's navigation: the pages that the user may see, in one order, and where one is."""

import re
from collections.abc import Callable

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from jobqueue.models import Job
from tests.factories import AttemptFactory, JobFactory

JOBS = reverse("admin:jobqueue_job_changelist")
NAV = re.compile(r'<nav class="jobqueue-nav".*?</nav>', re.DOTALL)
LINK = re.compile(r'<a href="([^"]+)"(?: aria-current="(\w+)")?>([^<]+)</a>')

Enter = Callable[..., Client]


@pytest.fixture
def enter(db: None) -> Enter:
    """Return a function that logs a member of the staff in, with these permissions of the console."""

    def enter_as(*codenames: str) -> Client:
        user = User.objects.create_user("anna", is_staff=True)
        user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
        client = Client()
        client.force_login(user)
        return client

    return enter_as


def entries(client: Client, address: str) -> list[tuple[str, str]]:
    """Return the labels on a page, each with what marks it."""
    found = NAV.findall(client.get(address).content.decode())
    assert len(found) <= 1
    return [(label, current) for part in found for _url, current, label in LINK.findall(part)]


def test_all_pages_are_in_one_order(enter: Enter) -> None:
    client = enter("view_job", "view_cost", "view_worker", "view_incident", "view_audit")

    assert [label for label, _ in entries(client, JOBS)] == [
        *("Overview", "Jobs", "Dead letters", "Stuck jobs", "Queues", "Workers", "Costs"),
        *("Incidents", "Alert rules", "Audit"),
    ]


def test_only_what_the_user_may_see_is_named(enter: Enter) -> None:
    client = enter("view_cost")

    found = entries(client, reverse("admin:jobqueue_cost_changelist"))

    assert found == [("Overview", ""), ("Costs", "page")]


def test_where_one_is_is_marked_also_on_the_pages_behind(enter: Enter) -> None:
    client = enter("view_job", "manage_queue")
    attempt = AttemptFactory.create(job=JobFactory.create())
    expected = {
        reverse("admin:app_list", args=["jobqueue"]): ("Overview", "page"),
        JOBS: ("Jobs", "page"),
        reverse("admin:jobqueue_job_change", args=[Job.objects.get().pk]): ("Jobs", "true"),
        reverse("admin:jobqueue_attempt_change", args=[attempt.pk]): ("Jobs", "true"),
        reverse("admin:jobqueue_deadletter_changelist"): ("Dead letters", "page"),
        reverse("admin:jobqueue_queue_pause"): ("Queues", "true"),
    }

    for address, marked in expected.items():
        assert [entry for entry in entries(client, address) if entry[1]] == [marked], address


def test_pages_of_other_apps_have_no_navigation_of_the_console(enter: Enter) -> None:
    client = enter("view_job", "view_user")

    assert entries(client, reverse("admin:auth_user_changelist")) == []


def test_a_window_that_pops_up_has_none(enter: Enter) -> None:
    client = enter("view_job")

    assert entries(client, f"{JOBS}?_popup=1") == []


def test_a_page_of_ones_own_says_where_it_is(enter: Enter) -> None:
    client = enter("view_job", "manage_queue")

    page = client.get(reverse("admin:jobqueue_queue_pause")).content.decode()

    crumbs = re.search(r'<div class="breadcrumbs">(.*?)</div>', page, re.DOTALL)
    assert crumbs is not None
    assert re.findall(r">([^<>]+)</a>", crumbs[1]) == ["Home", "Job queue", "Queues"]
    assert crumbs[1].strip().endswith("Pause a queue")
    assert page.count("jobqueue/admin.css") == 1
