"""The costliest jobs, and what failed attempts had of the costs."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from jobqueue.managers import CostLine, Done, Ending
from jobqueue.managers.settling import settle_done, settle_ended
from jobqueue.models import Job
from jobqueue.ops import costly
from jobqueue.ops.costly import RetryCost, costliest_jobs, failures_since, retry_costs
from jobqueue.outcomes import Outcome
from jobqueue.states import Status
from tests.factories import AttemptFactory, JobFactory

pytestmark = pytest.mark.django_db
End = Callable[..., int | None]
run = Job.objects.run_sql


def hours_ago(hours: float) -> datetime:
    return datetime.now(UTC) - timedelta(hours=hours)


def done(cost: str, hours: float = 1, **fields: Any) -> Job:
    job: Job = JobFactory.create(status=Status.DONE, cost_total=Decimal(cost), finished_at=hours_ago(hours), **fields)
    return job


def test_the_costliest_jobs_come_first_and_those_without_costs_never() -> None:
    cheap, dear, _free = done("0.5"), done("7", owner="lena"), done("0")

    found = costliest_jobs(hours_ago(24))

    assert [job.id for job in found] == [dear.pk, cheap.pk]
    assert (found[0].owner, found[0].status, found[0].cost_total) == ("lena", Status.DONE, Decimal(7))
    assert found[0].at == dear.finished_at


def test_only_jobs_of_the_window_count_and_one_still_at_work_does() -> None:
    done("9", hours=30)
    recent = done("1")
    active = JobFactory.create(status=Status.SCHEDULED, cost_total=Decimal(3))

    assert [job.id for job in costliest_jobs(hours_ago(24))] == [active.pk, recent.pk]
    assert [job.id for job in costliest_jobs(timedelta(hours=24))] == [active.pk, recent.pk]
    assert [job.id for job in costliest_jobs(hours_ago(24), limit=1)] == [active.pk]


def test_the_look_at_dear_old_jobs_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(5):
        done("9", hours=30)
    recent = done("1")

    monkeypatch.setattr(costly, "REACH", 5)
    assert costliest_jobs(hours_ago(24)) == []

    monkeypatch.setattr(costly, "REACH", 6)
    assert [job.id for job in costliest_jobs(hours_ago(24))] == [recent.pk]


def test_what_failed_attempts_had_of_the_costs() -> None:
    """Two attempts of 0.25 fail, the third one of 0.50 is done; another type never fails."""
    line = [CostLine("llm", "USD", Decimal("0.25"))]
    JobFactory.create(job_type="probe.flaky", max_attempts=3)
    for _ in range(2):
        (job,) = Job.objects.claim(worker_id="worker-1")
        settle_ended(run, worker_id="worker-1", endings=[Ending(job.pk, job.lease_epoch, Outcome.FAILED, costs=line)])
        Job.objects.update(status=Status.PENDING)
    JobFactory.create(job_type="probe.steady")
    for job in Job.objects.claim(2, worker_id="worker-1"):
        settle_done(run, worker_id="worker-1", jobs=[Done(job.pk, job.lease_epoch, costs=line * 2)])

    (flaky,) = retry_costs(hours_ago(1))
    assert retry_costs(timedelta(hours=1)) == [flaky]
    assert retry_costs(timedelta(0)) == []

    assert flaky == RetryCost("probe.flaky", Decimal("1.00"), Decimal("0.50"))
    assert flaky.share == Decimal("0.5")


def test_a_share_is_between_nothing_and_all() -> None:
    assert RetryCost("t", Decimal(0), Decimal(0)).share == 0
    assert RetryCost("t", Decimal(1), Decimal(2)).share == 1
    assert RetryCost("t", Decimal(1), Decimal(-2)).share == 0


def test_more_failures_than_a_page_reads_begin_later() -> None:
    job = JobFactory.create()
    ended = [
        AttemptFactory.create(job=job, number=n, cost=1, finished_at=hours_ago(9 - n)).finished_at for n in range(5)
    ]
    AttemptFactory.create(job=job, number=9, cost=0, finished_at=hours_ago(1))

    assert failures_since(hours_ago(20), using="default", most=2) == ended[2]
    begin = hours_ago(20)
    assert failures_since(begin, using="default", most=5) == begin
