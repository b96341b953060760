"""jobqueue_costs: exact sums by part and period, the costliest jobs, what failed attempts had."""

import json
from collections.abc import Callable
from decimal import Decimal

import pytest

from jobqueue.models import Attempt
from jobqueue.outcomes import Outcome
from jobqueue.states import Status
from tests.factories import CostFactory, JobFactory, ago

from .conftest import Ran

Run = Callable[..., Ran]

pytestmark = pytest.mark.django_db


def words(ran: Ran) -> list[list[str]]:
    assert ran.code == 0
    return [line.split() for line in ran.out.splitlines()]


def test_costs_of_the_last_day_are_by_type_dearest_first(run: Run) -> None:
    CostFactory.create(job_type="cheap", amount="0.1")
    CostFactory.create(job_type="dear", amount="7")
    CostFactory.create(job_type="old", amount="9", at=ago(90_000))

    assert words(run("jobqueue_costs")) == [
        ["job_type", "unit", "amount"],
        ["dear", "USD", "7.00000000"],
        ["cheap", "USD", "0.10000000"],
    ]


def test_a_name_does_not_steer_the_terminal(run: Run) -> None:
    CostFactory.create(owner="lena\x1b[2J", amount="1")

    assert words(run("jobqueue_costs", "--by", "owner"))[1] == ["lena\N{REPLACEMENT CHARACTER}[2J", "USD", "1.00000000"]


def test_costs_are_by_other_parts_over_other_times_in_one_unit(run: Run) -> None:
    CostFactory.create(owner="lena", queue="mail", amount="1", at=ago(90_000))
    CostFactory.create(owner="", queue="mail", amount="2")
    CostFactory.create(owner="lena", queue="mail", amount="500", unit="tokens")

    assert words(run("jobqueue_costs", "--since", "2d", "--by", "owner,queue", "--unit", "USD"))[1:] == [
        ["-", "mail", "USD", "2.00000000"],
        ["lena", "mail", "USD", "1.00000000"],
    ]


def test_json_has_amounts_as_text_and_periods_in_the_zone(run: Run, settings: object) -> None:
    settings.TIME_ZONE = "Asia/Kolkata"  # type: ignore[attr-defined]
    CostFactory.create(amount="0.00000001")

    (row,) = json.loads(run("jobqueue_costs", "--per", "day", "--by", "", "--json").out)

    assert row.pop("from").endswith("T00:00:00+05:30")
    assert row == {"unit": "USD", "amount": "0.00000001"}


def test_the_costliest_jobs(run: Run) -> None:
    dear = JobFactory.create(status=Status.DONE, cost_total=Decimal(2), cost_last=Decimal(1), finished_at=ago(60))
    JobFactory.create(status=Status.DONE, cost_total=Decimal(1), finished_at=ago(60))

    (row,) = json.loads(run("jobqueue_costs", "--jobs", "1", "--json").out)

    assert (row["id"], row["status"], row["cost_total"]) == (dear.pk, "DONE", "2.00000000")


def test_what_failed_attempts_cost(run: Run, make_attempt: Callable[..., Attempt]) -> None:
    job = JobFactory.create(job_type="flaky")
    make_attempt(job=job, outcome=Outcome.FAILED, cost=Decimal("0.25"))
    CostFactory.create(job_type="flaky", amount="1")

    assert words(run("jobqueue_costs", "--retries"))[1:] == [["flaky", "1.00000000", "0.25000000", "0.2500"]]


def test_no_costs_are_nothing(run: Run) -> None:
    assert run("jobqueue_costs").out.strip() == "nothing"
    assert json.loads(run("jobqueue_costs", "--json").out) == []


@pytest.mark.parametrize("wrong", [["--by", "outcome"], ["--by", "unit"]])
def test_another_part_is_refused(run: Run, wrong: list[str]) -> None:
    ran = run("jobqueue_costs", *wrong)

    assert (ran.code, ran.error) == (2, f"--by {wrong[1]}: costs are by job_type, queue, component, owner")
