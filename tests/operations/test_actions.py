"""Each action: what it changes, what it refuses and says, and whom it lets."""

import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.core.exceptions import PermissionDenied

from jobqueue import operations
from jobqueue.models import Action, Job
from jobqueue.states import Status
from tests.factories import JobFactory

pytestmark = pytest.mark.django_db

MakeJob = Callable[..., Job]
MakeUser = Callable[..., User]

ACTIONS: dict[str, tuple[Callable[..., operations.Report], dict[str, Any], Status]] = {
    "retry": (operations.retry, {"status": Status.DEAD}, Status.PENDING),
    "discard": (operations.discard, {"status": Status.DEAD}, Status.CANCELLED),
    "cancel": (operations.cancel, {"status": Status.PENDING}, Status.CANCELLED),
    "release": (operations.release, {"expired": True}, Status.PENDING),
}


def status_of(job: Job) -> Status:
    return Status(Job.objects.get(pk=job.pk).status)


@pytest.mark.smoke
@pytest.mark.parametrize("name", ACTIONS)
def test_an_action_changes_the_job_and_is_audited(make_job: MakeJob, make_user: MakeUser, name: str) -> None:
    """Case C134: who, what, why and which."""
    act, fields, after = ACTIONS[name]
    job = make_job(**fields)

    report = act([job.pk], actor=make_user(f"{name}_job"), reason="the partner is back")

    assert (report.changed, report.refused) == ([job.pk], {})
    assert status_of(job) == after
    action = Action.objects.get()
    assert (action.actor, action.action, action.reason) == ("operator", name, "the partner is back")
    assert action.job_ids == [job.pk]


@pytest.mark.parametrize("name", ACTIONS)
def test_a_user_without_the_permission_changes_nothing_and_the_refusal_is_logged(
    make_job: MakeJob, make_user: MakeUser, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Case C56: permission is checked where the state changes, not only where the button is drawn."""
    act, fields, _ = ACTIONS[name]
    job = make_job(**fields)
    others = [f"{other}_job" for other in ACTIONS if other != name]
    before = status_of(job)

    with caplog.at_level(logging.WARNING, "jobqueue.operations"), pytest.raises(PermissionDenied):
        act([job.pk], actor=make_user("view_job", *others))

    assert status_of(job) == before
    assert not Action.objects.filter(refused=False).exists()
    assert f"action refused action={name} actor=operator permission=jobqueue.{name}_job" in caplog.text


def test_an_inactive_user_and_an_anonymous_one_are_refused(make_job: MakeJob, make_user: MakeUser) -> None:
    job = make_job(status=Status.DEAD)

    for actor in (make_user("retry_job", is_active=False), AnonymousUser()):
        with pytest.raises(PermissionDenied):
            operations.retry([job.pk], actor=actor)

    assert status_of(job) == Status.DEAD


def test_what_is_refused_is_told_by_id(make_job: MakeJob) -> None:
    done, holder = make_job(status=Status.DONE), make_job(dedupe_key="k")
    blocked, dead = make_job(status=Status.DEAD, dedupe_key="k"), make_job(status=Status.DEAD)

    report = operations.retry([done.pk, blocked.pk, dead.pk, 999_999_999, -1, 2**70], actor="command")

    assert report.changed == [dead.pk]
    assert report.refused == {
        done.pk: "is DONE",
        blocked.pk: f"blocked by #{holder.pk}",
        999_999_999: "no such job",
        -1: "no such job",
        2**70: "no such job",
    }


def test_an_action_that_changes_nothing_leaves_no_audit_row(make_job: MakeJob) -> None:
    operations.discard([make_job().pk], actor="command")

    assert not Action.objects.filter(refused=False).exists()


def test_a_single_id_is_taken_too_and_refused_without_an_error(make_job: MakeJob) -> None:
    assert operations.cancel(make_job(status=Status.DONE).pk, actor="command").changed == []
    assert len(operations.cancel(make_job().pk, actor="command").changed) == 1


def test_a_retried_job_has_a_fresh_budget(make_job: MakeJob) -> None:
    """Case C82: at 3 of 3 attempts it would die again without running."""
    job = make_job(status=Status.DEAD, attempts=3, max_attempts=3)

    operations.retry([job.pk], actor="command")

    claimed = Job.objects.claim(worker_id="w")[0]
    assert (claimed.pk, claimed.attempts, claimed.max_attempts) == (job.pk, 1, 3)


def test_many_retried_jobs_are_spread_by_themselves() -> None:
    """Case C78: the first wave of a bulk retry is not one spike."""
    JobFactory.create_batch(120, status=Status.DEAD)

    operations.retry(Job.objects.dead(), actor="command")

    delays = sorted((job.run_after - job.updated_at).total_seconds() for job in Job.objects.all())
    assert delays[0] > 0
    assert 0.6 < delays[-1] <= 1.2


def test_retried_jobs_are_due_at_once_or_spread_as_told() -> None:
    JobFactory.create_batch(120, status=Status.DEAD, queue="now")
    JobFactory.create_batch(20, status=Status.DEAD, queue="later")

    operations.retry(Job.objects.filter(queue="now"), actor="command", spread=timedelta(0))
    operations.retry(Job.objects.filter(queue="later"), actor="command", spread=timedelta(hours=1))

    assert set(Job.objects.filter(queue="now").values_list("status", flat=True)) == {Status.PENDING}
    assert set(Job.objects.filter(queue="later").values_list("status", flat=True)) == {Status.SCHEDULED}


@pytest.mark.parametrize(
    ("jobs", "seconds"), [(1, 0), (99, 0), (100, 1), (5_000, 50), (60_000, 600), (10_000_000, 600)]
)
def test_the_spread_grows_with_the_number_of_jobs_up_to_ten_minutes(jobs: int, seconds: int) -> None:
    assert operations.default_spread(jobs) == timedelta(seconds=seconds)


def test_a_negative_spread_is_refused() -> None:
    with pytest.raises(ValueError, match="must not be negative"):
        operations.retry([1], actor="command", spread=timedelta(seconds=-1))


def test_a_running_job_is_asked_to_stop(make_job: MakeJob, make_user: MakeUser) -> None:
    job = make_job(status=Status.RUNNING)

    report = operations.cancel([job.pk], actor=make_user("cancel_job"), reason="wrong file")

    after = Job.objects.get(pk=job.pk)
    assert report.changed == [job.pk]
    assert after.status == Status.RUNNING
    assert after.cancel_requested_at is not None


def test_a_reason_is_kept_in_a_form_that_can_be_stored(make_job: MakeJob) -> None:
    job = make_job(status=Status.DEAD)

    operations.discard([job.pk], actor="nul \x00 name", reason="nul \x00 half \ud800 " + "long " * 200)

    action = Action.objects.get()
    assert action.actor == "nul \\x00 name"
    assert action.reason.startswith("nul \\x00 half \\ud800 long")
    assert len(action.reason) <= 520
    assert "discarded: nul" in str(Job.objects.get(pk=job.pk).last_error)
