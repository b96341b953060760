"""Editing a field for a whole group: the form, what it would do, the run in steps, and who may."""

import html as escaping
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from jobqueue.admin import preview, running
from jobqueue.admin.dead_letters import DeadLetterAdmin
from jobqueue.models import Action, Job
from jobqueue.states import Status
from tests.factories import JobFactory

from .conftest import DEAD
from .hostile import EVIL
from .test_acting import choose, statuses
from .test_escaping import live_nodes

pytestmark = pytest.mark.django_db

ClientOf = Callable[..., Client]
EDITOR = ("view_job", "edit_payload", "retry_job")
QUERY = "?job_type__exact=probe.ok&fingerprint__exact=f1"
PAYLOAD = {"path": "/old/a.pdf", "password": "hunter2", "pages": 12}


@pytest.fixture
def editor(client_of: ClientOf) -> Client:
    """Return the client of somebody who may edit payloads and retry, but not look behind the masks."""
    return client_of(*EDITOR)


def dead(jobs: int = 1, **columns: Any) -> list[Job]:
    return JobFactory.create_batch(jobs, **{"status": Status.DEAD, "fingerprint": "f1", "payload": PAYLOAD} | columns)


def fields_of(html: str) -> dict[str, Any]:
    """Return what the form of a page would send: texts, and of choices what is chosen."""
    form = re.split(r'<form method="post"[^>]* action="\?', html, maxsplit=1)[1]
    found: dict[str, Any] = {}
    for tag in re.findall(r"<input[^>]*>", form):
        attributes = dict(re.findall(r'([\w-]+)="([^"]*)"', tag))
        if attributes.get("type") in ("radio", "checkbox") and "checked" not in tag:
            continue
        if attributes.get("name") not in (None, "csrfmiddlewaretoken"):
            found[attributes["name"]] = escaping.unescape(attributes.get("value", ""))
    return found


def post(client: Client, data: dict[str, Any], query: str = QUERY) -> str:
    return client.post(f"{reverse(DEAD)}{query}", data, follow=True).content.decode()


def ask(client: Client, query: str = QUERY, **data: Any) -> str:
    """Return the form for all dead letters that match."""
    newest = Job.objects.order_by("-pk").first()
    assert newest is not None
    return post(client, choose("edit_field", newest, across=True) | data, query)


def look(client: Client, **said: Any) -> str:
    """Return the page that shows what an edit would do."""
    return post(client, fields_of(ask(client)) | {"preview": "1"} | said)


def do(client: Client, **said: Any) -> str:
    """Edit, and return the list or the report."""
    return post(client, fields_of(look(client, **said)) | {"confirmed": "1"})


def test_a_field_is_edited_for_a_group_after_a_look_at_what_it_does(editor: Client) -> None:
    jobs, other = dead(5), dead(fingerprint="f2")
    asked = ask(editor, path="$.path")
    assert 'value="$.path"' in asked
    assert "5 jobs" in asked

    shown = post(
        editor,
        fields_of(asked) | {"kind": "replace", "find": "/old/", "by": "/new/", "reason": "moved", "preview": "1"},
    )

    assert "5 jobs have this field." in shown
    assert "Tried out on the newest 5 of them: 5 would change." in shown
    assert shown.count("jobqueue-diff") == 3
    assert re.search(r"− before</td><td><code> +&quot;path&quot;: &quot;/old/a.pdf&quot;", shown)
    assert re.search(r"\+ after</td><td><code> +&quot;path&quot;: &quot;/new/a.pdf&quot;", shown)
    assert "hunter2" not in shown
    assert statuses(jobs) == {Status.DEAD}

    done = post(editor, fields_of(shown) | {"confirmed": "1"})

    assert "5 jobs were edited." in done
    assert statuses(jobs) == {Status.PENDING}
    assert {job.payload["path"] for job in Job.objects.filter(fingerprint="f1")} == {"/new/a.pdf"}
    assert statuses(other) == {Status.DEAD}
    action = Action.objects.get()
    assert (action.action, action.reason, action.subject) == ("edit_field", "moved", "group:f1/probe.ok")


def test_an_edit_that_is_sent_twice_is_done_once(editor: Client) -> None:
    """Only saved, the jobs stay dead letters of the set, and a reload of the report moved them on and on."""
    dead(3)
    edit = {"kind": "replace", "path": "path", "find": "/old", "by": "/old/new", "then": "save"}
    confirmed = fields_of(look(editor, **edit)) | {"confirmed": "1"}

    for _reload in range(2):
        post(editor, confirmed)

    assert {job.payload["path"] for job in Job.objects.all()} == {"/old/new/a.pdf"}
    assert sum(len(action.job_ids) for action in Action.objects.all()) == 3


def test_a_set_too_large_to_count_is_put_back_over_some_time(editor: Client) -> None:
    jobs = dead(3)
    shown = fields_of(look(editor, kind="remove", path="pages")) | {"jobs": "", "spread_seconds": ""}

    post(editor, shown | {"confirmed": "1"})

    assert statuses(jobs) == {Status.SCHEDULED}


@pytest.mark.parametrize("verb", ["retry", "edit_field"])
@pytest.mark.parametrize(("counted", "offered"), [(True, "1"), (False, "600")])
def test_the_form_offers_the_time_that_a_set_is_spread_over(
    editor: Client, monkeypatch: pytest.MonkeyPatch, verb: str, counted: bool, offered: str
) -> None:
    """Of a set that could not be counted in time 0 seconds were offered: all of it at once."""
    jobs = dead(100)
    if not counted:
        monkeypatch.setattr(preview, "read_within", lambda *_, **__: None)

    form = fields_of(post(editor, choose(verb, jobs[-1], across=True)))

    assert form["spread_seconds"] == offered


@pytest.mark.parametrize(
    ("said", "after"),
    [
        ({"kind": "set", "path": "pages", "value": "3"}, PAYLOAD | {"pages": 3}),
        ({"kind": "set", "path": "password", "value": '"new"'}, PAYLOAD | {"password": "new"}),
        ({"kind": "set", "path": "a", "value": '{"b": [null]}'}, PAYLOAD | {"a": {"b": [None]}}),
        ({"kind": "remove", "path": "password"}, {"path": "/old/a.pdf", "pages": 12}),
        ({"kind": "rename", "path": "pages", "name": "n"}, {"path": "/old/a.pdf", "password": "hunter2", "n": 12}),
        ({"kind": "replace", "path": "path", "find": "/old", "by": ""}, PAYLOAD | {"path": "/a.pdf"}),
    ],
)
def test_each_kind_of_edit(editor: Client, said: dict[str, str], after: Any) -> None:
    job = dead()[0]

    do(editor, then="save", **said)

    stored = Job.objects.get(pk=job.pk)
    assert (stored.status, stored.payload) == (Status.DEAD, after)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"path": ""}, "This field is required"),
        ({"path": "a..b", "kind": "remove"}, "This names no field"),
        ({"path": "[0]", "kind": "remove"}, "its fields have names"),
        ({"path": "pages", "kind": "set", "value": "text"}, 'A text stands in quotes: "like this".'),
        ({"path": "pages", "kind": "set", "value": ""}, "This is no JSON"),
        ({"path": "pages", "kind": "set", "value": '{"a": [1, {"password": "***"}]}'}, "nobody can tell which one ***"),
        ({"path": "password", "kind": "set", "value": '"***"'}, "nobody can tell which one ***"),
        ({"path": '["\\ud800"]', "kind": "remove"}, "This names no field"),
        ({"path": "path", "kind": "replace", "find": ""}, "This field is required"),
        ({"path": "path", "kind": "rename", "name": ""}, "This field is required"),
        ({"path": "path", "kind": "rename", "name": "path"}, "a new name is another one"),
        ({"path": "password", "kind": "rename", "name": "shown"}, "can be set or removed"),
        ({"path": "password", "kind": "replace", "find": "h"}, "can be set or removed"),
        ({"path": "path", "kind": "rename", "name": "password"}, "Under this name it would be hidden"),
        ({"path": "path", "kind": "explode"}, "is not one of the available choices"),
        ({"path": "nowhere", "kind": "remove"}, "None of these jobs has $.nowhere as you say."),
        ({"path": "path", "kind": "replace", "find": "zzz"}, "None of these jobs has $.path as you say."),
    ],
)
def test_what_cannot_be_done_is_told_with_the_form_as_it_was_filled(
    editor: Client, said: dict[str, str], words: str
) -> None:
    dead()

    page = escaping.unescape(look(editor, reason="kept text", **said))

    assert words in page
    assert 'value="kept text"' in page
    assert not Action.objects.exists()


def test_the_form_comes_back_as_it_was_filled(editor: Client) -> None:
    dead()
    shown = look(editor, path="pages", kind="set", value="[1]", then="save", reason="why")

    back = fields_of(post(editor, fields_of(shown) | {"back": "1"}))

    assert (back["path"], back["kind"], back["value"], back["then"]) == ("pages", "set", "[1]", "save")


def test_the_preview_tells_which_jobs_would_stay_as_they_are(editor: Client) -> None:
    dead(2)
    dead(3, payload={"pages": 5})
    dead(payload={"other": 1})

    shown = look(editor, path="pages", kind="remove")
    assert "5 jobs have this field." in shown
    same = look(editor, path="pages", kind="set", value="5")

    assert "3 jobs would not: has that value already" in same
    assert "Tried out on the newest 6 of them: 3 would change." in same


def test_jobs_without_the_field_are_left_and_told(editor: Client) -> None:
    with_it, without = dead(2), dead(payload={"other": 1})

    page = do(editor, path="pages", kind="remove")

    assert "2 jobs were edited." in page
    assert f"#{without[0].pk} has no such field" in page
    assert (statuses(with_it), statuses(without)) == ({Status.PENDING}, {Status.DEAD})


def test_a_large_set_is_edited_in_steps_slowly(editor: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "BATCH", 2)
    monkeypatch.setattr(running, "STEP_SECONDS", 0)
    jobs = dead(5)

    page = do(editor, path="pages", kind="set", value="1", a_minute="1")
    assert "Edit a field: 40 % done" in page
    page = post(editor, fields_of(page) | {"go_on": "1"})
    later = dead()
    page = post(editor, fields_of(page) | {"go_on": "1"})

    assert "Edit a field: report" in page
    assert "5 jobs were edited." in page
    assert statuses(jobs) == {Status.SCHEDULED}
    assert statuses(later) == {Status.DEAD}
    assert {job.payload["pages"] for job in Job.objects.filter(pk__in=[job.pk for job in jobs])} == {1}
    assert Action.objects.count() == 3


def test_rows_that_were_ticked_are_edited_alone(editor: Client) -> None:
    chosen, other = dead(2), dead()
    asked = post(editor, choose("edit_field", *chosen), "")
    shown = post(editor, picked(asked, chosen) | {"path": "pages", "kind": "set", "value": "7", "preview": "1"}, "")
    assert "2 jobs have this field." in shown

    page = post(editor, picked(shown, chosen) | {"confirmed": "1"}, "")

    assert "2 jobs were edited." in page
    assert (statuses(chosen), statuses(other)) == ({Status.PENDING}, {Status.DEAD})


def picked(html: str, jobs: list[Job]) -> dict[str, Any]:
    return fields_of(html) | {"_selected_action": [job.pk for job in jobs]}


@pytest.mark.parametrize("granted", [("retry_job",), ("edit_payload",), ("view_payload", "discard_job")])
def test_whoever_may_not_edit_and_retry_gets_403_at_every_step(
    editor: Client, client_of: ClientOf, granted: tuple[str, ...]
) -> None:
    jobs = dead()
    asked, shown = fields_of(ask(editor)), fields_of(look(editor, path="pages", kind="remove"))
    other = client_of("view_job", *granted, username="other")

    steps: list[dict[str, Any]] = [
        choose("edit_field", *jobs, across=True),
        asked | {"preview": "1", "path": "pages", "kind": "remove"},
        shown | {"confirmed": "1"},
        choose("edit_field", *jobs),
    ]
    for data in steps:
        assert other.post(f"{reverse(DEAD)}{QUERY}", data).status_code == 403
    assert statuses(jobs) == {Status.DEAD}
    assert Job.objects.get().payload == PAYLOAD
    assert "Edit a field" not in other.get(reverse(DEAD)).content.decode()


def test_an_edit_needs_the_token_of_the_form(client_of: ClientOf) -> None:
    job = dead()[0]
    client = client_of(*EDITOR, enforce_csrf_checks=True)

    assert client.post(reverse(DEAD), choose("edit_field", job, across=True)).status_code == 403


def test_the_pages_of_an_edit_cost_few_queries(editor: Client) -> None:
    dead(60)
    asked = fields_of(ask(editor)) | {"path": "pages", "kind": "set", "value": "1", "preview": "1"}

    with CaptureQueriesContext(connection) as queries:
        post(editor, asked)

    reads = [
        query["sql"] for query in queries if query["sql"].startswith("SELECT") and "set_config" not in query["sql"]
    ]
    assert len(reads) <= 15, reads


def test_payloads_in_a_preview_are_escaped_and_masked(editor: Client) -> None:
    dead(payload={EVIL: EVIL, "url": "https://u:hunter2@host/", "n": 1})

    shown = look(editor, path="n", kind="set", value='"<b>"', reason=EVIL)

    assert list(live_nodes(shown)) == []
    assert "hunter2" not in shown


@pytest.mark.parametrize("find", ["hunter2", "zzzzzz"])
def test_a_preview_does_not_tell_what_is_hidden_in_a_text(editor: Client, find: str) -> None:
    """How many jobs have a text, and why others would not change, would confirm one letter after the other."""
    dead(payload={"url": "https://u:hunter2@host/"})
    dead(payload={"url": "https://host/hunter2"})

    shown = look(editor, path="url", kind="replace", find=find, by="")

    assert ("1 job has this field" in shown) == (find == "hunter2")
    assert "hidden values" not in shown


def test_whoever_may_see_what_is_hidden_finds_it(client_of: ClientOf) -> None:
    dead(payload={"url": "https://u:hunter2@host/"})

    shown = look(client_of(*EDITOR, "view_payload"), path="url", kind="replace", find="hunter2", by="")

    assert "1 job would not: has hidden values in that text" in shown


@pytest.mark.parametrize("name", ["retry", "edit_payload"])
def test_a_subclass_that_forbids_what_an_edit_does_forbids_the_edit(
    editor: Client, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    free, locked = dead(2, payload={"n": 1})

    def may(self: Any, request: Any, obj: Any = None) -> bool:
        return obj is None or obj.pk != locked.pk

    monkeypatch.setattr(DeadLetterAdmin, f"has_{name}_permission", may, raising=False)

    page = do(editor, path="n", kind="set", value="2")

    assert f"#{locked.pk} may not be touched by you" in page
    assert (statuses([free]), statuses([locked])) == ({Status.PENDING}, {Status.DEAD})


def test_a_field_of_the_sample_leads_to_its_edit(editor: Client) -> None:
    dead(2)
    page = editor.get("/admin/jobqueue/deadletter/group/", {"job_type": "probe.ok", "fingerprint": "f1"})
    assert 'name="path" value="$.pages"' in page.content.decode()


def test_a_subclass_that_forbids_a_job_hides_it_in_the_preview_and_leaves_it(
    editor: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    free, locked = dead(payload={"n": 1})[0], dead(payload={"n": 1, "text": "not for you"})[0]

    def may_view(self: Any, request: Any, obj: Any = None) -> bool:
        return obj is None or obj.pk != locked.pk

    monkeypatch.setattr(DeadLetterAdmin, "has_view_permission", may_view)

    shown = look(editor, path="n", kind="set", value="2")
    page = post(editor, fields_of(shown) | {"confirmed": "1"})

    assert shown.count('class="jobqueue-table jobqueue-diff"') == 1
    assert "not for you" not in shown
    assert f"#{locked.pk} may not be touched by you" in page
    assert (statuses([free]), statuses([locked])) == ({Status.PENDING}, {Status.DEAD})
