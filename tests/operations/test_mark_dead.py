"""Giving up a stuck job on a person's word: only a stuck one, charged, told of, and never with two owners."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied

from jobqueue import operations
from jobqueue.exceptions import InvalidTransition, LeaseLost
from jobqueue.models import Action, Attempt, Job, Stat
from jobqueue.outcomes import Outcome
from jobqueue.states import Status
from tests.factories import WORKER, ago, ahead

pytestmark = pytest.mark.django_db

MakeJob = Callable[..., Job]
TOLD = {"NOTIFIERS": ["jobqueue.notifiers.log"]}


def test_only_a_stuck_job_is_marked_dead(make_job: MakeJob) -> None:
    expired = make_job(expired=True)
    overlong = make_job(status=Status.RUNNING, lease_until=ahead(60), claimed_at=ago(601))
    healthy, waiting = make_job(status=Status.RUNNING, lease_until=ahead(60)), make_job()

    report = operations.mark_dead([expired.pk, overlong.pk, healthy.pk, waiting.pk], actor="command")

    assert report.changed == [expired.pk, overlong.pk]
    assert report.refused == {
        healthy.pk: "is not stuck: its worker holds the lease",
        waiting.pk: "is PENDING",
    }


def test_the_attempt_is_charged_written_down_and_counted(make_job: MakeJob) -> None:
    job = make_job(expired=True, attempts=2, max_attempts=5)

    operations.mark_dead([job.pk], actor="command", reason="it will never end")

    after, attempt = Job.objects.get(pk=job.pk), Attempt.objects.get()
    assert (after.status, after.outcome, after.attempts, after.interruptions) == (
        Status.DEAD,
        Outcome.LEASE_EXPIRED,
        2,
        0,
    )
    assert (after.worker_id, after.lease_until) == (None, None)
    assert after.finished_at is not None
    assert after.last_error == attempt.error_text == "marked dead by a person while it was stuck: it will never end"
    assert after.fingerprint == attempt.fingerprint == "marked-dead"
    assert (attempt.worker_id, attempt.number, attempt.outcome) == (WORKER, 2, Outcome.LEASE_EXPIRED)
    assert list(Stat.objects.values_list("outcome", "jobs", "dead")) == [(Outcome.LEASE_EXPIRED, 1, 1)]


def test_what_the_old_worker_still_sends_is_refused(make_job: MakeJob) -> None:
    old = make_job(expired=True)

    operations.mark_dead([old.pk], actor="command")

    with pytest.raises(LeaseLost):
        Job.objects.complete(old, {"late": True})
    assert Job.objects.get(pk=old.pk).status == Status.DEAD


def test_it_can_be_retried_like_any_dead_letter(make_job: MakeJob) -> None:
    job = make_job(expired=True)
    operations.mark_dead([job.pk], actor="command")

    assert operations.retry([job.pk], actor="command").changed == [job.pk]


def test_a_request_to_cancel_wins(make_job: MakeJob) -> None:
    job = make_job(expired=True, cancel_requested_at=ago(5))

    operations.mark_dead([job.pk], actor="command")

    after = Job.objects.get(pk=job.pk)
    assert (after.status, after.outcome) == (Status.CANCELLED, Outcome.CANCELLED)
    assert (after.fingerprint, after.error_class, after.last_error) == (None, None, None)  # no dead letter


def test_only_what_became_a_dead_letter_is_told_of(make_job: MakeJob, settings: object) -> None:
    settings.JOBQUEUE = TOLD  # type: ignore[attr-defined]
    dead, cancelled, released = (
        make_job(expired=True, **fields) for fields in ({}, {"cancel_requested_at": ago(5)}, {})
    )

    operations.mark_dead([dead.pk, cancelled.pk], actor="command", reason="gone")
    operations.release([released.pk], actor="command")

    notices = list(Job.objects.filter(job_type="jobqueue.notify").values_list("payload", flat=True))
    assert [(notice["job_id"], notice["reason"]) for notice in notices] == [(dead.pk, "dead")]
    assert notices[0]["error_text"] == "marked dead by a person while it was stuck: gone"


def test_it_needs_the_permission_to_release_and_is_written_down(
    make_job: MakeJob, make_user: Callable[..., User]
) -> None:
    job = make_job(expired=True)

    with pytest.raises(PermissionDenied):
        operations.mark_dead([job.pk], actor=make_user("view_job", "manage_worker", username="nobody"))
    operations.mark_dead([job.pk], actor=make_user("release_job"), reason="enough")

    done = Action.objects.get(refused=False)
    assert (done.actor, done.action, done.reason, done.job_ids) == ("operator", "mark_dead", "enough", [job.pk])


def test_the_manager_raises_for_a_single_job_that_is_not_stuck(make_job: MakeJob) -> None:
    job = make_job(status=Status.RUNNING)

    with pytest.raises(InvalidTransition, match="cannot mark dead, its status is RUNNING"):
        Job.objects.mark_dead(job.pk)
