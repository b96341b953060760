"""What a handler may report as costs, what of its result is one, and how amounts add up: without any worker."""

import decimal
import logging
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest
from pytest_django import Settings

from jobqueue.children import costs
from jobqueue.children.context import Context
from jobqueue.children.costs import cost_line, costs_in_result, is_chargeable, summed
from jobqueue.children.protocol import Work
from jobqueue.managers import CostLine, Done, Ending
from jobqueue.outcomes import Outcome

Warned = Callable[[], list[str]]

LARGEST = Decimal("999999999999.99999999")


class Reports:
    """Stands where the supervisor does: keeps what is reported."""

    def __init__(self) -> None:
        self.lines: list[CostLine] = []

    def cost(self, _work: Work, line: CostLine) -> None:
        self.lines.append(line)

    def progress(self, _work: Work, _value: dict[str, Any]) -> None:
        raise AssertionError

    def cancelled(self, _work: Work) -> bool:
        return False


@pytest.fixture
def reports() -> Reports:
    return Reports()


@pytest.fixture
def context(reports: Reports) -> Context:
    return Context(Work(1, 1, "probe.returns", "default", 1, 3, 2, "{}"), "worker-1", reports)


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], list[str]]]:
    """Return the function that gives what was warned of."""
    costs._warned.clear()
    with caplog.at_level(logging.WARNING, "jobqueue.run"):
        yield lambda: caplog.messages
    costs._warned.clear()


def allow_refunds(settings: Settings, amount: str) -> None:
    settings.JOBQUEUE = {**settings.JOBQUEUE, "COST_REFUND_MAX": amount}


def test_amounts_of_one_component_and_unit_add_up_and_each_is_sent_at_once(context: Context, reports: Reports) -> None:
    context.add_cost("llm", Decimal("0.1"))
    context.add_cost("ocr", 2)
    context.add_cost("llm", Decimal("0.2"))

    assert context.costs == (CostLine("llm", "USD", Decimal("0.3")), CostLine("ocr", "USD", Decimal(2)))
    assert [line.amount for line in reports.lines] == [Decimal("0.1"), Decimal(2), Decimal("0.2")]
    received: tuple[CostLine, ...] = ()
    for line in reports.lines:
        received = summed(received, line)
    assert received == context.costs


@pytest.mark.parametrize(
    ("amount", "error", "said"),
    [
        (0.1, TypeError, "not float 0.1: a float's cents are not exact"),
        (True, TypeError, "not bool"),
        ("0.1", TypeError, "not str"),
        (None, TypeError, "not NoneType"),
        (Decimal("NaN"), ValueError, "not NaN"),
        (Decimal("sNaN"), ValueError, "not sNaN"),
        (Decimal("Infinity"), ValueError, "not Infinity"),
        (Decimal("-Infinity"), ValueError, "not -Infinity"),
        (10**12, ValueError, "to below 10^12"),
        (Decimal(10**10_000), ValueError, "to below 10^12, not 1.000000e+10000"),
        (LARGEST + Decimal("0.000000005"), ValueError, "to below 10^12"),
        (Decimal("-0.00000001"), ValueError, "a refund may be JOBQUEUE['COST_REFUND_MAX'] = 0 at most"),
        (-(10**12), ValueError, "from 0 to below"),
    ],
)
def test_an_amount_that_cannot_be_right_is_refused_at_the_call(
    amount: Any, error: type[Exception], said: str, context: Context, reports: Reports
) -> None:
    """C124: rejected where it is reported."""
    with pytest.raises(error, match=re.escape(said)):
        context.add_cost("llm", amount)

    assert (context.costs, reports.lines) == ((), [])


@pytest.mark.parametrize("component", ["", "x" * 64, "ü" * 32, None, 7, b"llm"])
def test_a_component_is_a_short_text(component: Any) -> None:
    with pytest.raises(ValueError, match="a text of 1 to 63 bytes"):
        cost_line(component, 1, "USD")


def test_a_unit_is_one_of_the_settings() -> None:
    with pytest.raises(ValueError, match="'EUR' is not one of JOBQUEUE"):
        cost_line("llm", 1, "EUR")


def test_a_refund_is_taken_up_to_the_setting(settings: Settings, context: Context) -> None:
    allow_refunds(settings, "0.50")

    context.add_cost("llm", Decimal("-0.50"))

    assert context.costs[0].amount == Decimal("-0.5")
    with pytest.raises(ValueError, match=r"= 0\.50 at most"):
        context.add_cost("llm", Decimal("-0.51"))


def test_the_sum_of_an_attempt_fits_into_its_column(settings: Settings, context: Context, reports: Reports) -> None:
    """By component, and over all of them: with refunds one component may be more than the sum of all."""
    allow_refunds(settings, str(10**12 - 1))
    context.add_cost("llm", LARGEST)
    for component in ("llm", "ocr"):
        with pytest.raises(ValueError, match=r"below 10\^12 in all"):
            context.add_cost(component, Decimal("0.00000001"))
    context.add_cost("ocr", -1)
    with pytest.raises(ValueError, match=r"below 10\^12 in all"):
        context.add_cost("llm", Decimal("0.5"))

    context.add_cost("ocr", Decimal("0.5"))

    assert context.costs == (CostLine("llm", "USD", LARGEST), CostLine("ocr", "USD", Decimal("-0.5")))
    assert len(reports.lines) == 3


def test_an_attempt_has_a_hundred_components_at_most(context: Context) -> None:
    for number in range(100):
        context.add_cost(f"c{number}", 1)
    context.add_cost("c7", 1)

    with pytest.raises(ValueError, match="have 100 components at most: 'c100' would be one more"):
        context.add_cost("c100", 1)


def test_a_handlers_own_decimal_context_rounds_nothing(context: Context) -> None:
    with decimal.localcontext(decimal.Context(prec=3, rounding=decimal.ROUND_FLOOR)):
        context.add_cost("llm", Decimal("1234.56789012"))
        context.add_cost("llm", Decimal("0.000000005"))
        found = context.costs

    assert found == (CostLine("llm", "USD", Decimal("1234.56789013")),)


def in_result(cost: Any) -> list[tuple[str, Decimal]]:
    lines = costs_in_result({"metrics": {"cost": cost}}, "probe.returns")
    return [(line.component, line.amount) for line in lines]


@pytest.mark.parametrize(
    ("cost", "found"),
    [
        ({"total_usd": 2}, [("result", "2")]),
        ({"total_usd": "0.10"}, [("result", "0.1")]),
        ({"total_usd": 0.1}, [("result", "0.1")]),
        ({"total_usd": 3, "components": {"llm": 1, "ocr": "0.5"}}, [("llm", "1"), ("ocr", "0.5"), ("result", "1.5")]),
        ({"total_usd": 0.3, "components": {"a": 0.1, "b": 0.2}}, [("a", "0.1"), ("b", "0.2")]),
        ({"total_usd": 1, "components": {}}, [("result", "1")]),
        ({"total_usd": 1, "components": None}, [("result", "1")]),
        # Rounded one by one they are more than the total, by a place: it comes off the largest.
        (
            {"total_usd": 2, "components": {"a": 0.666666666666, "b": 0.666666666667, "c": 0.666666666667}},
            [("a", "0.66666666"), ("b", "0.66666667"), ("c", "0.66666667")],
        ),
        ({"total_usd": 1, "components": {"a": 0.333333333333} | {f"b{n}": 0.333333333333 for n in range(2)}},
         [("a", "0.33333333"), ("b0", "0.33333333"), ("b1", "0.33333333"), ("result", "0.00000001")]),
    ],
)  # fmt: skip
def test_what_a_result_says_of_its_costs(cost: Any, found: list[tuple[str, str]], warnings: Warned) -> None:
    assert in_result(cost) == [(component, Decimal(amount)) for component, amount in found]
    assert warnings() == []


NO_TOTALS = [None, "much", float("nan"), -1, True, 10**12, {"llm": 1}]


@pytest.mark.parametrize("cost", [{}, None, 7, [], *({"total_usd": value} for value in NO_TOTALS)])
def test_a_total_that_is_no_amount_is_no_cost(cost: Any) -> None:
    assert in_result(cost) == []


@pytest.mark.parametrize(
    ("components", "said"),
    [
        ({"a": 0.7, "b": 0.4}, "the components are 0.1"),
        ({"a": "much"}, "'much' is no amount"),
        ({"a": True}, "not bool"),
        ({"a": -0.1}, "a refund may be"),
        ({"": 1}, "a text of 1 to 63 bytes"),
        ([0.1], "components is a list, not an object"),
        ({f"c{number}": 0 for number in range(100)}, "there are 100 components, 99 may be"),
    ],
)
def test_wrong_components_leave_the_total_and_are_told_of_once(components: Any, said: str, warnings: Warned) -> None:
    for _ in range(3):
        assert in_result({"total_usd": 1, "components": components}) == [("result", Decimal(1))]

    (warning,) = warnings()
    assert said in warning
    assert "type=probe.returns only the total is kept" in warning


def test_another_path_may_be_named(settings: Settings) -> None:
    settings.JOBQUEUE = {**settings.JOBQUEUE, "COST_PATH": "usage", "COST_UNITS": ("EUR", "USD")}

    assert costs_in_result({"usage": 2, "components": {"a": 1}}, "t") == [
        CostLine("a", "EUR", Decimal(1)),
        CostLine("result", "EUR", Decimal(1)),
    ]


def test_costs_of_a_result_that_do_not_fit_to_what_was_reported_are_left_out(
    context: Context, warnings: Warned
) -> None:
    context.add_cost("llm", LARGEST)

    context.add_result_cost({"metrics": {"cost": {"total_usd": 3, "components": {"llm": 1, "ocr": 1}}}})

    assert context.costs == (CostLine("llm", "USD", LARGEST),)
    (warning,) = warnings()
    assert "left out: 3.00000000 and what was reported before" in warning


def test_only_attempts_that_called_their_handler_and_reported_nothing_are_priced() -> None:
    assert is_chargeable(Done(1, 1))
    assert is_chargeable(Ending(1, 1, Outcome.FAILED))
    assert not is_chargeable(Done(1, 1, costs=[CostLine("gift", "USD", Decimal(0))]))
    assert not is_chargeable(Ending(1, 1, Outcome.INPUT_LIMIT))
    assert not is_chargeable(Ending(1, 1, Outcome.UNKNOWN_TYPE))
    assert not is_chargeable(Ending(1, 1, Outcome.FAILED, error_class="jobqueue.exceptions.HandlerImportError"))
