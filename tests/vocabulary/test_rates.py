"""The price list: what is charged for CPU time, memory and calls, and which lists are refused."""

from decimal import Decimal
from typing import Any

import pytest
from pytest_django import Settings

from jobqueue.conf import build, problems
from jobqueue.exceptions import ConfigurationError
from jobqueue.rates import priced, rate_of
from jobqueue.rules import RULES

USED = {"run_seconds": 2.5, "cpu_seconds": 0.123456, "memory_bytes": 400_000_000}


def use(settings: Settings, **values: Any) -> None:
    settings.JOBQUEUE = {**settings.JOBQUEUE, **values}


def test_a_rate_prices_each_part_exactly_and_once_rounded(settings: Settings) -> None:
    use(settings, RATES={"docs.index": {"cpu_second": "0.00001", "gb_second": "0.000002", "call": "0.001"}})

    assert priced("docs.index", **USED) == [
        ("cpu", "USD", Decimal("0.00000123")),  # 0.0000012345…
        ("memory", "USD", Decimal("0.00000200")),  # 0.4 GB for 2.5 s
        ("call", "USD", Decimal("0.001")),
    ]


def test_half_of_the_last_place_is_rounded_up(settings: Settings) -> None:
    use(settings, RATES={"*": {"cpu_second": "0.00000001"}})

    assert priced("any", run_seconds=1, cpu_seconds=0.5, memory_bytes=None) == [("cpu", "USD", Decimal("0.00000001"))]


def test_what_was_not_measured_or_comes_to_nothing_is_no_line(settings: Settings) -> None:
    use(settings, RATES={"*": {"cpu_second": "1", "gb_second": "1", "call": 0}})

    assert priced("any", run_seconds=1.0, cpu_seconds=None, memory_bytes=None) == []
    assert priced("any", run_seconds=1.0, cpu_seconds=-0.1, memory_bytes=0) == []


def test_a_figure_is_taken_at_the_digits_it_is_printed_with(settings: Settings) -> None:
    """0.1 is a tenth, not the nearest number that a float can hold."""
    use(settings, RATES={"*": {"cpu_second": "100000"}})

    assert priced("any", run_seconds=1.0, cpu_seconds=0.1, memory_bytes=None) == [("cpu", "USD", Decimal(10_000))]


def test_no_price_is_above_what_a_cost_may_be(settings: Settings) -> None:
    use(settings, RATES={"*": {"gb_second": "999999"}})

    ((_, _, amount),) = priced("any", run_seconds=1e6, cpu_seconds=None, memory_bytes=10**13)

    assert amount == Decimal("999999999999.99999999")


def test_a_type_has_its_own_rate_or_that_of_all(settings: Settings) -> None:
    use(settings, COST_UNITS=("EUR", "USD"), RATES={"a": {"call": 1, "unit": "USD"}, "*": {"call": "2"}})

    assert priced("a", **USED) == [("call", "USD", Decimal(1))]
    assert priced("b", **USED) == [("call", "EUR", Decimal(2))]


def test_the_rate_of_all_is_not_that_of_the_packages_own_jobs(settings: Settings) -> None:
    use(settings, RATES={"jobqueue.webhook": {"call": "3"}, "*": {"call": "2"}})

    assert priced("jobqueue.notify", **USED) == []
    assert priced("jobqueue.webhook", **USED) == [("call", "USD", Decimal(3))]


def test_without_a_rate_nothing_is_charged(settings: Settings) -> None:
    assert rate_of("a") is None
    use(settings, RATES={"a": {"call": "1"}})

    assert (rate_of("b"), priced("b", **USED)) == (None, [])


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ([], "must be a dict from job types to rates, not list"),
        ({"a": "0.1"}, "a: a rate is a dict with cpu_second, gb_second, call"),
        ({"a": {}}, "a: a rate is a dict with"),
        ({"a": {"unit": "USD"}}, "a: a rate is a dict with"),
        ({"a": {"second": "1"}}, "a: a rate is a dict with"),
        ({"a": {"call": 0.1}}, "a: call must be from 0 to below 1000000, as text, a Decimal or an int, not float"),
        ({"a": {"call": True}}, "a: call must be .* not bool"),
        ({"a": {"call": "-1"}}, "a: call must be from 0 to below 1000000"),
        ({"a": {"call": "NaN"}}, "a: call must be from 0"),
        ({"a": {"call": "Infinity"}}, "a: call must be from 0"),
        ({"a": {"cpu_second": "1000000"}}, "a: cpu_second must be from 0"),
        ({"a": {"gb_second": "much"}}, "a: gb_second must be .*'much' is no amount"),
        ({"a": {"call": "1", "unit": ""}}, "a: unit must be a string, not empty"),
        ({"not a name": {"call": "1"}}, "job type"),
    ],
)
def test_a_list_that_cannot_be_right_is_refused(value: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        RULES["RATES"](value)


def test_a_rate_in_a_unit_that_costs_do_not_have_is_a_contradiction() -> None:
    wrong = build({"RATES": {"a": {"call": "1", "unit": "EUR"}}})
    right = build({"RATES": {"a": {"call": "1", "unit": "EUR"}}, "COST_UNITS": ("USD", "EUR")})

    (problem,) = problems(wrong)
    assert problem.fatal
    assert problem.text == "RATES['a'] is in 'EUR', which COST_UNITS ('USD',) does not name"
    assert problems(right) == []


@pytest.mark.parametrize("value", [0, "0", "0.5", Decimal("1E3"), 999_999_999_999])
def test_a_refund_is_an_exact_amount(value: Any) -> None:
    kept = RULES["COST_REFUND_MAX"](value)

    assert kept == Decimal(value)
    assert isinstance(kept, Decimal)


@pytest.mark.parametrize("value", [0.5, None, True, "-1", 10**12, "NaN", "x", [1]])
def test_another_refund_is_refused(value: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"COST_REFUND_MAX.*must be from 0 to below 1000000000000"):
        build({"COST_REFUND_MAX": value})
