"""Enqueues under a spent budget: refused before anything is written, and no other enqueue costs a statement more."""

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import transaction
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from jobqueue.exceptions import BudgetSpent
from jobqueue.models import Budget, Job

pytestmark = pytest.mark.django_db

REFUSING: dict[str, Any] = {"amount": "1", "per": "day", "at_limit": "refuse"}
WAYS: dict[str, Callable[..., Any]] = {
    "enqueue": lambda queue="default": Job.objects.enqueue("probe.ok", queue=queue),
    "get_or_enqueue": lambda queue="default": Job.objects.get_or_enqueue("probe.ok", dedupe_key="k", queue=queue),
    "enqueue_many": lambda queue="default": Job.objects.enqueue_many(
        [("probe.echo", {}), {"job_type": "probe.ok", "queue": queue}]
    ),
}


@pytest.fixture
def budget(settings: Any) -> Callable[..., None]:
    """Return the function that sets the budgets: budget(b={"queue": "q"}), refusing ones of 1 USD a day."""

    def set_budgets(**of: dict[str, Any]) -> None:
        settings.JOBQUEUE = {"BUDGETS": {name: {**REFUSING, **value} for name, value in of.items()}}

    return set_budgets


def spend(name: str, spent: str = "1", **fields: Any) -> Budget:
    now = timezone.now()
    values = {
        "window_start": now - timedelta(hours=1),
        "window_end": now + timedelta(hours=1),
        "unit": "USD",
        "amount": Decimal(1),
        "spent": Decimal(spent),
    }
    return Budget.objects.create(name=name, **values | fields)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("of", [{}, {"queue": "default"}, {"job_type": "probe.ok"}])
def test_a_job_under_a_spent_budget_is_refused_and_nothing_is_enqueued(
    budget: Callable[..., None], way: str, of: dict[str, str]
) -> None:
    budget(costly=of)
    row = spend("costly", "1.25")

    with pytest.raises(BudgetSpent, match=r"budget costly is spent, 1\.25 of 1 USD") as caught:
        WAYS[way]()

    error = caught.value
    assert (error.budget, error.spent, error.amount, error.unit) == ("costly", Decimal("1.25"), 1, "USD")
    assert error.resumes_at == row.window_end
    assert not Job.objects.exists()


def test_the_async_twins_refuse_too(budget: Callable[..., None]) -> None:
    budget(costly={})
    spend("costly")

    with pytest.raises(BudgetSpent):
        async_to_sync(Job.objects.aenqueue)("probe.ok")


def test_the_callers_transaction_stays_usable(budget: Callable[..., None]) -> None:
    budget(costly={"queue": "dear"})
    spend("costly")

    with transaction.atomic():
        for way in WAYS.values():
            with pytest.raises(BudgetSpent):
                way("dear")
        Job.objects.enqueue("probe.ok")

    assert Job.objects.count() == 1


@pytest.mark.parametrize(
    "row",
    [
        {"spent": "0.99999999"},
        {"unit": "EUR", "spent": "5"},
        {"window_end": timezone.now() - timedelta(seconds=1)},
    ],
)
def test_a_budget_that_is_not_spent_in_this_window_refuses_nothing(
    budget: Callable[..., None], row: dict[str, Any]
) -> None:
    budget(costly={})
    spend("costly", **row)

    assert WAYS["enqueue"]() is not None


def test_a_budget_that_was_raised_refuses_nothing_before_maintenance_knows(budget: Callable[..., None]) -> None:
    budget(costly={"amount": "2"})
    spend("costly", "1.5")

    assert WAYS["enqueue"]() is not None


@pytest.mark.parametrize("at_limit", ["alert", "pause"])
def test_a_budget_that_does_not_refuse_lets_all_in(budget: Callable[..., None], at_limit: str) -> None:
    budget(costly={"at_limit": at_limit})
    spend("costly", level=100)

    assert WAYS["enqueue"]() is not None


def test_the_packages_own_jobs_are_never_refused(budget: Callable[..., None]) -> None:
    """An alarm that costs too much was sent must not fail for having cost too much."""
    budget(everything={}, own={"queue": "jobqueue"})
    spend("everything"), spend("own")

    assert Job.objects.enqueue("jobqueue.notify", {"event": "dead"}, queue="jobqueue") is not None


def test_of_several_spent_budgets_the_one_that_lasts_longest_is_named(budget: Callable[..., None]) -> None:
    budget(short={}, long={"queue": "default"})
    spend("short")
    spend("long", window_end=timezone.now() + timedelta(days=3))

    with pytest.raises(BudgetSpent) as caught:
        WAYS["enqueue"]()

    assert caught.value.budget == "long"


@pytest.mark.parametrize("way", WAYS)
def test_exactly_one_statement_more_is_made_where_a_budget_may_refuse_and_none_elsewhere(
    budget: Callable[..., None], settings: Any, way: str, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    # The procedure is not used within the transaction of a test, and each way has its statements.
    without = {"enqueue": 1, "get_or_enqueue": 1, "enqueue_many": 4}[way]
    settings.JOBQUEUE = {}
    with transaction.atomic(), django_assert_num_queries(without):
        WAYS[way](queue="first")
    Job.objects.all().delete()

    budget(other={"queue": "other"}, alerts={"at_limit": "alert"}, of_a_type={"job_type": "probe.boom"})
    with transaction.atomic(), django_assert_num_queries(without):
        WAYS[way](queue="first")
    Job.objects.all().delete()

    budget(all_jobs={}, of_the_queue={"queue": "first"}, of_the_type={"job_type": "probe.ok"})
    with transaction.atomic(), django_assert_num_queries(without + 1):
        WAYS[way](queue="first")
