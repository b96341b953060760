"""How long a failed job waits: by its type, by the settings, or as it was told."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from jobqueue.models import Job

pytestmark = pytest.mark.django_db

MakeJob = Callable[..., Job]
End = Callable[..., int | None]
run = Job.objects.run_sql


def test_a_failed_job_waits_as_its_own_type_says(leased: MakeJob) -> None:
    """Case C76: backoff of the declaration, capped, never overflowing."""
    job = leased(attempts=4_999, max_attempts=5_000)

    Job.objects.fail(job, "boom")

    job.refresh_from_db()
    assert 600 <= (job.run_after - job.updated_at).total_seconds() <= 750


def test_fail_takes_the_backoff_that_the_handler_declared(leased: MakeJob) -> None:
    job = leased(job_type="probe.impatient")

    Job.objects.fail(job, "boom")

    job.refresh_from_db()
    assert (job.run_after - job.updated_at).total_seconds() == pytest.approx(1.0)


def test_fail_of_a_type_that_nobody_knows_takes_the_backoff_of_the_settings(leased: MakeJob) -> None:
    job = leased(job_type="probe.gone")

    Job.objects.fail(job, "boom")

    job.refresh_from_db()
    assert (job.run_after - job.updated_at).total_seconds() >= 5


def test_an_explicit_delay_is_kept_to_the_second(leased: MakeJob) -> None:
    """Case C79: a delay that a partner asked for is a lower bound."""
    job = leased()

    Job.objects.fail(job, "boom", delay=timedelta(seconds=10))

    job.refresh_from_db()
    assert job.run_after - job.updated_at == timedelta(seconds=10)
