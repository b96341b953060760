"""Bar charts: every amount has its place within the frame."""

from decimal import Decimal

import pytest

from jobqueue.admin import charts
from jobqueue.admin.charts import Value


def test_bars_are_as_high_as_their_amounts_and_hang_below_zero_for_refunds() -> None:
    values = [Value("a", "", Decimal(5)), Value("b", "", Decimal(10)), Value("c", "", Decimal(-5))]

    chart = charts.bar_chart("x", title="", description="", values=values)

    five, ten, refund = chart.bars
    assert float(ten.height) == pytest.approx(2 * float(five.height), abs=0.2)
    (zero,) = (float(level.at) for level in chart.levels if level.zero)
    assert float(five.y) + float(five.height) == pytest.approx(zero, abs=0.2)
    assert float(refund.y) == pytest.approx(zero, abs=0.2)
    assert {level.text for level in chart.levels} == {"-5", "-2.5", "0", "5", "10"}


@pytest.mark.parametrize("amounts", [[], ["0"], ["0", "0"], ["-1"], ["0.00000001"], ["99999999999999999999.5"]])
def test_a_chart_of_anything_fits_its_frame(amounts: list[str]) -> None:
    values = [Value("", "", Decimal(amount)) for amount in amounts]

    chart = charts.bar_chart("x", title="", description="", values=values)

    for bar in chart.bars:
        assert 0 <= float(bar.y) <= float(bar.y) + float(bar.height) <= float(chart.height)


def test_something_small_beside_something_large_can_be_seen() -> None:
    values = [Value("", "", Decimal(1)), Value("", "", Decimal(10**9)), Value("", "", Decimal(0))]

    bars = charts.bar_chart("x", title="", description="", values=values).bars

    assert (float(bars[0].height), float(bars[2].height)) == (charts.LEAST, 0)


def test_the_line_of_nothing_is_zero() -> None:
    chart = charts.bar_chart("x", title="", description="", values=[Value("", "", Decimal(3))])

    assert [level.text for level in chart.levels] == ["0", "2.5", "5"]
