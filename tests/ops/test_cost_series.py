"""Costs by part, by hour, day and month of a zone: exact Decimals, whatever is folded or pruned."""

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest
from django.db import connection

from jobqueue import sql
from jobqueue.maintenance.fold import MINUTE, QUARTER
from jobqueue.managers import moving
from jobqueue.models import Cost, Job
from jobqueue.ops.costs import CostGroup, CostPoint, Period, cost_series, costs_by
from jobqueue.ops.periods import beginnings
from tests.factories import CostFactory, JobFactory

pytestmark = pytest.mark.django_db

KOLKATA = ZoneInfo("Asia/Kolkata")
BERLIN = ZoneInfo("Europe/Berlin")
MARCH = datetime(2026, 3, 1, tzinfo=UTC)


def spend(amount: str, at: datetime, **fields: str) -> None:
    CostFactory.create(amount=amount, at=at, **fields)


def fold_all() -> None:
    for from_span, to_span in ((0, MINUTE), (MINUTE, QUARTER)):
        moving.fold(
            Job.objects.run_sql,
            statement=sql.FOLD_COSTS,
            from_span=from_span,
            to_span=to_span,
            age=timedelta(0),
            limit=10_000,
        )
    assert not Cost.objects.filter(span_seconds__lt=QUARTER).exists()


def test_costs_are_summed_by_any_part_and_never_over_units() -> None:
    spend("1", MARCH, job_type="a", queue="x", component="cpu", owner="lena")
    spend("2", MARCH, job_type="b", queue="x", component="llm", owner="omar")
    spend("4", MARCH, job_type="b", queue="y", component="llm", owner="lena")
    spend("8", MARCH, job_type="b", queue="y", component="llm", owner="lena", unit="tokens")

    assert costs_by("owner", since=MARCH) == [
        CostGroup(("lena",), "USD", Decimal(5)),
        CostGroup(("omar",), "USD", Decimal(2)),
        CostGroup(("lena",), "tokens", Decimal(8)),
    ]
    assert costs_by("component", "queue", since=MARCH, unit="USD") == [
        CostGroup(("llm", "y"), "USD", Decimal(4)),
        CostGroup(("llm", "x"), "USD", Decimal(2)),
        CostGroup(("cpu", "x"), "USD", Decimal(1)),
    ]
    assert costs_by(since=MARCH, job_type="b") == [
        CostGroup((), "USD", Decimal(6)),
        CostGroup((), "tokens", Decimal(8)),
    ]


def test_a_window_of_whole_quarters_takes_its_rows_and_no_others() -> None:
    for minutes, amount in ((-15, "1"), (0, "2"), (45, "4"), (60, "8")):
        spend(amount, MARCH + timedelta(minutes=minutes))
    whole = [CostGroup((), "USD", Decimal(6))]

    assert costs_by(since=MARCH, until=MARCH + timedelta(hours=1)) == whole
    fold_all()
    assert costs_by(since=MARCH, until=MARCH + timedelta(hours=1)) == whole


@pytest.mark.parametrize("wrong", [{"per": "week"}, {"per": "day", "outcome": "x"}])
def test_another_period_or_part_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="costs are by "):
        cost_series(since=MARCH, **wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="costs are by "):
        costs_by("unit", since=MARCH)  # type: ignore[arg-type]


def test_a_day_in_kolkata_begins_half_past_six_in_the_evening_utc() -> None:
    """Case C166: its days and its months are of whole quarter-hours."""
    spend("1", datetime(2026, 3, 31, 18, 29, 59, tzinfo=UTC))
    spend("2", datetime(2026, 3, 31, 18, 30, tzinfo=UTC))
    spend("4", datetime(2026, 4, 1, 18, 15, tzinfo=UTC))
    spend("8", datetime(2026, 4, 1, 18, 45, tzinfo=UTC))
    days = [
        CostPoint(datetime(2026, 3, 31, tzinfo=KOLKATA), (), "USD", Decimal(1)),
        CostPoint(datetime(2026, 4, 1, tzinfo=KOLKATA), (), "USD", Decimal(6)),
        CostPoint(datetime(2026, 4, 2, tzinfo=KOLKATA), (), "USD", Decimal(8)),
    ]
    months = [
        CostPoint(datetime(2026, 3, 1, tzinfo=KOLKATA), (), "USD", Decimal(1)),
        CostPoint(datetime(2026, 4, 1, tzinfo=KOLKATA), (), "USD", Decimal(14)),
    ]

    for _ in range(2):  # as inserted, and folded into quarter-hours
        assert cost_series(since=MARCH, per="day", zone=KOLKATA) == days
        assert cost_series(since=MARCH, per="month", zone="Asia/Kolkata") == months
        fold_all()


def test_the_zone_is_that_of_the_settings_unless_another_is_named(settings: object) -> None:
    spend("1", datetime(2026, 3, 31, 18, 30, tzinfo=UTC))
    settings.TIME_ZONE = "Asia/Kolkata"  # type: ignore[attr-defined]

    (point,) = cost_series(since=MARCH, per="day")

    assert point.at.isoformat() == "2026-04-01T00:00:00+05:30"
    assert cost_series(since=MARCH, per="day", zone=UTC)[0].at == datetime(2026, 3, 31, tzinfo=UTC)


@pytest.mark.parametrize("zone", [timezone(timedelta(hours=5, minutes=30)), timezone(timedelta(hours=-3)), UTC])
def test_a_fixed_offset_is_east_of_utc_where_it_is_positive(zone: timezone) -> None:
    """The server reads the text "UTC+05:30" as west of it."""
    spend("1", at := datetime(2026, 3, 31, 20, 40, tzinfo=UTC))
    hour = at.astimezone(zone).replace(minute=0)
    begins: dict[Period, datetime] = {"hour": hour, "day": hour.replace(hour=0), "month": hour.replace(day=1, hour=0)}

    assert {per: cost_series(since=MARCH, per=per, zone=zone)[0].at for per in begins} == begins


def test_hours_begin_with_the_hour_on_the_clock_there() -> None:
    spend("1", datetime(2026, 3, 3, 10, 29, tzinfo=UTC))
    spend("2", datetime(2026, 3, 3, 10, 30, tzinfo=UTC))

    points = cost_series("job_type", since=MARCH, per="hour", zone=KOLKATA)

    assert [(point.at.strftime("%H:%M"), point.key, point.amount) for point in points] == [
        ("15:00", ("probe.ok",), 1),
        ("16:00", ("probe.ok",), 2),
    ]


def test_the_hour_that_comes_twice_in_autumn_is_two_hours_and_the_day_has_twenty_five() -> None:
    first = datetime(2026, 10, 24, 22, tzinfo=UTC)  # midnight in Berlin
    for hour in range(25):
        spend("1", first + timedelta(hours=hour, minutes=30))
    spend("1", first + timedelta(hours=25))

    hours = cost_series(since=first, per="hour", zone=BERLIN)
    days = cost_series(since=first, per="day", zone=BERLIN)

    assert [point.at.astimezone(UTC) for point in hours] == [first + timedelta(hours=hour) for hour in range(26)]
    assert [point.at.strftime("%H") for point in hours[1:5]] == ["01", "02", "02", "03"]
    assert [(point.at.day, point.amount) for point in days] == [(25, 25), (26, 1)]


def test_the_day_whose_midnight_comes_twice_begins_with_the_first_one() -> None:
    """On the Azores the clocks are put back from one to midnight; charts go by periods.beginnings(), with the same."""
    azores, first = ZoneInfo("Atlantic/Azores"), datetime(2026, 10, 25, 0, 0, tzinfo=UTC)
    for hours in (-1, 0, 1, 24, 25):
        spend("1", first + timedelta(hours=hours))

    points = cost_series(since=first - timedelta(hours=1), per="day", zone=azores)

    begins = beginnings(first - timedelta(hours=1), first + timedelta(hours=26), timedelta(days=1), zone=azores)
    # In UTC: two times of one zone are equal where their clocks are.
    assert [point.at.astimezone(UTC) for point in points] == [begin.astimezone(UTC) for begin in begins]
    assert (begins[1].astimezone(UTC), [point.amount for point in points]) == (first, [1, 3, 1])


def test_every_amount_is_in_exactly_one_period_whatever_is_folded_and_pruned() -> None:
    """Case C166, C124: equal to sums made by hand from single rows, before and after, to the last digit."""
    amounts = [Decimal(number * number) / 7 for number in range(400)]
    rows = [
        (MARCH + timedelta(minutes=37 * number), amount.quantize(Decimal("1E-8")))
        for number, amount in enumerate(amounts)
    ]
    Cost.objects.bulk_create([Cost(queue="q", job_type="t", unit="USD", amount=amount, at=at) for at, amount in rows])
    by_day: dict[str, Decimal] = {}
    for at, amount in rows:
        day = at.astimezone(KOLKATA).date().isoformat()
        by_day[day] = by_day.get(day, Decimal(0)) + amount
    JobFactory.create_batch(3)

    def found() -> dict[str, Decimal]:
        points = cost_series(since=MARCH, per="day", zone=KOLKATA)
        return {point.at.date().isoformat(): point.amount for point in points}

    assert found() == by_day
    fold_all()
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM jobqueue_job")
    assert found() == by_day
