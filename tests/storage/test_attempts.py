"""What an attempt costs: charged at the claim, given back where the job is not to blame; a cancel wins over all."""

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from jobqueue.managers import CostLine, Release, leasing
from jobqueue.models import Attempt, Cost, Job
from jobqueue.outcomes import Outcome
from jobqueue.states import Status
from tests.factories import ago

pytestmark = pytest.mark.django_db

MakeJob = Callable[..., Job]
End = Callable[..., int | None]


def test_a_failed_attempt_stays_charged(leased: MakeJob, end: End) -> None:
    job = leased()

    assert end(job, delay=timedelta(seconds=30)) == Status.SCHEDULED

    job.refresh_from_db()
    assert (job.attempts, job.interruptions) == (1, 0)
    assert job.run_after - job.updated_at == timedelta(seconds=30)


def test_a_retry_asked_for_is_charged_and_dead_at_the_last_attempt(leased: MakeJob, end: End) -> None:
    job = leased(attempts=3)

    assert end(job, delay=timedelta(seconds=10)) == Status.DEAD


def test_a_released_job_gets_its_attempt_back_and_counts_nothing(leased: MakeJob) -> None:
    job = leased(attempts=2)

    Job.objects.release(job)

    job.refresh_from_db()
    assert (job.attempts, job.interruptions) == (1, 0)
    assert not Attempt.objects.exists()


def test_what_a_snoozed_run_cost_is_kept(leased: MakeJob) -> None:
    job, lost = leased(owner="lena", cost_total=1), leased(lease_epoch=9)
    costs = [CostLine("llm", "USD", Decimal("0.25"))]
    snoozed = [Release(each.pk, 1, timedelta(minutes=1), costs=costs) for each in (job, lost)]

    leasing.release(Job.objects.run_sql, worker_id="worker-1", releases=snoozed)

    job.refresh_from_db()
    assert (job.status, job.cost_total) == (Status.SCHEDULED, Decimal("1.25"))
    assert list(Cost.objects.values_list("owner", "component", "amount")) == [("lena", "llm", Decimal("0.25"))]


def test_requests_to_cancel_are_told_to_the_worker_that_asks(leased: MakeJob) -> None:
    asked, not_asked = leased(cancel_requested_at=ago(1)), leased()
    ended = leased(cancel_requested_at=ago(1))
    Job.objects.complete(ended)

    found = leasing.cancel_requests(Job.objects.run_sql, ids=[asked.pk, not_asked.pk, ended.pk])

    assert found == [asked.pk]


def test_a_type_unknown_here_is_given_back_and_its_time_is_kept(leased: MakeJob) -> None:
    """Case C58: bounded short releases; the first one's time tells when it becomes a dead letter."""
    job = leased()
    later = Release(job.pk, 1, timedelta(seconds=5), unknown=True)

    leasing.release(Job.objects.run_sql, worker_id="worker-1", releases=[later])
    first = Job.objects.get(pk=job.pk).unknown_since
    Job.objects.filter(pk=job.pk).update(status=Status.RUNNING, worker_id="worker-1", attempts=1)
    leasing.release(Job.objects.run_sql, worker_id="worker-1", releases=[later])

    job.refresh_from_db()
    assert (job.status, job.attempts, job.unknown_since) == (Status.SCHEDULED, 0, first)


def test_an_ordinary_release_forgets_that_the_type_was_unknown(leased: MakeJob) -> None:
    job = leased(unknown_since=ago(60))

    Job.objects.release(job)

    assert Job.objects.get(pk=job.pk).unknown_since is None


def test_an_interruption_gives_the_attempt_back_and_is_logged(leased: MakeJob, end: End) -> None:
    """Case C42: each deploy releases the job at once, and the budget of failures is untouched."""
    job = leased(attempts=2)

    assert end(job, outcome=Outcome.INTERRUPTED, step="interrupt", run_seconds=4.0) == Status.PENDING

    job.refresh_from_db()
    logged = Attempt.objects.get(job=job)
    assert (job.attempts, job.interruptions, job.outcome) == (1, 1, Outcome.INTERRUPTED)
    assert (logged.number, logged.outcome) == (2, Outcome.INTERRUPTED)
    assert logged.finished_at - logged.started_at == timedelta(seconds=4)


@pytest.mark.parametrize(
    ("interruptions", "attempts", "status", "attempts_after"),
    [(9, 3, Status.PENDING, 2), (10, 1, Status.PENDING, 1), (10, 3, Status.DEAD, 3)],
)
def test_interruptions_above_the_budget_are_charged(
    interruptions: int, attempts: int, status: Status, attempts_after: int, leased: MakeJob, end: End
) -> None:
    """Guard: interruptions < budget. The tenth is free, the eleventh is a failed attempt."""
    job = leased(interruptions=interruptions, attempts=attempts)

    assert end(job, outcome=Outcome.INTERRUPTED, step="interrupt") == status

    job.refresh_from_db()
    assert (job.attempts, job.interruptions) == (attempts_after, interruptions + 1)


def test_a_run_of_deploys_never_kills_a_job_within_the_budget(make_job: MakeJob, end: End) -> None:
    """Case C42: four rolling restarts with three attempts allowed, then it is done."""
    make_job(max_attempts=3)

    for _ in range(4):
        (job,) = Job.objects.claim(worker_id="w")
        assert end(job, outcome=Outcome.INTERRUPTED, step="interrupt") == Status.PENDING
    (job,) = Job.objects.claim(worker_id="w")
    Job.objects.complete(job)

    assert [attempt["number"] for attempt in job.attempt_history()] == [1, 1, 1, 1, 1]


@pytest.mark.parametrize(
    "ending",
    [
        {"outcome": Outcome.FAILED, "step": "retry"},
        {"outcome": Outcome.DEADLINE, "step": "retry"},
        {"outcome": Outcome.MEMORY, "step": "dead"},
        {"outcome": Outcome.INTERRUPTED, "step": "interrupt"},
        {"outcome": Outcome.CANCELLED, "step": "cancel"},
    ],
    ids=lambda ending: ending["step"] + str(ending["outcome"]),
)
def test_a_requested_cancel_wins_over_every_end_but_success(ending: dict[str, Any], leased: MakeJob, end: End) -> None:
    """Case C80: with a request a failure is CANCELLED, never a retry. Guard: cancel_requested_at in settle_ended."""
    job = leased(cancel_requested_at=ago(1))

    assert end(job, **ending) == Status.CANCELLED

    job.refresh_from_db()
    assert job.finished_at is not None
    assert job.attempts == 1, "an attempt is given back to be used again, which this one will not"
    assert Attempt.objects.get(job=job).outcome == ending["outcome"]


def test_a_success_that_settles_first_stays_done(leased: MakeJob) -> None:
    job = leased(cancel_requested_at=ago(1))

    assert Job.objects.complete(job) == {job.pk: Status.DONE}


def test_a_released_job_with_a_request_is_cancelled(leased: MakeJob) -> None:
    """Guard: cancel_requested_at in release_jobs."""
    job = leased(cancel_requested_at=ago(1))

    assert Job.objects.release(job, delay=timedelta(hours=1)) == {job.pk: Status.CANCELLED}

    job.refresh_from_db()
    assert (job.outcome, job.finished_at is None) == (Outcome.CANCELLED, False)


def test_an_expired_job_with_a_request_is_cancelled(make_job: MakeJob) -> None:
    """Guard: cancel_requested_at in reap_jobs."""
    job = make_job(expired=True, cancel_requested_at=ago(1))

    assert Job.objects.reap() == {job.pk: Status.CANCELLED}


def test_a_started_run_is_told_by_its_first_renewal_and_kept_by_later_ones(leased: MakeJob) -> None:
    job = leased()
    run, lease = Job.objects.run_sql, timedelta(seconds=60)

    leasing.renew(run, worker_id="worker-1", held=[(job.pk, 1, None)], lease=lease)
    assert Job.objects.get(pk=job.pk).run_started_at is None
    leasing.renew(run, worker_id="worker-1", held=[(job.pk, 1, 2.5)], lease=lease)
    started = Job.objects.get(pk=job.pk)
    leasing.renew(run, worker_id="worker-1", held=[(job.pk, 1, 9.0)], lease=lease)

    job.refresh_from_db()
    assert started.updated_at - started.run_started_at == timedelta(seconds=2.5)
    assert (job.run_started_at, job.first_started_at) == (started.run_started_at, started.run_started_at)
    assert job.lease_until - job.updated_at == lease


def test_the_history_counts_on_over_a_redrive_with_each_attempts_cost(make_job: MakeJob, end: End, quiet: None) -> None:
    """Cases C82 and C122: a fresh budget, numbered on by epoch; costs of failed attempts are kept and summed."""
    make_job(max_attempts=1)

    (job,) = Job.objects.claim(worker_id="w")
    assert end(job, costs=[CostLine("llm", "USD", Decimal(10))]) == Status.DEAD
    Job.objects.redrive(job.pk)
    (job,) = Job.objects.claim(worker_id="w")
    Job.objects.complete(job)

    job.refresh_from_db()
    history = job.attempt_history()
    assert [(row["lease_epoch"], row["outcome"], row["cost"]) for row in history] == [
        (1, Outcome.FAILED, 10),
        (2, Outcome.DONE, 0),
    ]
    assert (job.attempts, job.cost_total, job.cost_last) == (1, 10, 0)


def test_the_history_of_a_running_job_ends_with_the_run_that_goes_on(make_job: MakeJob, make_attempt: Any) -> None:
    job = make_job(status=Status.RUNNING, attempts=2, lease_epoch=2)
    make_attempt(job=job, number=1)

    first, current = job.attempt_history()

    assert (first["number"], first["error_text"]) == (1, "boom")
    assert (current["number"], current["worker_id"], current["outcome"], current["finished_at"]) == (
        2,
        "worker-1",
        None,
        None,
    )
