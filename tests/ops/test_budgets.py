"""What budgets have spent: exact, in calendar windows of the configured zone, whatever was folded."""

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.db import connection
from django.utils import timezone

from jobqueue import sql
from jobqueue.budgets import budgets
from jobqueue.maintenance.fold import MINUTE, QUARTER
from jobqueue.managers import moving
from jobqueue.managers.budgeting import BudgetSum, budget_sums
from jobqueue.models import Cost, Job
from jobqueue.ops.budgets import budget_states
from tests.factories import CostFactory

pytestmark = pytest.mark.django_db

ONE: dict[str, Any] = {"amount": "1", "per": "day"}


@pytest.fixture
def sums(settings: Any) -> Callable[..., dict[str, BudgetSum]]:
    """Return the function that sums budgets as if it were another moment: sums("2026-03-29T00:30Z", b={...})."""

    def at(moment: str | None, *, zone: str = "UTC", edges: Any = None, **of: dict[str, Any]) -> dict[str, BudgetSum]:
        settings.TIME_ZONE = zone
        terms = list(budgets({name: {**ONE, **value} for name, value in of.items()}).values())

        def run(statement: str, params: Any) -> list[tuple[Any, ...]]:
            if moment is not None:
                statement = statement.replace("statement_timestamp()", f"timestamptz '{moment}'")
            return Job.objects.run_sql(statement, params)

        return budget_sums(run, terms, edges)

    return at


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


@pytest.mark.parametrize(
    ("zone", "per", "now", "start", "end"),
    [
        ("UTC", "hour", "2026-11-30T13:44:59Z", "2026-11-30T13:00Z", "2026-11-30T14:00Z"),
        ("UTC", "day", "2026-02-28T23:59:59Z", "2026-02-28T00:00Z", "2026-03-01T00:00Z"),
        ("UTC", "month", "2026-02-28T23:59:59Z", "2026-02-01T00:00Z", "2026-03-01T00:00Z"),
        # The clocks are set back to midnight: the day ends when they pass it for the second time.
        ("America/Havana", "day", "2026-11-01T04:30Z", "2026-10-31T04:00Z", "2026-11-01T05:00Z"),
        ("America/Havana", "day", "2026-11-01T05:00Z", "2026-11-01T05:00Z", "2026-11-02T05:00Z"),
        ("America/Havana", "month", "2026-11-01T04:30Z", "2026-10-01T04:00Z", "2026-11-01T05:00Z"),
        # They are set forward from midnight: the day begins at one o'clock, and ends at midnight all the same.
        ("America/Santiago", "day", "2026-09-06T03:30Z", "2026-09-05T04:00Z", "2026-09-06T04:00Z"),
        ("America/Santiago", "day", "2026-09-06T12:00Z", "2026-09-06T04:00Z", "2026-09-07T03:00Z"),
        # Half an hour off: case C166.
        ("Asia/Kolkata", "hour", "2026-11-30T13:44:59Z", "2026-11-30T13:30Z", "2026-11-30T14:30Z"),
        ("Asia/Kolkata", "day", "2026-11-30T18:29:59Z", "2026-11-29T18:30Z", "2026-11-30T18:30Z"),
        ("Asia/Kolkata", "day", "2026-11-30T18:30:00Z", "2026-11-30T18:30Z", "2026-12-01T18:30Z"),
        ("Asia/Kolkata", "month", "2026-11-30T18:30:00Z", "2026-11-30T18:30Z", "2026-12-31T18:30Z"),
        ("Asia/Kathmandu", "hour", "2026-11-30T13:10:00Z", "2026-11-30T12:15Z", "2026-11-30T13:15Z"),
        # A day of 23 and one of 25 hours, and a month with one of them.
        ("Europe/Berlin", "day", "2026-03-29T12:00Z", "2026-03-28T23:00Z", "2026-03-29T22:00Z"),
        ("Europe/Berlin", "day", "2026-10-25T12:00Z", "2026-10-24T22:00Z", "2026-10-25T23:00Z"),
        ("Europe/Berlin", "month", "2026-10-30T12:00Z", "2026-09-30T22:00Z", "2026-10-31T23:00Z"),
        # The hour that the clock shows twice is two windows.
        ("Europe/Berlin", "hour", "2026-10-25T00:30Z", "2026-10-25T00:00Z", "2026-10-25T01:00Z"),
        ("Europe/Berlin", "hour", "2026-10-25T01:30Z", "2026-10-25T01:00Z", "2026-10-25T02:00Z"),
        ("Europe/Berlin", "hour", "2026-03-29T01:30Z", "2026-03-29T01:00Z", "2026-03-29T02:00Z"),
    ],
)
def test_windows_are_hours_days_and_months_of_the_configured_zone(
    sums: Callable[..., dict[str, BudgetSum]], zone: str, per: str, now: str, start: str, end: str
) -> None:
    found = sums(now, zone=zone, b={"per": per})["b"]

    assert (found.window_start, found.window_end) == (instant(start), instant(end))


def test_a_sum_has_what_lies_in_its_window_to_the_microsecond(sums: Callable[..., dict[str, BudgetSum]]) -> None:
    start, end = instant("2026-11-29T18:30Z"), instant("2026-11-30T18:30Z")
    for amount, at in (("1", start), ("2", end - timedelta(microseconds=1)), ("4", end)):
        CostFactory.create(amount=amount, at=at)
    CostFactory.create(amount="8", at=start - timedelta(microseconds=1))

    assert sums("2026-11-30T12:00Z", zone="Asia/Kolkata", b={})["b"].amount == 3


def test_each_budget_sums_its_own_type_queue_and_unit(sums: Callable[..., dict[str, BudgetSum]]) -> None:
    rows = [("a", "q", "USD", 1), ("a", "other", "USD", 2), ("b", "q", "USD", 4), ("a", "q", "EUR", 8)]
    for job_type, queue, unit, amount in rows:
        CostFactory.create(job_type=job_type, queue=queue, unit=unit, amount=amount)

    found = sums(None, a={"job_type": "a"}, q={"queue": "q"}, all={}, eur={"unit": "EUR"}, none={"queue": "empty"})

    assert {name: each.amount for name, each in found.items()} == {"a": 3, "q": 5, "all": 7, "eur": 8, "none": 0}


def test_folding_and_pruning_never_change_a_sum(sums: Callable[..., dict[str, BudgetSum]]) -> None:
    """Case C166: raw rows, minutes and quarter-hours side by side, in a zone of +5:45, equal to the sum by hand."""
    dice = random.Random(4)
    now = datetime.now(UTC)
    amounts = [
        (now - timedelta(seconds=dice.uniform(0, 40 * 86_400)), Decimal(dice.randint(-50, 9_999)) / 10_000_000)
        for _ in range(3_000)
    ]
    Cost.objects.bulk_create(
        [Cost(queue="q", job_type="t", unit="USD", amount=amount, at=at) for at, amount in amounts]
    )
    of = {per: {"per": per} for per in ("hour", "day", "month")}
    zone = "Asia/Kathmandu"

    for from_span, to_span, age in [(0, MINUTE, 3600), (MINUTE, QUARTER, 86_400), (0, MINUTE, 0), (MINUTE, QUARTER, 0)]:
        found = sums(None, zone=zone, **of)
        for per, each in found.items():
            by_hand = sum(amount for at, amount in amounts if each.window_start <= at < each.window_end)
            assert each.amount == by_hand, per
        moving.fold(
            Job.objects.run_sql,
            statement=sql.FOLD_COSTS,
            from_span=from_span,
            to_span=to_span,
            age=timedelta(seconds=age),
            limit=10_000,
        )
    assert set(Cost.objects.values_list("span_seconds", flat=True)) == {QUARTER}


def test_an_edge_parts_a_sum_exactly(sums: Callable[..., dict[str, BudgetSum]]) -> None:
    now = "2026-11-30T12:34:56Z"
    for hours in range(14):
        CostFactory.create(amount=Decimal(2) ** hours, at=instant(now) - timedelta(hours=hours))

    whole = sums(now, b={})["b"]
    rest = sums(now, b={}, edges={"b": whole.settled_at})["b"]

    assert whole.settled_at == rest.since == instant("2026-11-30T10:00Z")
    assert whole.settled + rest.amount == whole.amount == 2**13 - 1
    assert sums(now, b={}, edges={"b": instant("2026-11-01T00:00Z")})["b"].amount == whole.amount


def test_the_states_have_all_that_a_page_or_an_alert_needs(settings: Any) -> None:
    settings.TIME_ZONE = "Asia/Kolkata"
    settings.JOBQUEUE = {
        "COST_UNITS": ["USD", "EUR"],
        "BUDGETS": {
            "mail": {**ONE, "queue": "mail", "unit": "EUR", "amount": "8", "at_limit": "pause"},
            "all": {**ONE, "per": "month", "amount": "3"},
        },
    }
    CostFactory.create(amount="6.4", unit="EUR", queue="mail")
    CostFactory.create(amount="3.3")

    everything, mail = budget_states()

    assert (everything.name, everything.spent, everything.share, everything.level) == ("all", Decimal("3.3"), 1.1, 100)
    assert (everything.per, everything.queue, everything.job_type, everything.at_limit) == (
        "month",
        None,
        None,
        "alert",
    )
    assert (mail.name, mail.unit, mail.amount, mail.spent) == ("mail", "EUR", 8, Decimal("6.4"))
    assert (mail.share, mail.level, mail.at_limit, mail.queue) == (0.8, 80, "pause", "mail")
    today = timezone.now().astimezone(ZoneInfo("Asia/Kolkata")).replace(hour=0, minute=0, second=0, microsecond=0)
    assert (mail.window_start, mail.window_end) == (today, today + timedelta(days=1))


def test_without_budgets_there_is_nothing_to_ask(django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(0):
        assert budget_states() == []


def test_a_sum_reads_its_window_by_the_index(settings: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO jobqueue_cost (queue, job_type, unit, amount, at, span_seconds)"
            " SELECT 'q', 't', 'USD', 1, statement_timestamp() - n * interval '15 minutes', 0"
            "  FROM generate_series(1, 20000) AS n"
        )
        cursor.execute("ANALYZE jobqueue_cost")
        cursor.execute("SET LOCAL plan_cache_mode = force_generic_plan")
        (plan,) = explained(cursor)

    assert "jobqueue_cost_at" in plan
    assert "Seq Scan on jobqueue_cost" not in plan


def explained(cursor: Any) -> list[str]:
    """Return the plan of the sums of one budget of a day."""
    lines: list[str] = []

    def run(statement: str, params: Any) -> list[tuple[Any, ...]]:
        cursor.execute(f"EXPLAIN {statement}", params)
        lines.append("\n".join(row[0] for row in cursor.fetchall()))
        return []

    budget_sums(run, list(budgets({"b": ONE}).values()))
    return lines
