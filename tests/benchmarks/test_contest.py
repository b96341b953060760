"""Rows that compare with peers: the best of them counts, and whoever fails is named and never passed over."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

import psycopg
import pytest

from benchmarks import sampling
from benchmarks.failures import in_a_line
from benchmarks.measures import contest
from benchmarks.measures.contest import Contest, Row, Side, figure, hold
from benchmarks.peers.errors import LostOrDoubled, PeerFailed
from benchmarks.plan import Plan
from benchmarks.sampling import Samples

OURS, SHORT, QUICK, SLOW = Side("jobqueue"), Side("jobqueue", label="short"), Side("awa", tuned=True), Side("huey")
ROW = Row(row="drain-1", work="drain", value="jobs/s", bar=1.3)
PLAN = Plan(repeats=3, retakes=0, patience=0)


def made(failed: dict[str, str] | None = None, **rates: float) -> Contest:
    values = {f"{name.replace('_', ' ')}: jobs/s": [rate] * 3 for name, rate in rates.items()}
    return Contest(Samples(values, 0.0), ["jobs/s"], failed or {})


def test_the_value_is_ours_by_the_best_peers() -> None:
    found = figure(made(jobqueue=300, awa_tuned=200, huey=100), ROW, [OURS], [SLOW, QUICK])

    assert found.value == 1.5
    assert found.holds
    assert found.limit.startswith("awa tuned 200/s")


def test_of_two_sides_of_ours_the_slower_counts() -> None:
    found = figure(made(jobqueue=300, jobqueue_short=250, awa_tuned=200), ROW, [OURS, SHORT], [QUICK])

    assert found.value == 1.25
    assert not found.holds


def test_of_times_the_longer_of_ours_is_compared_with_the_shortest() -> None:
    row = Row(row="latency-p50", work="wait", value="jobs/s", bar=1.5, better="lower")

    found = figure(made(jobqueue=2, jobqueue_short=3, awa_tuned=2, huey=9), row, [OURS, SHORT], [SLOW, QUICK])

    assert found.value == 1.5
    assert found.holds


def test_a_row_does_not_hold_without_a_peer_that_might_have_been_the_best() -> None:
    contest = made({"awa tuned": "not installed"}, jobqueue=300, awa_tuned=math.nan, huey=100)

    found = figure(contest, ROW, [OURS], [QUICK, SLOW])

    assert math.isnan(found.value)
    assert not found.holds
    assert found.notes[-2:] == ["awa tuned: not installed", "against those that did not fail: 3.00 x"]
    assert found.samples.keys() == {"jobqueue: jobs/s", "huey: jobs/s"}


def test_a_side_that_failed_in_a_sample_that_is_not_kept_has_no_figure_either() -> None:
    contest = made({"jobqueue": "lost/doubled: 1 job"}, jobqueue=300, huey=100)

    found = figure(contest, ROW, [OURS], [SLOW])

    assert not found.holds
    assert "jobqueue: lost/doubled: 1 job" in found.notes


def test_a_row_does_not_hold_where_all_peers_failed() -> None:
    found = figure(made({"huey": "away"}, jobqueue=300, huey=math.nan), ROW, [OURS], [SLOW])

    assert math.isnan(found.value)
    assert not found.holds


def test_a_row_does_not_hold_where_one_of_our_sides_failed() -> None:
    contest = made({"jobqueue short": "lost"}, jobqueue=300, jobqueue_short=math.nan, huey=1)

    found = figure(contest, ROW, [OURS, SHORT], [SLOW])

    assert not found.holds
    assert "jobqueue short: lost" in found.notes


def test_an_errors_text_is_told_by_its_first_and_last_line() -> None:
    assert in_a_line(PeerFailed("a worker ended\nTraceback\n\nModuleNotFoundError: x\n")) == (
        "a worker ended … ModuleNotFoundError: x"
    )


class FakePeer:
    """Stands for a peer; the one named "huey" cannot be installed."""

    def __init__(self, name: str, *, tuned: bool = False) -> None:
        self.name = name

    def __enter__(self) -> Self:
        if self.name == "huey":
            raise PeerFailed("no such package")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        pass

    @contextmanager
    def turn(self) -> Iterator[Self]:
        yield self


class Quiet:
    """Stands for the measure of what others take: nothing."""

    share = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contest, "Peer", FakePeer)
    monkeypatch.setattr(sampling, "Noise", Quiet)


@pytest.mark.usefixtures("peers")
def test_sides_work_in_turn_as_often_as_the_plan_says() -> None:
    turns: list[str] = []

    def work(peer: Any) -> dict[str, float]:
        turns.append(peer.name)
        return {"jobs/s": float(len(turns))}

    held = hold(PLAN, "drain-1", {OURS: work, QUICK: work}, ["jobs/s"])

    assert turns == ["jobqueue", "awa"] * 3
    assert sorted(held.values(OURS, "jobs/s")) == [1, 3, 5]


@pytest.mark.usefixtures("peers")
def test_a_side_that_lost_a_job_is_out_and_no_rate_of_it_is_left() -> None:
    runs: list[int] = []

    def lose_the_second(peer: Any) -> dict[str, float]:
        runs.append(1)
        if len(runs) == 2:
            raise LostOrDoubled("lost/doubled: 1 job")
        return {"jobs/s": 10.0}

    held = hold(PLAN, "drain-1", {QUICK: lose_the_second, OURS: lambda peer: {"jobs/s": 5.0}}, ["jobs/s"])

    assert len(runs) == 2
    assert held.values(QUICK, "jobs/s") == []
    assert held.failed == {"awa tuned": "lost/doubled: 1 job"}
    assert held.values(OURS, "jobs/s") == [5.0] * 3


@pytest.mark.usefixtures("peers")
def test_what_a_peer_brings_about_in_the_harness_does_not_end_the_run() -> None:
    def refuse(peer: Any) -> dict[str, float]:
        raise psycopg.OperationalError("the server closed the connection")

    held = hold(PLAN, "drain-1", {QUICK: refuse, OURS: lambda peer: {"jobs/s": 5.0}}, ["jobs/s"])

    assert held.failed == {"awa tuned": "the server closed the connection"}
    assert held.values(OURS, "jobs/s") == [5.0] * 3


@pytest.mark.usefixtures("peers")
def test_peers_that_cannot_be_had_are_told() -> None:
    held = hold(PLAN, "drain-1", {SLOW: lambda peer: {}, Side("nobody"): lambda peer: {}}, ["jobs/s"])

    assert held.failed == {"huey": "no such package", "nobody": "there is no driver for it"}
