"""Costs: kept with the settle, exact, added up by unit, and refused where they cannot be stored."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from django.db import DataError
from django.db.models import Sum

from jobqueue.managers import CostLine, Done
from jobqueue.managers.settling import settle_done
from jobqueue.models import Cost, Job
from jobqueue.outcomes import Outcome
from jobqueue.states import Status

pytestmark = pytest.mark.django_db

MakeJob = Callable[..., Job]
End = Callable[..., int | None]
run = Job.objects.run_sql


def finish(*jobs: Done) -> dict[int, int]:
    return settle_done(run, worker_id="worker-1", jobs=jobs)


def test_without_costs_there_is_no_cost_row(leased: MakeJob) -> None:
    finish(Done(leased().pk, 1))

    assert not Cost.objects.exists()


def test_costs_of_all_attempts_add_up_in_the_job_and_in_the_lines(make_job: MakeJob, end: End, quiet: None) -> None:
    """Case C122: 0.10 and fails, 0.05 and is killed, 0.20 and is done."""
    make_job(owner="lena", max_attempts=3)

    (job,) = Job.objects.claim(worker_id="worker-1")
    end(job, costs=[CostLine("llm", "USD", Decimal("0.10"))])
    Job.objects.update(status=Status.PENDING)
    (job,) = Job.objects.claim(worker_id="worker-1")
    end(job, outcome=Outcome.CRASHED, exit_code=-9, costs=[CostLine("llm", "USD", Decimal("0.05"))])
    Job.objects.update(status=Status.PENDING)
    (job,) = Job.objects.claim(worker_id="worker-1")
    finish(Done(job.pk, 3, costs=[CostLine("llm", "USD", Decimal("0.15")), CostLine("ocr", "USD", Decimal("0.05"))]))

    job.refresh_from_db()
    assert (job.cost_total, job.cost_last) == (Decimal("0.35"), Decimal("0.20"))
    assert [row["cost"] for row in job.attempt_history()] == [Decimal("0.10"), Decimal("0.05"), Decimal("0.20")]
    lines = Cost.objects.order_by("id").values_list("owner", "component", "unit", "amount")
    assert list(lines) == [
        ("lena", "llm", "USD", Decimal("0.10")),
        ("lena", "llm", "USD", Decimal("0.05")),
        ("lena", "llm", "USD", Decimal("0.15")),
        ("lena", "ocr", "USD", Decimal("0.05")),
    ]


def test_totals_equal_the_sums_of_their_lines_to_the_last_digit(leased: MakeJob) -> None:
    """Case C124: amounts below the stored places are rounded once, in line and total alike."""
    amounts = [Decimal("0.000000004"), Decimal("0.000000005"), Decimal("1234.5678"), Decimal("-0.10")]
    job = leased()

    finish(Done(job.pk, 1, costs=[CostLine("llm", "USD", amount) for amount in amounts]))

    job.refresh_from_db()
    assert job.cost_total == Decimal("1234.46780001")
    assert Cost.objects.aggregate(total=Sum("amount"))["total"] == job.cost_total


def test_amounts_in_different_units_are_not_added_to_one_another(leased: MakeJob, settings: Any) -> None:
    settings.JOBQUEUE = {**settings.JOBQUEUE, "COST_UNITS": ("EUR", "tokens")}
    job = leased()

    finish(Done(job.pk, 1, costs=[CostLine("llm", "EUR", Decimal("0.10")), CostLine("llm", "tokens", Decimal(4_000))]))

    job.refresh_from_db()
    assert job.cost_total == Decimal("0.10")
    assert set(Cost.objects.values_list("unit", "amount")) == {("EUR", Decimal("0.10")), ("tokens", Decimal(4_000))}


@pytest.mark.parametrize("amount", ["NaN", "Infinity", "1E12", "-1000000000000"])
def test_an_amount_that_cannot_be_stored_is_refused_at_the_record(amount: str, leased: MakeJob) -> None:
    """Case C124: rejected at record time, not at report time."""
    with pytest.raises(DataError, match="cannot be stored"):
        finish(Done(leased().pk, 1, costs=[CostLine("llm", "USD", Decimal(amount))]))
