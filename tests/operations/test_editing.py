"""Changing one field in many payloads: what changes, what stays and why, and what is kept of it."""

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db import connection, connections, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobqueue import operations
from jobqueue.managers import jobs as managers_jobs
from jobqueue.models import Action, Job
from jobqueue.operations import FieldEdit, NoEdit, editing, parse_path, write_path
from jobqueue.states import Status
from tests.factories import JobFactory

pytestmark = pytest.mark.django_db

MakeUser = Callable[..., User]
EDITOR = ("edit_payload", "retry_job")
DEEP: dict[str, Any] = {"a": {"b": [1, {"c": "old"}]}, "n": 5}


def dead(payload: Any, **columns: Any) -> Job:
    job: Job = JobFactory.create(**{"status": Status.DEAD, "payload": payload} | columns)
    return job


def edit_of(kind: str, path: str, **more: Any) -> FieldEdit:
    return FieldEdit(kind=kind, path=parse_path(path), **more)


def run(edit: FieldEdit, *jobs: Job, **options: Any) -> operations.Report:
    return operations.edit_field([job.pk for job in jobs], edit, **{"actor": "command"} | options)


def stored(job: Job) -> tuple[int, Any]:
    after = Job.objects.get(pk=job.pk)
    return after.status, after.payload


@pytest.mark.parametrize(
    ("edit", "after"),
    [
        (edit_of("set", "n", value={"x": None}), DEEP | {"n": {"x": None}}),
        (edit_of("set", "new", value=1.5), DEEP | {"new": 1.5}),
        (edit_of("set", "$.a.b[0]", value=2), {"a": {"b": [2, {"c": "old"}]}, "n": 5}),
        (edit_of("remove", "a.b[1]"), {"a": {"b": [1]}, "n": 5}),
        (edit_of("rename", "n", name="m"), {"a": DEEP["a"], "m": 5}),
        (edit_of("rename", "a.b[1].c", name="d"), {"a": {"b": [1, {"d": "old"}]}, "n": 5}),
        (edit_of("replace", "a.b[1].c", find="ld", by="ak"), {"a": {"b": [1, {"c": "oak"}]}, "n": 5}),
    ],
    ids=["set", "set a new one", "set an item", "remove", "rename", "rename within", "replace"],
)
def test_a_field_is_changed_and_the_job_put_back(edit: FieldEdit, after: Any) -> None:
    job = dead(DEEP)

    report = run(edit, job)

    assert report.changed == [job.pk]
    assert stored(job) == (Status.PENDING, after)
    row = Job.objects.get(pk=job.pk)
    assert (row.attempts, row.payload_bytes) == (0, len(json.dumps(after)))


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        (edit_of("remove", "zz"), "has no such field"),
        (edit_of("set", "n.x", value=1), "has no such field"),
        (edit_of("set", "a.b[7]", value=1), "has no such field"),
        (edit_of("set", "a[0]", value=1), "has no such field"),
        (edit_of("remove", "a.b.c"), "has no such field"),
        (edit_of("set", "[0]", value=1), "has no such field"),
        (edit_of("set", "n", value=5), "has that value already"),
        (edit_of("rename", "n", name="a"), "has a field of the new name already"),
        (edit_of("replace", "n", find="5", by="6"), "has no text there"),
        (edit_of("replace", "a.b[1].c", find="x", by="6"), "does not have that text"),
        (edit_of("set", "n", value="\x00"), "would be refused: payload of probe.ok: $.n: the string contains NUL"),
    ],
)
def test_a_job_that_the_edit_does_not_fit_stays_as_it_is(edit: FieldEdit, why: str) -> None:
    job = dead(DEEP)

    report = run(edit, job)

    assert report.changed == []
    assert report.refused[job.pk].startswith(why)
    assert stored(job) == (Status.DEAD, DEEP)
    assert not Action.objects.exists()


@pytest.mark.parametrize("find", ["hunter2", "zzz"])
def test_a_text_with_hidden_values_does_not_tell_whether_it_has_another_text(find: str) -> None:
    job = dead({"url": "https://u:hunter2@host/"})

    report = run(edit_of("replace", "url", find=find, by=""), job)

    assert report.refused == {job.pk: "has hidden values in that text"}


def test_each_new_payload_passes_what_an_enqueue_checks() -> None:
    known, unknown = dead({"value": 1}, job_type="probe.echo"), dead({"value": 1}, job_type="nobody.knows")

    report = run(edit_of("set", "value", value=2), known, unknown)

    assert report.changed == [known.pk]
    assert report.refused[unknown.pk].startswith("would be refused: ")
    assert stored(unknown) == (Status.DEAD, {"value": 1})


def test_what_was_there_is_kept_for_each_job_within_its_names() -> None:
    one, two, three = dead({"a": {"password": "x"}}), dead({"a": {"password": "y"}}), dead({"a": {}})

    run(edit_of("set", "a.password", value="z"), one, two, three, reason="new account", subject="group:f/probe.ok")

    action = Action.objects.get()
    assert (action.action, action.reason, action.subject) == ("edit_field", "new account", "group:f/probe.ok")
    assert action.job_ids == [one.pk, two.pk, three.pk]
    after = {"a": {"password": "z"}}
    assert action.detail == {
        "edit": "set",
        "field": "$.a.password",
        "put_back": True,
        "jobs": {
            str(one.pk): {"from": {"a": {"password": "x"}}, "to": after},
            str(two.pk): {"from": {"a": {"password": "y"}}, "to": after},
            str(three.pk): {"to": after},
        },
    }


def test_a_rename_keeps_its_new_name_in_the_audit() -> None:
    job = dead({"n": 1})

    run(edit_of("rename", "n", name="m"), job)

    detail = Action.objects.get().detail
    told = {"edit": "rename", "field": "$.n", "put_back": True, "to": "m"}
    assert detail == told | {"jobs": {str(job.pk): {"from": {"n": 1}}}}


def test_no_digit_elsewhere_is_lost() -> None:
    """Python's floats have 17 digits, jsonb's numbers all of them; neither the payload nor the audit rounds."""
    job, exact = dead({"x": 1}), "0.12345678901234567890123456789"
    with connection.cursor() as cursor:
        cursor.execute("UPDATE jobqueue_job SET payload = %s::jsonb", [f'{{"x": 1, "rate": {exact}}}'])

    run(edit_of("set", "x", value=2), job)
    with connection.cursor() as cursor:
        cursor.execute("SELECT payload ->> 'rate' FROM jobqueue_job")
        assert cursor.fetchone() == (exact,)

    Job.objects.update(status=Status.DEAD)
    run(edit_of("remove", "rate"), job)
    with connection.cursor() as cursor:
        cursor.execute("SELECT detail #>> '{jobs,%s,from,rate}' FROM jobqueue_action ORDER BY id DESC", [job.pk])
        assert cursor.fetchone() == (exact,)


def test_jobs_are_only_saved_where_they_are_not_to_be_put_back() -> None:
    job = dead({"n": 1})

    report = run(edit_of("set", "n", value=2), job, retry=False)

    assert report.changed == [job.pk]
    assert stored(job) == (Status.DEAD, {"n": 2})
    detail = Action.objects.get().detail
    assert detail is not None
    assert detail["put_back"] is False


def test_a_job_that_cannot_be_put_back_is_edited_and_told() -> None:
    held, job = JobFactory.create(dedupe_key="k"), dead({"n": 1}, dedupe_key="k")

    report = run(edit_of("set", "n", value=2), job)

    assert report.changed == []
    assert report.refused == {job.pk: f"was edited, but is blocked by #{held.pk}"}
    assert stored(job) == (Status.DEAD, {"n": 2})
    assert Action.objects.get().job_ids == [job.pk]


@pytest.mark.parametrize("status", [status for status in Status if status != Status.DEAD])
def test_only_dead_letters_are_edited(status: Status) -> None:
    job = JobFactory.create(status=status, payload={"n": 1})

    report = run(edit_of("set", "n", value=2), job)

    assert report.refused == {job.pk: f"is {status.name}"}
    assert stored(job) == (status, {"n": 1})


@pytest.mark.parametrize("granted", [(), ("edit_payload",), ("retry_job",)])
def test_both_permissions_are_needed(make_user: MakeUser, granted: tuple[str, ...]) -> None:
    job, user = dead({"n": 1}), make_user(*granted)

    for retry in (True, False):
        with pytest.raises(PermissionDenied):
            run(edit_of("set", "n", value=2), job, actor=user, retry=retry)

    assert stored(job) == (Status.DEAD, {"n": 1})


def test_large_payloads_are_edited_in_smaller_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(editing, "BATCH_BYTES", 50)
    jobs = [dead({"n": 1, "text": "x" * 20}) for _ in range(5)]

    report = run(edit_of("set", "n", value=2), *jobs)

    assert report.changed == [job.pk for job in jobs]
    assert [len(row.job_ids) for row in Action.objects.order_by("pk")] == [1, 1, 1, 1, 1]


@pytest.mark.django_db(transaction=True)
def test_a_row_that_stays_locked_is_told_and_the_others_are_edited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(managers_jobs, "LOCK_TIMEOUT", "50ms")
    held, free = dead({"n": 1}), dead({"n": 1})
    locked, done = threading.Event(), threading.Event()

    def hold() -> None:
        try:
            with transaction.atomic():
                Job.objects.select_for_update().get(pk=held.pk)
                locked.set()
                done.wait(30)
        finally:
            connections.close_all()

    holder = threading.Thread(target=hold)
    holder.start()
    try:
        assert locked.wait(30)
        report = run(edit_of("set", "n", value=2), held, free)
    finally:
        done.set()
        holder.join()

    assert report.changed == [free.pk]
    assert report.refused == {held.pk: "is locked by another transaction: try again"}
    assert Action.objects.get().detail["jobs"].keys() == {str(free.pk)}


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "explode", "path": ("n",)},
        {"kind": "set", "path": ()},
        {"kind": "rename", "path": ("n",)},
        {"kind": "rename", "path": ("n",), "name": "n"},
        {"kind": "rename", "path": ("n", 0), "name": "m"},
        {"kind": "replace", "path": ("n",)},
        {"kind": "rename", "path": ("password",), "name": "shown"},
        {"kind": "rename", "path": ("password", "part"), "name": "shown"},
        {"kind": "rename", "path": ("n",), "name": "password"},
        {"kind": "replace", "path": ("password",), "find": "a"},
    ],
)
def test_what_is_no_edit_or_would_show_what_is_hidden_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        FieldEdit(**wrong)


@pytest.mark.parametrize(
    ("edit", "payload"),
    [
        (edit_of("set", "password", value="guess"), {"password": "guess"}),
        (edit_of("set", "to", value={"password": "guess"}), {"to": {"password": "guess"}}),
    ],
)
def test_an_edit_confirms_no_guess_at_what_is_hidden(edit: FieldEdit, payload: Any) -> None:
    assert run(edit, dead(payload)).refused == {}


def test_text_that_hides_something_is_not_searched() -> None:
    job = dead({"url": "https://user:hunter2@host/"})

    report = run(edit_of("replace", "url", find="hunter2", by="x"), job)

    assert report.refused == {job.pk: "has hidden values in that text"}


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("a", ("a",)),
        ("$.a", ("a",)),
        ("a.b[0].c", ("a", "b", 0, "c")),
        ('a["first name"]', ("a", "first name")),
        ("$[0]", (0,)),
        ('["a.b"][12]', ("a.b", 12)),
        ("größe.ß", ("größe", "ß")),
        ("$", ("$",)),
    ],
)
def test_a_path_is_read(text: str, path: tuple[str | int, ...]) -> None:
    assert parse_path(text) == path
    assert parse_path(write_path(path)) == path


@pytest.mark.parametrize("text", ["", " ", "a..b", "a b", "a[", "a[-1]", "a[x]", '["a', "a[0]b", '["\\x"]', ".", "a."])
def test_a_text_that_is_no_path_is_refused(text: str) -> None:
    with pytest.raises(operations.BadPath):
        parse_path(text)


NAMES = st.sampled_from(["a", "b", "0", "c d", ""])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text("xyz", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
PATHS = st.tuples(NAMES) | st.lists(NAMES | st.integers(0, 2), min_size=1, max_size=3).map(tuple)


@given(
    payload=st.dictionaries(NAMES, JSON, min_size=1, max_size=3),
    path=PATHS,
    kind=st.sampled_from(["set", "remove", "rename", "replace"]),
    value=JSON,
)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_database_makes_of_a_payload_what_python_does(payload: Any, path: Any, kind: str, value: Any) -> None:
    try:
        edit = FieldEdit(kind=kind, path=path, value=value, name="new", find="x", by="y")
        expected = edit.apply(payload).payload
    except (NoEdit, ValueError):
        return
    job = dead(payload)

    assert run(edit, job).changed == [job.pk]

    assert stored(job)[1] == expected
