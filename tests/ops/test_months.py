"""Costs by month: read a month at a time, kept when they are over, and the same as read at once."""

import time
from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobqueue.models import Cost
from jobqueue.ops import months
from jobqueue.ops.cost_page import starts_of
from jobqueue.ops.costs import CostPoint, cost_series
from jobqueue.ops.limited import Budget
from tests.factories import CostFactory, ago

pytestmark = pytest.mark.django_db

DAY = 86_400


def read(*, most: int = 1_000, seconds: float = 10) -> Sequence[CostPoint] | None:
    """Return what a look with so much time finds."""
    budget = Budget("default", each=timedelta(seconds=5), end=time.monotonic() + seconds)
    with budget.open():
        return months.read(budget, "owner", since(budget), "default", most=most)


def since(budget: Budget) -> Any:
    assert budget.opened_at is not None
    return starts_of("month", budget.opened_at)[0]


def amounts() -> list[int]:
    return [int(point.amount) for point in read() or ()]


@pytest.fixture(autouse=True)
def costs() -> None:
    """Make costs of two owners: of now, 95 and 250 days ago, and two years ago."""
    for days, owner in ((0, "anna"), (95, "anna"), (95, "ben"), (250, "ben"), (800, "ben")):
        CostFactory.create(at=ago(days * DAY), owner=owner, amount=Decimal(days + 1))


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata", "America/New_York"])
def test_the_months_are_those_that_are_read_at_once(settings: Any, zone: str) -> None:
    settings.TIME_ZONE = zone
    budget = Budget("default", each=timedelta(seconds=5), end=time.monotonic() + 10)
    with budget.open():
        start = since(budget)

    assert read() == cost_series("owner", since=start, per="month")
    assert amounts() == [251, 96, 96, 1]


def test_months_that_are_over_are_not_read_again_and_this_one_is() -> None:
    assert amounts() == [251, 96, 96, 1]
    Cost.objects.filter(at__lt=ago(40 * DAY)).update(amount=7)
    Cost.objects.filter(at__gt=ago(DAY)).update(amount=5)

    with CaptureQueriesContext(connection) as queries:
        again = amounts()

    assert again == [251, 96, 96, 5]
    # The one before may have ended a moment ago, and is read until it is settled.
    assert len([one for one in queries.captured_queries if "date_trunc" in one["sql"]]) <= 2


def test_after_a_while_they_are_read_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    amounts()
    Cost.objects.filter(at__lt=ago(40 * DAY)).update(amount=7)
    monkeypatch.setattr(months, "KEPT_SECONDS", 0)

    assert amounts() == [7, 7, 7, 1]


def test_what_one_schema_cost_is_not_shown_in_another() -> None:
    amounts()
    Cost.objects.filter(at__lt=ago(40 * DAY)).update(amount=7)
    with connection.cursor() as cursor:
        cursor.execute("CREATE SCHEMA tenant; SET LOCAL search_path = tenant, public")

    assert amounts() == [7, 7, 7, 1]


def test_too_many_sums_and_too_little_time_are_told_by_none() -> None:
    assert read(most=3) is None
    assert read(seconds=0) is None


def test_no_more_is_kept_than_so_many_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(months, "KEPT_POINTS", 2)

    assert amounts() == [251, 96, 96, 1]
    assert sum(len(points) for _at, points in months._kept.values()) <= 2
