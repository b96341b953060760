"""The live page of a job: its state, orders to its worker with their answers, and what is offered to whom."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from jobqueue.admin.jobs import JobAdmin
from jobqueue.models import Action, Job, Order
from jobqueue.states import Status
from tests.factories import JobFactory, WorkerFactory, ago

from .conftest import ALL, asked_of_tables, page_of
from .test_escaping import EVIL, live_nodes

pytestmark = pytest.mark.django_db

ClientOf = Callable[..., Client]
OPERATOR = (*ALL, "manage_worker")


def url(job: Job, name: str) -> str:
    return reverse(f"admin:jobqueue_job_{name}", args=[job.pk])


def html_of(client: Client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code in (200, 286), answer.status_code
    return answer.content.decode()


def seen(job: Job) -> str:
    return f"{job.status}-{job.lease_epoch}"


def running(**columns: Any) -> Job:
    job: Job = JobFactory.create(**{"status": Status.RUNNING, "run_started_at": ago(5)} | columns)
    return job


def ordered(job: Job, **columns: Any) -> Order:
    about = {"worker_id": job.worker_id, "job_id": job.pk, "lease_epoch": job.lease_epoch, "asked_by": "anna"}
    return Order.objects.create(**{"kind": Order.Kind.STACK} | about | columns)


@pytest.fixture
def manager(client_of: ClientOf) -> Client:
    """Return the client of somebody who may also manage workers."""
    return client_of(*OPERATOR)


def test_a_job_that_waits_or_runs_is_live_and_one_that_ended_is_not(manager: Client) -> None:
    active, ended = running(), JobFactory.create(status=Status.DONE)

    assert f"{url(active, 'state')}?seen={seen(active)}" in html_of(manager, page_of(active))
    assert "data-jobqueue-live" not in html_of(manager, page_of(ended))


def test_the_part_tells_the_state_anew_and_how_far_it_has_come(manager: Client) -> None:
    job = running(progress={"percent": 40, "message": "page 5"})

    answer = manager.get(url(job, "state"), {"seen": seen(job)})

    html = answer.content.decode()
    assert answer.status_code == 200
    assert answer["X-JobQueue-Live"]
    assert "It last reported 40 %: page 5." in html
    assert 'width="40" height="8"' in html
    assert "has moved on" not in html
    assert "<html" not in html


@pytest.mark.parametrize("percent", ["much", True, None, [1], "NaN", "1e999", {"a": 1}])
def test_what_is_no_percentage_draws_no_bar(manager: Client, percent: Any) -> None:
    assert "jobqueue-bar" not in html_of(manager, url(running(progress={"percent": percent}), "state"))


@pytest.mark.parametrize(("percent", "shown"), [(-5, "0"), (250, "100"), (12.6, "13")])
def test_a_percentage_stays_within_its_bar(manager: Client, percent: float, shown: str) -> None:
    assert f'width="{shown}"' in html_of(manager, url(running(progress={"percent": percent}), "state"))


def test_a_job_that_moved_on_says_so_and_ends_the_asking_when_it_is_over(manager: Client) -> None:
    job = running()
    before = seen(job)
    Job.objects.filter(pk=job.pk).update(lease_epoch=2)

    retried = manager.get(url(job, "state"), {"seen": before})
    Job.objects.filter(pk=job.pk).update(status=Status.DONE, finished_at=ago(0))
    over = manager.get(url(job, "state"), {"seen": before})

    assert (retried.status_code, over.status_code) == (200, 286)
    for answer in (retried, over):
        assert "has moved on" in answer.content.decode()
        assert page_of(job) in answer.content.decode()


def test_a_stack_is_asked_for_and_waited_for(manager: Client) -> None:
    job = running()
    assert url(job, "ask_stack") in html_of(manager, page_of(job))

    answer = manager.post(url(job, "ask_stack"))

    assert answer["Location"] == f"{page_of(job)}#jobqueue-stack"
    order = Order.objects.get()
    assert (order.kind, order.job_id, order.lease_epoch, order.asked_by) == ("stack", job.pk, 1, "operator")
    assert url(job, "stack") in html_of(manager, page_of(job))
    waiting = manager.get(url(job, "stack"))
    assert waiting.status_code == 200
    assert "Waiting for the worker" in waiting.content.decode()

    Order.objects.update(obeyed=True, answer=f'File "jobs.py", line 41 in index {EVIL}', answered_at=ago(0))
    answered = manager.get(url(job, "stack"))

    html = answered.content.decode()
    assert answered.status_code == 286
    assert "line 41 in index" in html
    assert list(live_nodes(html)) == []
    assert url(job, "stack") not in html_of(manager, page_of(job))


def test_a_worker_that_does_not_answer_is_not_waited_for(manager: Client) -> None:
    job = running()
    ordered(job, asked_at=ago(30))

    answer = manager.get(url(job, "stack"))

    assert answer.status_code == 286
    assert "has not answered for 30 s" in answer.content.decode()


def test_a_refusal_of_the_worker_is_told_in_words(manager: Client) -> None:
    job = running()
    ordered(job, answered_at=ago(1), obeyed=False, answer=Order.Refusal.NOT_BEGUN)

    html = html_of(manager, page_of(job))

    assert "Its handler has not begun" in html
    assert "not-begun" not in html


def test_an_answer_of_an_attempt_that_is_over_says_so(manager: Client) -> None:
    job = running(lease_epoch=2)
    ordered(job, lease_epoch=1, answered_at=ago(1), obeyed=True, answer="old")
    ordered(job, lease_epoch=2, answered_at=ago(1), obeyed=True, answer="new")

    html = html_of(manager, url(job, "stack"))

    assert html.index("new") < html.index("That was run 1, which is over.") < html.index("old")
    assert "That was run 2" not in html


def test_a_running_job_is_killed_by_an_order(manager: Client) -> None:
    job = running()
    assert url(job, "kill") in html_of(manager, page_of(job))

    answer = manager.post(url(job, "kill"), {"reason": "it hangs"}, follow=True)

    assert "was told to kill" in answer.content.decode()
    order = Order.objects.get()
    assert (order.kind, order.job_id, order.lease_epoch) == ("kill", job.pk, 1)
    assert Action.objects.get(action="kill_job").reason == "it hangs"


def test_a_run_that_began_after_the_page_was_read_is_not_killed(manager: Client) -> None:
    job = running()
    assert '<input type="hidden" name="run" value="1">' in html_of(manager, page_of(job))
    Job.objects.update(lease_epoch=2)

    answer = manager.post(url(job, "kill"), {"run": "1"}, follow=True)

    assert "nothing was killed" in answer.content.decode()
    assert not Order.objects.exists()
    manager.post(url(job, "kill"), {"run": "2"})
    assert Order.objects.get().lease_epoch == 2


@pytest.mark.parametrize(("name", "words"), [("kill", "nothing was killed"), ("ask_stack", "there is no stack")])
def test_what_nobody_runs_is_not_asked_about(manager: Client, name: str, words: str) -> None:
    job = JobFactory.create()

    answer = manager.post(url(job, name), follow=True)

    assert words in answer.content.decode()
    assert not Order.objects.exists()


@pytest.mark.parametrize("name", ["kill", "ask_stack", "stack"])
def test_orders_need_their_permission_the_token_and_a_visible_job(client_of: ClientOf, name: str) -> None:
    job = running()
    ordered(job, answered_at=ago(1), obeyed=True, answer="line 41 in index")

    def ask(client: Client, address: str) -> int:
        return client.get(address).status_code if name == "stack" else client.post(address).status_code

    reader, blind = client_of(*ALL), client_of("manage_worker", username="blind")
    assert ask(reader, url(job, name)) == ask(blind, url(job, name)) == 403
    html = html_of(reader, page_of(job))
    assert "Show its stack" not in html
    assert url(job, "kill") not in html
    assert "line 41 in index" not in html
    if name != "stack":
        strict = client_of(*OPERATOR, username="strict", enforce_csrf_checks=True)
        assert strict.post(url(job, name)).status_code == 403
        assert strict.get(url(job, name)).status_code == 405
    assert ask(client_of(*OPERATOR, username="manager"), url(JobFactory.build(id=job.pk + 999), name)) == 404
    assert Order.objects.count() == 1


def test_the_state_needs_the_permission_to_see_jobs(client_of: ClientOf) -> None:
    job = running()

    assert client_of("manage_worker", "view_worker").get(url(job, "state")).status_code == 403
    assert Client().get(url(job, "state")).status_code == 302


@pytest.mark.parametrize("name", ["state", "stack", "kill", "ask_stack"])
def test_a_subclass_that_hides_a_job_hides_its_parts(
    manager: Client, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    job, others = running(), running()
    plain = JobAdmin.get_queryset
    monkeypatch.setattr(JobAdmin, "get_queryset", lambda self, request: plain(self, request).exclude(pk=job.pk))

    answer = (manager.get if name in ("state", "stack") else manager.post)(url(job, name))

    assert answer.status_code == 404
    assert not Order.objects.exists()
    assert page_of(job) not in html_of(manager, page_of(others))


@pytest.mark.parametrize(
    ("columns", "offered"),
    [
        ({}, {"cancel", "clone"}),
        ({"status": Status.SCHEDULED}, {"cancel", "clone"}),
        ({"status": Status.RUNNING}, {"cancel", "kill", "clone"}),
        ({"expired": True}, {"release", "cancel", "kill", "mark_dead", "clone"}),
        ({"status": Status.DEAD}, {"retry", "retry_at", "edit", "discard", "clone"}),
        ({"status": Status.DONE}, {"clone"}),
        ({"status": Status.CANCELLED}, {"clone"}),
    ],
)
def test_what_is_offered_follows_the_status(client_of: ClientOf, columns: dict[str, Any], offered: set[str]) -> None:
    job = JobFactory.create(**columns)

    html = html_of(client_of(*OPERATOR, "edit_payload"), page_of(job))

    assert offers_in(html, job) == offered


def test_every_offer_has_its_permission(client_of: ClientOf) -> None:
    jobs = [JobFactory.create(expired=True), JobFactory.create(status=Status.DEAD)]
    needed = {
        "retry_job": {"retry", "retry_at", "clone"},
        "discard_job": {"discard"},
        "cancel_job": {"cancel"},
        "release_job": {"release", "mark_dead"},
        "manage_worker": {"kill"},
        "edit_payload": set(),
        "view_payload": set(),
    }
    for permission, expected in needed.items():
        client = client_of("view_job", permission, username=permission)
        found = set().union(*(offers_in(html_of(client, page_of(job)), job) for job in jobs))
        assert found == expected, permission

    user = User.objects.get(username="edit_payload")
    user.user_permissions.add(Permission.objects.get(codename="retry_job"))
    client = Client()
    client.force_login(user)
    assert "edit" in offers_in(html_of(client, page_of(jobs[1])), jobs[1])


def offers_in(html: str, job: Job) -> set[str]:
    """Return the names of what the page offers to do to a job."""
    start = re.escape(reverse("admin:jobqueue_job_act", args=[job.pk, "x"]).removesuffix("act/x/"))
    found = set(re.findall(rf'(?:formaction|action|href)="{start}(?:act/)?([a-z_-]+)/"', html))
    return {name.replace("-", "_") for name in found} - {"ask_stack", "unmasked", "change", "history"}


@pytest.mark.parametrize("name", ["retry_at", "discard", "cancel", "kill", "mark_dead"])
def test_grave_things_ask_before_they_are_done(client_of: ClientOf, name: str) -> None:
    dead = name in ("retry_at", "discard")
    job = JobFactory.create(**({"status": Status.DEAD} if dead else {"expired": True}))

    html = html_of(client_of(*OPERATOR), page_of(job))

    address = (
        reverse("admin:jobqueue_job_act", args=[job.pk, name]) if name not in ("retry_at", "kill") else url(job, name)
    )
    inside = re.search(
        rf'<details name="jobqueue-grave">(?:(?!</details>).)*action="{address}".*?</details>', html, re.DOTALL
    )
    assert inside is not None
    assert 'name="reason"' in inside[0]


def test_a_stuck_job_is_marked_dead_with_a_reason(client_of: ClientOf) -> None:
    job = JobFactory.create(expired=True)

    answer = client_of(*ALL).post(
        reverse("admin:jobqueue_job_act", args=[job.pk, "mark_dead"]), {"reason": "hopeless"}, follow=True
    )

    assert answer.status_code == 200
    assert Job.objects.get(pk=job.pk).status == Status.DEAD
    assert Action.objects.get().reason == "hopeless"


def test_the_live_parts_take_few_queries(manager: Client) -> None:
    WorkerFactory.create(worker_id="worker-1")
    job = running(progress={"percent": 5})
    ordered(job)

    for address in (page_of(job), url(job, "state"), url(job, "stack")):
        with CaptureQueriesContext(connection) as queries:
            manager.get(address)
        assert len(asked_of_tables(queries)) <= 15, address
