"""Pausing and resuming queues: whom it lets, what is kept of it, who is woken."""

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.utils import timezone

from jobqueue import operations
from jobqueue.exceptions import InvalidName
from jobqueue.models import Action, Queue
from jobqueue.ops.queues import PausedQueue, paused_queues
from tests.factories import JobFactory, WorkerFactory, ago

pytestmark = pytest.mark.django_db

MakeUser = Callable[..., User]


def test_a_pause_is_kept_with_who_why_and_until_and_audited(make_user: MakeUser) -> None:
    until = timezone.now() + timedelta(hours=2)

    operations.pause_queue("mail", actor=make_user("manage_queue"), reason="relay \x00 down", until=until)

    (pause,) = paused_queues()
    assert (pause.name, pause.paused_by, pause.reason) == ("mail", "operator", "relay \\x00 down")
    assert pause.resumes_at == until
    action = Action.objects.get()
    assert (action.actor, action.action, action.subject) == ("operator", "pause_queue", "queue:mail")
    assert (action.reason, action.job_ids) == ("relay \\x00 down", [])


def test_a_resume_is_audited_and_tells_whether_anything_was_paused(make_user: MakeUser) -> None:
    user = make_user("manage_queue")
    operations.pause_queue("*", actor="command")

    assert operations.resume_queue("*", actor=user, reason="back")
    assert not operations.resume_queue("*", actor=user)
    assert not operations.resume_queue("never-paused", actor=user)

    assert paused_queues() == []
    assert [action.action for action in Action.objects.order_by("id")] == ["pause_queue", "resume_queue"]
    assert str(Action.objects.latest("id")) == "operator: resume_queue queue:*"


@pytest.mark.parametrize("act", [operations.pause_queue, operations.resume_queue])
def test_without_the_permission_nothing_changes_and_it_is_logged(
    make_user: MakeUser, caplog: pytest.LogCaptureFixture, act: Callable[..., object]
) -> None:
    Queue.objects.create(name="mail", paused_at=ago(1), paused_by="ann")
    user = make_user("view_job", "cancel_job", "retry_job")

    with caplog.at_level(logging.WARNING, "jobqueue.operations"), pytest.raises(PermissionDenied):
        act("mail", actor=user)

    assert Queue.objects.get().paused_by == "ann"
    assert not Action.objects.filter(refused=False).exists()
    assert "permission=jobqueue.manage_queue" in caplog.text


@pytest.mark.parametrize("name", ["", "a b", "x" * 64, "mail\n", "**"])
def test_a_name_that_no_queue_can_have_is_refused(name: str) -> None:
    for act in (operations.pause_queue, operations.resume_queue):
        with pytest.raises(InvalidName):
            act(name, actor="command")
    assert not Queue.objects.exists()


@pytest.mark.parametrize("until", [datetime(2020, 1, 1, tzinfo=UTC), datetime(2999, 1, 1)])
def test_a_time_that_is_past_or_naive_is_refused(until: datetime) -> None:
    with pytest.raises(ValueError, match="must be an aware time in the future"):
        operations.pause_queue("mail", actor="command", until=until)
    assert not Queue.objects.exists()


def test_a_pause_and_its_audit_are_one_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_args: object, **_fields: object) -> None:
        raise RuntimeError("killed here")

    monkeypatch.setattr(Action.objects, "using", fail)

    with pytest.raises(RuntimeError, match="killed here"):
        operations.pause_queue("mail", actor="command")

    assert paused_queues() == []


def test_a_person_takes_over_what_a_budget_had_paused() -> None:
    Queue.objects.create(name="mail", paused_at=ago(1), paused_by="budget:b", resumes_at=timezone.now() + timedelta(1))

    operations.pause_queue("mail", actor="ann")

    assert [(pause.paused_by, pause.resumes_at) for pause in paused_queues()] == [("ann", None)]


def test_a_pause_of_all_holds_for_every_queue_but_the_package_s_own() -> None:
    everything = PausedQueue("*", timezone.now(), "ann", "", None)
    mail = PausedQueue("mail", timezone.now(), "ann", "", None)

    assert (everything.holds("mail"), everything.holds("jobqueue"), everything.holds("*")) == (True, False, True)
    assert (mail.holds("mail"), mail.holds("other")) == (True, False)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("paused", "woken"), [("mail", {"mail"}), ("*", {"mail", "default"})])
def test_sleeping_workers_are_woken_by_a_resume_for_what_is_due(
    heard: Callable[[], list[str]], paused: str, woken: set[str]
) -> None:
    WorkerFactory.create(idle=True, queues=["*"])
    for queue in ("mail", "default"):
        JobFactory.create(queue=queue)
    operations.pause_queue(paused, actor="command")
    assert heard() == []

    operations.resume_queue(paused, actor="command")

    assert set(heard()) == woken
