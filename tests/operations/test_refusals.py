"""What people are refused is written down: once, from where, and whatever becomes of the transaction."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db import DatabaseError, connection, transaction

from jobqueue import operations
from jobqueue.models import Action
from jobqueue.operations import refusals
from jobqueue.states import Status
from tests.factories import ActionFactory, JobFactory, ago

pytestmark = pytest.mark.django_db

MakeUser = Callable[..., User]


def refuse(user: User, action: str = "retry", subject: str = "") -> None:
    with pytest.raises(PermissionDenied):
        operations.check_permission(user, action, subject=subject)


def rows() -> list[tuple[str, str, str]]:
    return list(Action.objects.filter(refused=True).order_by("id").values_list("actor", "action", "subject"))


def test_a_refusal_is_a_row_of_the_audit_with_the_permission_that_was_missing(make_user: MakeUser) -> None:
    refuse(make_user(), "pause_queue", "queue:mail")

    action = Action.objects.get()
    assert (action.actor, action.action, action.subject) == ("operator", "pause_queue", "queue:mail")
    assert (action.refused, action.detail) == (True, {"permission": "jobqueue.manage_queue"})


def test_what_is_done_is_no_refusal(make_user: MakeUser) -> None:
    operations.retry(JobFactory.create(status=Status.DEAD).pk, actor=make_user("retry_job"))

    assert [action.refused for action in Action.objects.all()] == [False]


def test_the_same_refusal_is_written_down_once_a_minute(make_user: MakeUser) -> None:
    ann, bob = make_user(username="ann"), make_user(username="bob")

    for user in (ann, ann, bob):
        refuse(user)
    refuse(ann, "discard")
    refuse(ann, "pause_queue", "queue:a")
    refuse(ann, "pause_queue", "queue:b")

    everything = [("ann", "retry", ""), ("bob", "retry", ""), ("ann", "discard", "")]
    assert rows() == [*everything, ("ann", "pause_queue", "queue:a"), ("ann", "pause_queue", "queue:b")]


@pytest.mark.parametrize(("seconds", "after"), [(59, 1), (61, 2)])
def test_after_a_minute_it_is_written_down_again(make_user: MakeUser, seconds: int, after: int) -> None:
    ActionFactory.create(actor="operator", action="retry", refused=True, at=ago(seconds))

    refuse(make_user())

    assert len(rows()) == after


def test_what_was_done_does_not_hide_a_refusal(make_user: MakeUser) -> None:
    ActionFactory.create(actor="operator", action="retry")

    refuse(make_user())

    assert len(rows()) == 1


def test_nobody_floods_the_audit_by_asking_for_ever_new_subjects(make_user: MakeUser) -> None:
    ann, bob = make_user(username="ann"), make_user(username="bob")

    for number in range(refusals.MOST + 5):
        refuse(ann, "pause_queue", f"queue:{number}")
    refuse(bob)

    assert [actor for actor, _action, _subject in rows()] == ["ann"] * refusals.MOST + ["bob"]


def test_a_refusal_in_a_request_outlives_the_rollback_and_has_its_address(make_user: MakeUser) -> None:
    user = make_user()

    with operations.asked_from("192.0.2.7") as asked:
        asked.job_ids = [4]
        with pytest.raises(PermissionDenied), transaction.atomic():
            operations.retry(4, actor=user)

    action = Action.objects.get()
    assert (action.refused, action.address, action.job_ids) == (True, "192.0.2.7", [4])


def test_elsewhere_it_goes_with_the_callers_transaction(make_user: MakeUser, caplog: pytest.LogCaptureFixture) -> None:
    user = make_user()

    with pytest.raises(PermissionDenied), transaction.atomic():
        operations.retry(4, actor=user)

    assert rows() == []
    assert "action refused action=retry actor=operator permission=jobqueue.retry_job" in caplog.text


def test_every_operation_of_a_request_has_its_address_and_those_after_it_have_none(make_user: MakeUser) -> None:
    user = make_user("retry_job", "manage_queue", "manage_alert", "view_payload")
    dead, other = JobFactory.create_batch(2, status=Status.DEAD)

    with operations.asked_from("2001:db8::1"):
        operations.retry(dead.pk, actor=user)
        operations.clone(dead.pk, actor=user)
        operations.unmask(dead.pk, actor=user)
        operations.pause_queue("mail", actor=user)
        operations.change_alert("dead_1h", actor=user, threshold=9)
    operations.retry(other.pk, actor="a script")

    written = {action.action: action.address for action in Action.objects.order_by("-id")}
    assert len(written) == 5
    assert set(written.values()) == {"2001:db8::1"}
    assert Action.objects.get(actor="a script").address == ""


def test_a_request_within_a_request_keeps_to_itself(make_user: MakeUser) -> None:
    user = make_user()

    with operations.asked_from("192.0.2.1"):
        with operations.asked_from("192.0.2.2"):
            refuse(user, "retry")
        refuse(user, "discard")

    assert dict(Action.objects.values_list("action", "address")) == {"retry": "192.0.2.2", "discard": "192.0.2.1"}


def test_a_long_subject_is_cut_and_an_impossible_one_is_stored(make_user: MakeUser) -> None:
    refuse(make_user(), "pause_queue", "queue:\x00\ud800" + "x" * 1_000)

    (subject,) = Action.objects.values_list("subject", flat=True)
    assert len(subject) == refusals.SUBJECT_CHARACTERS
    assert subject.startswith("queue:\\x00\\ud800")


def test_a_database_that_fails_leaves_the_refusal_a_refusal(
    make_user: MakeUser, caplog: pytest.LogCaptureFixture
) -> None:
    user = make_user()

    def fail(execute: Any, sql: str, *rest: Any) -> Any:
        if sql.startswith("INSERT"):
            raise DatabaseError("no space left")
        return execute(sql, *rest)

    with connection.execute_wrapper(fail):
        refuse(user)

    assert "refusal not written down action=retry actor=operator" in caplog.text
    refuse(user)  # the connection is as it was
    assert len(rows()) == 1


@pytest.mark.django_db(transaction=True)
def test_requests_at_the_same_time_write_one_row(make_user: MakeUser) -> None:
    user = make_user()

    def ask(_number: int) -> None:
        try:
            refuse(user)
        finally:
            connection.close()

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(ask, range(24)))

    assert len(rows()) == 1
