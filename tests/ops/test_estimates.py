"""What jobs would cost: the mean of their types' attempts in the last seven days."""

from decimal import Decimal

import pytest

from jobqueue.ops.estimates import estimated_costs
from jobqueue.outcomes import Outcome
from tests.factories import CostFactory, StatFactory, ago

pytestmark = pytest.mark.django_db

DAY = 86_400


def attempts(job_type: str, jobs: int, outcome: Outcome = Outcome.DONE, age: float = 60) -> None:
    StatFactory.create(job_type=job_type, jobs=jobs, outcome=outcome, at=ago(age))


def test_jobs_are_estimated_at_the_mean_of_all_attempts_of_their_type() -> None:
    attempts("a", 3)
    attempts("a", 1, Outcome.FAILED)
    CostFactory.create(job_type="a", amount="2", unit="USD", at=ago(60))
    CostFactory.create(job_type="a", amount="8", unit="tokens", at=ago(60))

    estimate = estimated_costs({"a": 10})

    assert estimate.amounts == {"USD": Decimal(5), "tokens": Decimal(20)}
    assert estimate.unknown == ()


def test_types_are_added_up_and_those_without_history_are_named() -> None:
    for name in ("a", "b", "other"):
        attempts(name, 2)
        CostFactory.create(job_type=name, amount="1", unit="USD", at=ago(60))

    estimate = estimated_costs({"a": 2, "b": 4, "c": 100})

    assert estimate.amounts == {"USD": Decimal(3)}
    assert estimate.unknown == ("c",)


def test_history_older_than_the_window_does_not_count() -> None:
    attempts("a", 2, age=8 * DAY)
    CostFactory.create(job_type="a", amount="1", unit="USD", at=ago(8 * DAY))

    assert estimated_costs({"a": 2}).unknown == ("a",)
