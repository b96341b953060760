"""Repairing one job: what an edit keeps and refuses, a retry at a time, a clone, and looking behind the masks."""

import logging
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db import connection, connections, transaction
from django.utils import timezone

from jobqueue import operations
from jobqueue.exceptions import InputLimitExceeded, InvalidTransition, JobQueueError, PayloadError, UnknownJobType
from jobqueue.managers import jobs as managers_jobs
from jobqueue.models import Action, Job
from jobqueue.states import Status
from jobqueue.testing import run_once
from tests.factories import JobFactory

pytestmark = pytest.mark.django_db

MakeUser = Callable[..., User]
EDITOR = ("edit_payload", "retry_job")


def dead(**columns: Any) -> Job:
    job: Job = JobFactory.create(**{"status": Status.DEAD, "payload": {"path": "old"}} | columns)
    return job


def edit(job: Job, payload: Any = None, **options: Any) -> None:
    seen = operations.Seen(job.updated_at, job.lease_epoch)
    operations.edit_and_retry(job.pk, payload or {"path": "new"}, **{"seen": seen, "actor": "command"} | options)


def stored(job: Job) -> tuple[int, Any]:
    after = Job.objects.get(pk=job.pk)
    return after.status, after.payload


def test_an_edited_job_is_put_back_with_a_fresh_budget_and_its_payload_before_is_kept(make_user: MakeUser) -> None:
    job = dead()

    edit(job, {"path": "größer"}, actor=make_user(*EDITOR), reason="wrong path")

    after = Job.objects.get(pk=job.pk)
    assert (after.status, after.payload, after.attempts) == (Status.PENDING, {"path": "größer"}, 0)
    assert after.payload_bytes == len('{"path": "größer"}'.encode())
    action = Action.objects.get()
    assert (action.actor, action.action, action.reason) == ("operator", "edit_payload", "wrong path")
    assert action.job_ids == [job.pk]
    assert action.detail == {"payload": {"from": {"path": "old"}, "to": {"path": "größer"}}}


def test_the_handler_gets_the_edited_payload() -> None:
    job = dead(job_type="probe.echo", payload={"value": "old"})

    edit(job, {"value": "new"})
    run_once()

    after = Job.objects.get(pk=job.pk)
    assert (after.status, after.result) == (Status.DONE, "new")


def test_the_payload_before_is_kept_to_the_last_digit() -> None:
    job = dead()
    digits = "0.1234567890123456789012345678901234567890"
    with connection.cursor() as cursor:
        cursor.execute("UPDATE jobqueue_job SET payload = %s::jsonb", [f'{{"n": {digits}}}'])

    edit(job)

    with connection.cursor() as cursor:
        cursor.execute("SELECT detail #>> '{payload,from,n}' FROM jobqueue_action")
        assert cursor.fetchone() == (digits,)


def test_an_edited_job_may_wait_for_a_time() -> None:
    job, when = dead(), timezone.now() + timedelta(hours=3)

    edit(job, when=when)

    after = Job.objects.get(pk=job.pk)
    assert (after.status, after.run_after) == (Status.SCHEDULED, when)


@pytest.mark.parametrize("change", ["status = 7", "lease_epoch = lease_epoch + 1", "updated_at = updated_at + '1 us'"])
def test_a_job_that_changed_since_it_was_seen_keeps_its_payload(change: str) -> None:
    job = dead()
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE jobqueue_job SET {change}")

    told = {"updated_at": job.updated_at, "lease_epoch": job.lease_epoch}
    assert Job.objects.edit_payload(job.pk, "{}", 2, **told) is None
    with pytest.raises(InvalidTransition) as refused:
        edit(job)

    words = "its status is CANCELLED" if "status" in change else "it has changed since it was read"
    assert words in str(refused.value)
    assert stored(job)[1] == {"path": "old"}
    assert not Action.objects.filter(refused=False).exists()


@pytest.mark.parametrize("status", [Status.PENDING, Status.RUNNING, Status.DONE, Status.SCHEDULED, Status.CANCELLED])
def test_only_dead_letters_are_edited(status: Status) -> None:
    job = dead(status=status)

    with pytest.raises(InvalidTransition, match=f"its status is {status.name}"):
        edit(job)

    assert stored(job) == (status, {"path": "old"})


def test_a_job_whose_key_is_held_is_neither_edited_nor_put_back() -> None:
    job, holder = dead(dedupe_key="k"), JobFactory.create(dedupe_key="k")

    with pytest.raises(InvalidTransition, match=f"blocked by #{holder.pk}"):
        edit(job)

    assert stored(job) == (Status.DEAD, {"path": "old"})
    assert not Action.objects.filter(refused=False).exists()


@pytest.mark.parametrize(
    ("job_type", "payload", "error"),
    [
        ("probe.ok", {"n": float("nan")}, PayloadError),
        ("probe.ok", {"text": "x" * 2**20}, PayloadError),
        ("probe.ok", ["no", "object"], PayloadError),
        ("probe.small_input", {"document": {"page_count": 11}}, InputLimitExceeded),
        ("probe.small_input", {"text": "x" * 200}, PayloadError),
        ("gone.type", {"a": 1}, UnknownJobType),
    ],
)
def test_a_payload_that_no_enqueue_or_worker_would_take_is_refused(
    job_type: str, payload: Any, error: type[JobQueueError]
) -> None:
    job = dead(job_type=job_type)

    with pytest.raises(error):
        edit(job, payload)

    assert stored(job) == (Status.DEAD, {"path": "old"})


@pytest.mark.parametrize("held", [(), ("edit_payload",), ("retry_job",), ("view_job", "view_payload", "discard_job")])
def test_an_edit_needs_both_permissions(
    make_user: MakeUser, held: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    job = dead()

    with caplog.at_level(logging.WARNING, "jobqueue.operations"), pytest.raises(PermissionDenied):
        edit(job, actor=make_user(*held))

    assert stored(job) == (Status.DEAD, {"path": "old"})
    assert "action refused" in caplog.text


def test_no_such_job_and_a_naive_time_are_refused() -> None:
    job = dead()

    with pytest.raises(ValueError, match="aware"):
        edit(job, when=datetime(2030, 1, 1))
    with pytest.raises(InvalidTransition, match="no such job"):
        operations.edit_and_retry(
            job.pk + 1, {}, seen=operations.Seen(job.updated_at, job.lease_epoch), actor="command"
        )
    with pytest.raises(InvalidTransition, match="no such job"):
        operations.clone(job.pk + 1, actor="command")


@pytest.mark.django_db(transaction=True)
def test_of_two_edits_of_what_both_saw_one_is_refused() -> None:
    job, refused, locked = dead(), [], threading.Event()

    def edit_too() -> None:
        try:
            locked.wait(10)
            edit(job, {"path": "second"})
        except InvalidTransition as error:
            refused.append(str(error))
        finally:
            connections.close_all()

    other = threading.Thread(target=edit_too)
    other.start()
    with transaction.atomic():
        edit(job, {"path": "first"})
        locked.set()
        with connection.cursor() as cursor:
            waiting = "SELECT count(*) FROM pg_stat_activity WHERE pg_backend_pid() = ANY (pg_blocking_pids(pid))"
            for _ in range(2_000):
                cursor.execute(waiting)
                if cursor.fetchone() == (1,):
                    break
    other.join(10)

    assert len(refused) == 1
    assert "cannot edit" in refused[0]
    assert stored(job) == (Status.PENDING, {"path": "first"})
    assert Action.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_locked_job_is_told_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(managers_jobs, "LOCK_TIMEOUT", "50ms")
    job, errors = dead(), []

    def edit_too() -> None:
        try:
            edit(job)
        except InvalidTransition as error:
            errors.append(str(error))
        finally:
            connections.close_all()

    with transaction.atomic():
        Job.objects.select_for_update().get(pk=job.pk)
        other = threading.Thread(target=edit_too)
        other.start()
        other.join(10)

    assert len(errors) == 1
    assert "locked by another transaction" in errors[0]


@pytest.mark.parametrize(("hours", "status"), [(2, Status.SCHEDULED), (-2, Status.PENDING)])
def test_a_retry_at_a_time_is_due_then_or_at_once_where_it_is_past(
    make_user: MakeUser, hours: int, status: Status
) -> None:
    job, when = dead(), timezone.now() + timedelta(hours=hours)

    report = operations.retry_at(job.pk, when, actor=make_user("retry_job"), reason="after the move")

    after = Job.objects.get(pk=job.pk)
    assert report.changed == [job.pk]
    assert after.status == status
    assert after.run_after == (when if hours > 0 else after.updated_at)
    assert (Action.objects.get().action, Action.objects.get().reason) == ("retry", "after the move")


def test_a_retry_at_a_time_needs_the_permission_and_a_zone(make_user: MakeUser) -> None:
    job = dead()

    with pytest.raises(PermissionDenied):
        operations.retry_at(job.pk, datetime(2030, 1, 1, tzinfo=UTC), actor=make_user("view_job"))
    with pytest.raises(ValueError, match="aware"):
        operations.retry_at(job.pk, datetime(2030, 1, 1), actor="command")

    assert stored(job)[0] == Status.DEAD


@pytest.mark.parametrize("status", [Status.DONE, Status.DEAD, Status.CANCELLED, Status.RUNNING, Status.PENDING])
def test_a_clone_is_a_new_job_like_the_first_without_its_key(make_user: MakeUser, status: Status) -> None:
    job = dead(status=status, queue="q", priority=7, max_attempts=9, owner="ann", dedupe_key="k")

    new = operations.clone(job.pk, actor=make_user("retry_job"), reason="once more")

    row = Job.objects.get(pk=new.pk)
    assert (row.status, row.attempts, row.dedupe_key) == (Status.PENDING, 0, None)
    assert (row.job_type, row.queue, row.priority, row.max_attempts, row.owner) == ("probe.ok", "q", 7, 9, "ann")
    assert row.payload == {"path": "old"}
    assert stored(job)[0] == status
    action = Action.objects.get()
    assert (action.action, action.reason, action.job_ids) == ("clone", "once more", [job.pk, new.pk])
    assert action.detail == {"of": job.pk, "clone": new.pk}


def test_a_clone_needs_the_permission_and_a_handler(make_user: MakeUser) -> None:
    with pytest.raises(PermissionDenied):
        operations.clone(dead().pk, actor=make_user("edit_payload"))
    with pytest.raises(UnknownJobType):
        operations.clone(dead(job_type="gone.type").pk, actor="command")
    with pytest.raises(InputLimitExceeded):
        operations.clone(
            dead(job_type="probe.small_input", payload={"document": {"page_count": 99}}).pk, actor="command"
        )

    assert not Action.objects.filter(refused=False).exists()
    assert Job.objects.count() == 3


def test_who_looks_behind_the_masks_is_written_down(make_user: MakeUser) -> None:
    job = dead()

    operations.unmask(job.pk, actor=make_user("view_payload"), what="payload")
    with pytest.raises(PermissionDenied):
        operations.unmask(job.pk, actor="x" and make_user("view_job", username="other"))

    action = Action.objects.get(refused=False)
    assert (action.actor, action.action, action.reason, action.job_ids) == ("operator", "unmask", "payload", [job.pk])
