"""The page of one group of dead letters: what it tells, to whom, and what people say there."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from jobqueue import operations
from jobqueue.admin.dead_letters import DeadLetterAdmin
from jobqueue.admin.group_rows import group_url
from jobqueue.admin.groups import chosen_group
from jobqueue.models import Action, GroupNote, Job, Release
from jobqueue.operations import Group
from jobqueue.ops.dead_group import group_figures
from jobqueue.states import Status
from tests.factories import AttemptFactory, JobFactory, WorkerFactory, ago

from .conftest import DEAD
from .hostile import EVIL
from .test_acting import hidden_fields, statuses
from .test_escaping import live_nodes

pytestmark = pytest.mark.django_db

ClientOf = Callable[..., Client]
GROUP = Group("f1", "probe.ok")
PAYLOAD = {"path": "a.pdf", "password": "hunter2", "pages": [{"no": 1}], "draft": None}


def dead(jobs: int = 1, **columns: Any) -> list[Job]:
    return JobFactory.create_batch(jobs, **{"status": Status.DEAD, "fingerprint": "f1", "payload": PAYLOAD} | columns)


def page(client: Client, group: Group = GROUP) -> str:
    answer = client.get(group_url(group))
    assert answer.status_code == 200
    return answer.content.decode()


def say(client: Client, what: str, *groups: Group, **said: Any) -> Any:
    told = {"fingerprint": [group.fingerprint for group in groups], "job_type": [group.job_type for group in groups]}
    return client.post(reverse("admin:jobqueue_deadletter_note", args=[what]), told | said, follow=True)


@pytest.fixture
def keeper(client_of: ClientOf) -> Client:
    """Return the client of somebody who may retry jobs, and so say something of groups."""
    return client_of("view_job", "retry_job", username="keeper")


def test_a_group_tells_how_it_came_about(operator: Client) -> None:
    for hours in (0.2, 0.4, 3, 100, 300):
        dead(finished_at=ago(hours * 3600), last_error="no route to 10.0.0.7")
    dead(2, fingerprint="f2")

    answer = operator.get(group_url(GROUP))

    html = answer.content.decode()
    assert answer.context["row"].counts == ["2", "3", "4", "5"]
    assert "rising" in html
    assert "no route to &lt;n&gt;" in html
    assert [jobs for _at, jobs in answer.context["hours"]][:4] == [2, 0, 0, 1]
    assert html.count('<rect class="jobqueue-bar"') == 24


def test_the_releases_tell_under_which_of_them_jobs_died(operator: Client) -> None:
    now = timezone.now()
    for version, hours in (("2.3", 50), ("2.4", 5)):
        Release.objects.create(version=version, first_seen_at=now - timedelta(hours=hours))
    dead(3, finished_at=ago(3600))
    dead(2, finished_at=ago(10 * 3600))
    dead(1, finished_at=ago(100 * 3600))

    releases = operator.get(group_url(GROUP)).context["releases"]

    assert [(version, jobs) for version, _since, jobs in releases] == [("2.4", 3), ("2.3", 2)]


def test_the_sample_shows_error_traceback_versions_and_the_shape_of_the_payload(operator: Client) -> None:
    dead(worker_id="w0")
    newest = dead(last_error="boom token=hunter3")[0]
    worker = WorkerFactory.create(version="9.8.7")
    AttemptFactory.create(job=newest, worker_id=worker.worker_id, traceback='File "a.py"\npassword=hunter4')

    html = page(operator)

    assert f"Sample: job {newest.pk}, the newest" in html
    assert "boom token=***" in html
    assert "password=***" in html
    assert "9.8.7" in html
    for field, kind, value in (
        ("$.path", "text", "a.pdf"),
        ("$.password", "text", "***"),
        ("$.pages", "list of 1 item", ""),
        ("$.pages[0].no", "whole number", "1"),
        ("$.draft", "nothing (null)", "null"),
    ):
        assert f"<code>{field}</code></th><td>{kind}</td><td>{value}</td>" in html
    for secret in ("hunter2", "hunter3", "hunter4"):
        assert secret not in html


def test_counts_that_leave_out_older_ones_say_so(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    dead(5)
    whole = page(operator)
    monkeypatch.setattr("jobqueue.admin.groups.group_figures", partial(group_figures, reach=3))

    answer = operator.get(group_url(GROUP))

    row = answer.context["row"]
    assert row.counts == ["≥ 3"] * 4
    assert (row.trend, row.first_died[:4], row.last_died[:2]) == ("unknown", "≤ 20", "20")
    assert "chart and tables may lack some" in answer.content.decode()
    assert "chart and tables may lack some" not in whole


def test_a_page_costs_few_queries(client_of: ClientOf) -> None:
    everything = Permission.objects.filter(content_type__app_label="jobqueue").values_list("codename", flat=True)
    client = client_of(*everything)
    operations.note_group(GROUP, "known", actor="anna")
    dead(30)

    with CaptureQueriesContext(connection) as queries:
        page(client)

    reads = [
        query["sql"] for query in queries if query["sql"].startswith("SELECT") and "set_config" not in query["sql"]
    ]
    assert len(reads) <= 15, reads


@pytest.mark.parametrize(
    ("group", "status"),
    [
        (GROUP, 200),
        (Group("zz", "probe.ok"), 404),
        (Group("f1", "zz"), 404),
        (Group("\x00", "x"), 404),
        (Group("", ""), 404),
    ],
)
def test_a_group_that_nobody_knows_is_not_found(operator: Client, group: Group, status: int) -> None:
    dead()

    assert operator.get(group_url(group)).status_code == status


def test_what_is_known_of_a_group_stays_when_its_dead_letters_are_gone(operator: Client) -> None:
    operations.note_group(GROUP, "ask the partner", actor="anna")

    html = page(operator)

    assert "No dead letter of this group is left." in html
    assert "ask the partner" in html


def test_whoever_may_only_look_sees_no_forms_and_gets_403(client_of: ClientOf) -> None:
    dead()
    operations.note_group(GROUP, "ask the partner", actor="anna")
    client = client_of("view_job")

    html = page(client)

    assert "ask the partner" in html
    assert "<textarea" not in html
    assert 'name="action"' not in html.replace('name="action" value="edit_field"', "")
    assert ">Edit…" not in html
    for what in ("hand_over", "note", "mute", "unmute"):
        assert say(client, what, GROUP, note="x", span="1d").status_code == 403
    assert GroupNote.objects.get().note == "ask the partner"
    assert client_of(username="nobody").get(group_url(GROUP)).status_code == 403
    assert client_of("retry_job", username="blind").get(group_url(GROUP)).status_code == 403
    assert say(client_of("retry_job", username="blinder"), "unmute", GROUP).status_code == 403


def test_nothing_is_said_by_get_or_without_the_token(client_of: ClientOf, keeper: Client) -> None:
    dead()
    url = reverse("admin:jobqueue_deadletter_note", args=["note"])
    told = {"fingerprint": "f1", "job_type": "probe.ok", "note": "x"}

    assert keeper.get(url, told).status_code == 405
    strict = client_of("view_job", "retry_job", enforce_csrf_checks=True)
    assert strict.post(url, told).status_code == 403
    assert keeper.post(reverse("admin:jobqueue_deadletter_note", args=["explode"]), told).status_code == 404
    assert not GroupNote.objects.exists()


def test_a_note_is_written_and_read_again(keeper: Client) -> None:
    dead()
    fields = hidden_fields(page(keeper))

    html = say(keeper, "note", GROUP, note="ask the partner", seen=fields["seen"]).content.decode()

    assert "The note was saved." in html
    assert "ask the partner</textarea>" in html
    assert "Last changed by keeper" in html
    assert "<td>Note on a group</td>" in html  # in the history of the page
    seen = GroupNote.objects.get().updated_at.isoformat()
    assert "The note was saved." in say(keeper, "note", GROUP, note="done", seen=seen).content.decode()


def test_a_note_that_changed_meanwhile_is_told_with_what_was_written(keeper: Client) -> None:
    dead()
    operations.note_group(GROUP, "of anna", actor="anna")

    html = say(keeper, "note", GROUP, note="of keeper", seen="").content.decode()

    assert "anna has changed it meanwhile. Yours was: of keeper" in html
    assert GroupNote.objects.get().note == "of anna"


def test_a_group_is_handed_to_active_staff_who_see_jobs_only(keeper: Client, client_of: ClientOf) -> None:
    dead()
    client_of("view_job", username="anna")
    client_of("view_cost", username="bert")
    client_of("view_job", username="carl", is_staff=False)
    html = page(keeper)
    assert '<option value="anna">' in html
    assert '<option value="bert">' not in html
    assert '<option value="carl">' not in html

    for name in ("bert", "carl", "nobody", "<b>"):
        assert "Nobody of the active staff" in say(keeper, "hand_over", GROUP, to=name).content.decode()
    assert not GroupNote.objects.exists()
    html = say(keeper, "hand_over", GROUP, to="anna", reason="knows it").content.decode()

    assert "1 group was handed over." in html
    assert "with anna" in html
    assert "with anna" in keeper.get(reverse(DEAD)).content.decode()
    assert Action.objects.get().reason == "knows it"


def test_a_muted_group_is_folded_away_until_somebody_shows_it_again(keeper: Client) -> None:
    dead(2)
    dead(1, fingerprint="f2")

    html = say(keeper, "mute", GROUP, span="1d", doubled="on", reason="known").content.decode()

    assert "1 group was muted." in html
    assert GroupNote.objects.get().muted_rate == 2
    listed = keeper.get(reverse(DEAD))
    assert [row.group.fingerprint for row in listed.context["groups"]] == ["f2"]
    assert [row.group.fingerprint for row in listed.context["muted"]] == ["f1"]
    assert "1 muted group" in listed.content.decode()
    say(keeper, "unmute", GROUP)
    assert len(keeper.get(reverse(DEAD)).context["groups"]) == 2


def test_all_groups_of_a_filter_are_muted_or_handed_over_at_once(keeper: Client, client_of: ClientOf) -> None:
    client_of("view_job", username="anna")
    dead(fingerprint="f1")
    dead(fingerprint="f2")
    dead(fingerprint="f3", queue="other")
    groups = keeper.get(f"{reverse(DEAD)}?queue=default").context["says"]

    url = reverse("admin:jobqueue_deadletter_note", args=["hand_over"])
    told = {"fingerprint": [group.fingerprint for group in groups], "job_type": [group.job_type for group in groups]}
    answer = keeper.post(f"{url}?queue=default", told | {"to": "anna", "list": "1"}, follow=True)

    assert answer.redirect_chain == [(f"{reverse(DEAD)}?queue=default", 302)]
    assert "2 groups were handed over." in answer.content.decode()
    assert set(GroupNote.objects.values_list("fingerprint", "assignee")) == {("f1", "anna"), ("f2", "anna")}


def test_what_is_done_to_the_whole_group_is_told_on_its_page(operator: Client) -> None:
    jobs = dead(2)
    query = operator.get(group_url(GROUP)).context["list_query"]
    start = {"action": "retry", "index": 0, "select_across": 1, "_selected_action": jobs[0].pk}
    asked = operator.post(f"{reverse(DEAD)}?{query}", start).content.decode()

    operator.post(f"{reverse(DEAD)}?{query}", hidden_fields(asked) | {"reason": "fixed in 2.4"})

    assert statuses(jobs) == {Status.PENDING}
    action = Action.objects.get()
    assert (action.action, action.subject) == ("retry", "group:f1/probe.ok")
    dead(1)
    assert "fixed in 2.4" in page(operator)


def test_texts_of_others_are_escaped(operator: Client, client_of: ClientOf) -> None:
    group = Group(EVIL, EVIL)
    dead(fingerprint=EVIL, job_type=EVIL, error_class=EVIL, last_error=EVIL, payload={EVIL: EVIL})
    User.objects.create_superuser(EVIL[:150])
    operations.note_group(group, EVIL, actor=EVIL)
    operations.hand_over([group], User.objects.get(is_superuser=True), actor=EVIL, reason=EVIL)

    for html in (page(operator, group), page(client_of("view_job", username="x"), group), listed(operator)):
        assert list(live_nodes(html)) == []


def listed(client: Client) -> str:
    return client.get(reverse(DEAD)).content.decode()


def test_a_subclass_that_shows_some_jobs_only_tells_nothing_of_the_others(
    operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead(queue="a")
    dead(queue="b", fingerprint="f2")
    operations.note_group(Group("f2", "probe.ok"), "secret", actor="anna")
    base = DeadLetterAdmin.get_queryset
    monkeypatch.setattr(DeadLetterAdmin, "get_queryset", lambda self, request: base(self, request).filter(queue="a"))

    assert operator.get(group_url(GROUP)).status_code == 200
    assert operator.get(group_url(Group("f2", "probe.ok"))).status_code == 404
    assert say(operator, "note", Group("f2", "probe.ok"), note="x").status_code == 404


def test_a_subclass_that_hides_a_job_hides_the_sample(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    dead()
    monkeypatch.setattr(DeadLetterAdmin, "has_view_permission", lambda self, request, obj=None: obj is None)

    assert operator.get(group_url(GROUP)).context["sample"] is None


def test_jobs_that_have_a_fingerprint_are_not_the_group_of_those_without() -> None:
    """What is done to them must not be written down as done to that group."""
    assert chosen_group({"job_type__exact": "x", "fingerprint__isnull": "False"}) is None
    assert chosen_group({"job_type__exact": "x", "fingerprint__isnull": "True"}) == Group("", "x")
