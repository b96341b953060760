"""What the supervisor keeps of gauges and counters between two heartbeats."""

import json
from typing import Any

import pytest

from jobqueue.worker import telemetry as telemetry_module
from jobqueue.worker.telemetry import FORGET_SECONDS, MOST_SERIES, Telemetry


class Clock:
    """Monotonic time that only the test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(telemetry_module, "time", clock)
    return clock


@pytest.fixture
def telemetry(clock: Clock) -> Telemetry:
    return Telemetry()


def gauges(telemetry: Telemetry) -> list[Any]:
    return list(json.loads(telemetry.load().gauges))


def test_the_last_value_of_a_series_wins_and_says_how_old_it_is(telemetry: Telemetry, clock: Clock) -> None:
    telemetry.take(["gauge", "ports", [["zone", "eu"]], 5.0])
    telemetry.take(["gauge", "ports", [["zone", "eu"]], 7.0])
    telemetry.take(["gauge", "ports", [["zone", "us"]], 9.0])
    clock.now += 2.5

    assert gauges(telemetry) == [
        {"name": "ports", "labels": {"zone": "eu"}, "value": 7.0, "at_seconds_ago": 2.5},
        {"name": "ports", "labels": {"zone": "us"}, "value": 9.0, "at_seconds_ago": 2.5},
    ]


def test_a_gauge_that_nobody_sets_for_ten_minutes_drops_out(telemetry: Telemetry, clock: Clock) -> None:
    telemetry.take(["gauge", "old", [], 1.0])
    clock.now += FORGET_SECONDS / 2
    telemetry.take(["gauge", "young", [], 2.0])
    assert len(gauges(telemetry)) == 2

    clock.now += FORGET_SECONDS / 2 + 1

    assert [found["name"] for found in gauges(telemetry)] == ["young"]


def test_a_batch_is_the_same_until_it_is_written(telemetry: Telemetry) -> None:
    """Case of a beat that failed: what comes meanwhile waits for the next batch."""
    telemetry.take(["count", "n", [], 1.0])
    telemetry.take(["count", "n", [], 2.0])
    first = telemetry.load()
    telemetry.take(["count", "n", [], 4.0])

    again = telemetry.load()
    assert (
        (again.batch, again.counts)
        == (first.batch, first.counts)
        == (1, '[{"name": "n", "labels": {}, "amount": 3.0}]')
    )
    assert telemetry.owes_counts
    telemetry.written(again)

    second = telemetry.load()
    assert (second.batch, json.loads(second.counts)) == (2, [{"name": "n", "labels": {}, "amount": 4.0}])
    telemetry.written(second)
    assert not telemetry.owes_counts


def test_a_beat_without_counts_uses_up_no_number(telemetry: Telemetry) -> None:
    """A number that stands in the row is one whose counts are written: the next counts would be taken for them."""
    empty = telemetry.load()
    telemetry.written(empty)
    telemetry.take(["count", "n", [], 1.0])

    assert (empty.batch, empty.counts) == (0, "[]")
    assert telemetry.load().batch == 1


def test_a_worker_keeps_so_many_series_and_tells_once_what_it_refuses(
    telemetry: Telemetry, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(MOST_SERIES + 50):
        telemetry.take(["gauge", "by_user", [["user", str(number)]], 1.0])
    telemetry.take(["count", "by_user", [], 1.0])
    telemetry.take(["gauge", "by_user", [["user", "0"]], 2.0])

    found = gauges(telemetry)
    assert len(found) == MOST_SERIES
    assert found[0]["value"] == 2.0, "known ones go on"
    assert telemetry.load().counts == "[]"
    assert caplog.text.count("gauge refused: a worker keeps 200 series") == 1

    clock.now += FORGET_SECONDS + 1
    telemetry.take(["count", "later", [], 1.0])
    assert telemetry.load().batch == 1, "there is room again"


def test_what_was_counted_is_not_forgotten_before_it_is_written(telemetry: Telemetry, clock: Clock) -> None:
    telemetry.take(["count", "first", [], 1.0])
    sent = telemetry.load()
    telemetry.take(["count", "rare", [], 1.0])
    clock.now += 10 * FORGET_SECONDS  # an outage

    assert telemetry.load().counts == sent.counts
    telemetry.written(sent)

    assert json.loads(telemetry.load().counts) == [{"name": "rare", "labels": {}, "amount": 1.0}]
