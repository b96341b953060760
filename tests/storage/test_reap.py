"""Reap: what becomes of jobs whose worker is lost, and what it leaves alone."""

from collections.abc import Callable
from typing import Any

import pytest

from jobqueue.models import Attempt, Job, Stat
from jobqueue.outcomes import Outcome
from jobqueue.states import Status
from tests.factories import ago, ahead

pytestmark = pytest.mark.django_db

MakeJob = Callable[..., Job]


def test_a_lease_that_runs_is_left_alone(leased: MakeJob) -> None:
    """Case C33. Guard: lease_until < statement_timestamp()."""
    leased(lease_until=ahead(1))

    assert Job.objects.reap() == {}


def test_a_reaped_job_tells_how_it_was_lost(make_job: MakeJob) -> None:
    """Case C05: an attempt row 'lost' with the old worker's id, and a job that is free again."""
    job = make_job(expired=True, worker_id="worker-9", attempts=2, lease_epoch=7, run_started_at=ago(60))

    Job.objects.reap()

    after, lost = Job.objects.get(pk=job.pk), Attempt.objects.get(job=job)
    assert (after.worker_id, after.lease_until, after.attempts, after.lease_epoch) == (None, None, 2, 7)
    assert (lost.worker_id, lost.lease_epoch, lost.number, lost.outcome) == ("worker-9", 7, 2, Outcome.LEASE_EXPIRED)
    assert (lost.claimed_at, lost.started_at, lost.error_class) == (
        job.claimed_at,
        job.run_started_at,
        "jobqueue.exceptions.LeaseLost",
    )
    assert lost.error_text == "worker lost: its lease ran out before it settled the job"


@pytest.mark.parametrize(
    ("earlier", "text"),
    [
        (None, " [lease-expired reclaim]"),
        ("timeout", "timeout [lease-expired reclaim]"),
        ("timeout [lease-expired reclaim]", "timeout [lease-expired reclaim] [lease-expired reclaim]"),
    ],
)
def test_the_last_error_keeps_the_earlier_text(earlier: str | None, text: str, make_job: MakeJob) -> None:
    job = make_job(expired=True, last_error=earlier)

    Job.objects.reap()

    assert Job.objects.get(pk=job.pk).last_error == text


def test_the_earlier_error_keeps_its_class_and_fingerprint(make_job: MakeJob) -> None:
    fresh = make_job(expired=True)
    failed = make_job(expired=True, error_class="builtins.OSError", fingerprint="abc")

    Job.objects.reap()

    rows = dict(Job.objects.values_list("pk", "error_class"))
    assert rows == {fresh.pk: "jobqueue.exceptions.LeaseLost", failed.pk: "builtins.OSError"}
    assert Job.objects.get(pk=failed.pk).fingerprint == "abc"


def test_leases_that_run_do_not_use_up_the_limit(leased: MakeJob, make_job: MakeJob) -> None:
    """Guard: the expiry inside the limit, not only in the update."""
    leased()
    lost = make_job(expired=True)

    assert list(Job.objects.reap(limit=1)) == [lost.pk]


def test_reap_takes_a_batch_in_id_order(make_job: MakeJob) -> None:
    """Guard: LIMIT."""
    jobs = [make_job(expired=True) for _ in range(3)]

    assert list(Job.objects.reap(limit=2)) == [job.pk for job in jobs[:2]]


def test_reaped_jobs_are_counted_with_their_dead_letters(make_job: MakeJob) -> None:
    make_job(expired=True)
    make_job(expired=True, max_attempts=1)

    Job.objects.reap()

    stat = Stat.objects.get()
    assert (stat.outcome, stat.jobs, stat.dead) == (Outcome.LEASE_EXPIRED, 2, 1)


def test_a_job_that_died_by_it_is_notified_once(make_job: MakeJob) -> None:
    make_job(expired=True)
    dead = make_job(expired=True, max_attempts=1, owner="lena")

    Job.objects.reap()

    notice = Job.objects.get(job_type="jobqueue.notify")
    assert (notice.payload["job_id"], notice.payload["reason"], notice.payload["owner"]) == (dead.pk, "dead", "lena")
    assert notice.payload["error_text"] == " [lease-expired reclaim]"


@pytest.mark.parametrize("job_type", ["probe.ok", "jobqueue.notify"])
def test_nobody_is_notified_of_a_notice_or_without_notifiers(job_type: str, make_job: MakeJob, settings: Any) -> None:
    if job_type == "probe.ok":
        settings.JOBQUEUE = {**settings.JOBQUEUE, "NOTIFIERS": ()}
    make_job(expired=True, max_attempts=1, job_type=job_type)

    Job.objects.reap()

    assert Job.objects.count() == 1


def test_a_reaped_job_keeps_its_costs(make_job: MakeJob) -> None:
    job = make_job(expired=True, cost_total=3, cost_last=2)

    Job.objects.reap()

    job.refresh_from_db()
    assert (job.status, job.cost_total, job.cost_last) == (Status.PENDING, 3, 0)
