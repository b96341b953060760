"""gauge() and count(): what they take, what they refuse at the call, and where nobody would carry it."""

from decimal import Decimal
from typing import Any

import pytest

import jobqueue
from jobqueue import count, gauge
from jobqueue.exceptions import JobQueueError
from jobqueue.gauges import Measure
from jobqueue.testing import measured


def test_a_gauge_is_a_name_a_number_and_labels() -> None:
    with measured() as told:
        gauge("ports", 27, {"zone": "eu", "provider": "acme"})
        gauge("share", Decimal("0.5"))

    assert told == [
        Measure("gauge", "ports", (("provider", "acme"), ("zone", "eu")), 27.0),
        Measure("gauge", "share", (), 0.5),
    ]


def test_a_count_is_one_unless_it_says_more() -> None:
    with measured() as told:
        count("sessions", end_reason="block")
        count("bytes", 1_000, name="any label may be called name")
        count("bytes", n=2)

    assert told == [
        Measure("count", "sessions", (("end_reason", "block"),), 1.0),
        Measure("count", "bytes", (("name", "any label may be called name"),), 1_000.0),
        Measure("count", "bytes", (), 2.0),
    ]


def test_label_values_are_text_that_can_be_stored() -> None:
    with measured() as told:
        gauge("x", 1, {"port": 8080, "tls": True, "odd": "a\x00\ud800", "long": "y" * 1_000})

    labels = dict(told[0].labels)
    assert (labels["port"], labels["tls"], labels["odd"]) == ("8080", "True", "a\\x00\\ud800")
    assert len(labels["long"].encode()) <= 128


@pytest.mark.parametrize("name", ["", "9lives", "a-b", "a b", "a.b", "ä", "x" * 64, "a\n", None, 7])
def test_a_name_that_breaks_the_rule_is_refused_at_the_call(name: Any) -> None:
    with measured() as told:
        with pytest.raises(ValueError, match="1 to 63"):
            gauge(name, 1)
        with pytest.raises(ValueError, match="a label is 1 to 63"):
            gauge("x", 1, {name: "v"})

    assert told == []


@pytest.mark.parametrize("value", [float("nan"), float("inf"), Decimal("NaN"), Decimal("sNaN"), 10**400])
def test_a_value_that_is_no_finite_number_is_refused(value: Any) -> None:
    with measured() as told, pytest.raises(ValueError, match="value must"):
        gauge("x", value)

    assert told == []


@pytest.mark.parametrize("value", ["1", None, True, [], 1j])
def test_a_value_that_is_no_number_at_all_is_refused(value: Any) -> None:
    with measured(), pytest.raises(TypeError, match="a value is a number"):
        count("x", value)


@pytest.mark.parametrize("n", [-1, -0.001, 1e16])
def test_a_counter_only_grows(n: float) -> None:
    with measured(), pytest.raises(ValueError, match="a count is from 0"):
        count("x", n)


def test_nine_labels_are_too_many() -> None:
    labels = {f"l{number}": "v" for number in range(9)}
    with measured() as told:
        with pytest.raises(ValueError, match="at most 8 labels"):
            gauge("x", 1, labels)
        gauge("x", 1, dict(list(labels.items())[:8]))

    assert len(told) == 1


@pytest.mark.parametrize("call", [lambda: gauge("ports", 1), lambda: count("ports")])
def test_outside_of_a_worker_nobody_carries_it_and_that_is_said(call: Any) -> None:
    with pytest.raises(JobQueueError, match="only handlers and receivers of worker_heartbeat"):
        call()


def test_what_breaks_a_rule_is_refused_there_too() -> None:
    with pytest.raises(ValueError, match="begins with no digit"):
        gauge("9", 1)


def test_the_functions_are_names_of_the_package() -> None:
    assert {"gauge", "count"} <= set(jobqueue.__all__)
