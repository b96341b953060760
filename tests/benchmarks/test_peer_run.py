"""Peers take turns, one that fails is left out with its reason, and the table shows the best first."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self

import pytest

from benchmarks.peers import run, table
from benchmarks.peers.base import Sample
from benchmarks.peers.catalogue import PEERS, entries
from benchmarks.peers.errors import LostOrDoubled, NotOffered, PeerFailed
from benchmarks.peers.run import Row
from benchmarks.plan import Plan

PLAN = Plan(repeats=2, retakes=0, patience=0)
ONLY_DEFAULT = {"rq"}
NOT_INSTALLED = {"chancy"}


class QuietNoise:
    """Stands for the measure of what other programs take."""

    share = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class FakePeer:
    """A peer that needs neither a database nor an environment."""

    def __init__(self, name: str, *, tuned: bool = False) -> None:
        self.name, self.tuned = name, tuned
        self.about = {"tunable": name not in ONLY_DEFAULT}

    def __enter__(self) -> Self:
        if self.name in NOT_INSTALLED:
            raise PeerFailed("not installed: no such version")
        return self

    def __exit__(self, *_: object) -> None:
        pass

    @contextmanager
    def turn(self) -> Iterator[Self]:
        yield self


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bool]]:
    """Whose turn it was, in order; the rate of each is its number."""
    taken: list[tuple[str, bool]] = []

    def drain(peer: Any, **given: Any) -> Sample:
        taken.append((peer.name, peer.tuned))
        if peer.name == "oban":
            raise LostOrDoubled("lost/doubled: of 10 jobs 1 never ran")
        return Sample(
            peer=peer.name,
            work="drain",
            tuned=peer.tuned,
            workers=1,
            jobs=given.get("jobs", 0),
            values={"jobs/s": float(len(taken))},
        )

    def bulk(peer: Any, **given: Any) -> Sample:
        raise NotOffered("no bulk API")

    monkeypatch.setattr(run, "Peer", FakePeer)
    monkeypatch.setattr(run, "Noise", QuietNoise)
    monkeypatch.setattr(run, "WORKS", {"drain": drain, "bulk": bulk})
    return taken


def test_every_side_has_its_turn_before_any_has_its_second(turns: list[tuple[str, bool]]) -> None:
    rows = run.measure(entries("awa,pgqueuer"), ["drain"], PLAN, jobs=7)

    sides = [("awa", False), ("awa", True), ("pgqueuer", False), ("pgqueuer", True)]
    assert turns == sides * 2
    assert [(row.peer, row.tuned, row.values["jobs/s"]) for row in rows] == [
        (*side, [float(place), float(place + 4)]) for place, side in enumerate(sides, 1)
    ]
    assert rows[0].jobs == [7, 7]


def test_a_peer_without_settings_to_tune_has_one_row(turns: list[tuple[str, bool]]) -> None:
    assert [row.tuned for row in run.measure([PEERS["awa"]], ["drain"], PLAN, which="tuned")] == [True]
    assert [row.tuned for row in run.measure([PEERS["awa"]], ["drain"], PLAN, which="default")] == [False]
    ONLY_DEFAULT.add("awa")
    try:
        for which in ("both", "tuned", "default"):
            assert [row.tuned for row in run.measure([PEERS["awa"]], ["drain"], PLAN, which=which)] == [False]
    finally:
        ONLY_DEFAULT.remove("awa")


def test_a_peer_that_loses_a_job_has_its_reason_for_a_figure_and_no_further_turn(
    turns: list[tuple[str, bool]],
) -> None:
    rows = run.measure(entries("oban,awa"), ["drain"], PLAN, which="default")

    assert turns == [("oban", False), ("awa", False), ("awa", False)]
    assert [(row.peer, row.values, row.error) for row in rows] == [
        ("oban", {}, "lost/doubled: of 10 jobs 1 never ran"),
        ("awa", {"jobs/s": [2.0, 3.0]}, ""),
    ]


def test_a_peer_that_cannot_be_installed_is_told_in_every_work_and_the_rest_go_on(
    turns: list[tuple[str, bool]],
) -> None:
    rows = run.measure(entries("chancy,awa"), ["drain", "bulk"], PLAN, which="default")

    told = {(row.peer, row.work): row.error for row in rows}
    assert told == {
        ("chancy", "drain"): "not installed: no such version",
        ("chancy", "bulk"): "not installed: no such version",
        ("awa", "drain"): "",
        ("awa", "bulk"): "no bulk API",
    }


def test_a_disturbed_sample_is_taken_again_and_the_quietest_are_kept(
    turns: list[tuple[str, bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    shares = iter([0.0, 0.9, 0.05])

    class Disturbed(QuietNoise):
        def __enter__(self) -> Self:
            self.share = next(shares)
            return self

    monkeypatch.setattr(run, "Noise", Disturbed)

    (row,) = run.measure([PEERS["awa"]], ["drain"], Plan(repeats=2, retakes=2, patience=0), which="default")

    assert (row.values["jobs/s"], row.noise) == ([1.0, 3.0], 0.05)


def test_all_rows_so_far_are_kept_after_each_work(turns: list[tuple[str, bool]]) -> None:
    kept: list[list[str]] = []

    def keep(rows: Sequence[Row]) -> None:
        kept.append([row.work for row in rows])

    run.measure([PEERS["awa"]], ["drain", "bulk"], PLAN, which="default", keep=keep)

    assert kept == [["drain"], ["drain", "bulk"]]


def test_a_run_that_is_broken_off_keeps_the_samples_that_it_has_and_says_that_they_are_few(
    turns: list[tuple[str, bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[Row] = []
    drain: Any = vars(run)["WORKS"]["drain"]

    def interrupted(peer: Any, **given: Any) -> Sample:
        if len(turns) == 3:
            raise KeyboardInterrupt
        sample: Sample = drain(peer, **given)
        return sample

    monkeypatch.setattr(run, "WORKS", {"drain": interrupted})

    with pytest.raises(KeyboardInterrupt):
        run.measure(entries("awa,pgqueuer"), ["drain"], PLAN, which="default", keep=kept.extend)

    assert [(row.peer, row.values["jobs/s"], row.notes) for row in kept] == [
        ("awa", [1.0, 3.0], []),
        ("pgqueuer", [2.0], ["broken off after 1 of 2 samples"]),
    ]


def rate(peer: str, *values: float, **more: Any) -> Row:
    return Row(work="drain", peer=peer, tuned=False, workers=1, values={"jobs/s": list(values)}, jobs=[10], **more)


def test_the_table_has_the_best_first_with_median_and_spread_and_errors_last() -> None:
    failed = Row(work="drain", peer="oban", tuned=True, workers=1, error="no job ran\nwithin 45 s")

    lines = table.table([failed, rate("awa", 900, 1_000, 3_000), rate("jobqueue", 2_000)]).splitlines()

    assert [line.split("  ")[0] for line in lines[:4]] == ["drain", "jobqueue", "awa", "oban tuned"]
    assert "1,000 (900 to 3,000)" in lines[2]
    assert lines[3].endswith("no job ran within 45 s")


def test_of_latencies_the_smallest_is_the_best() -> None:
    rows = [
        Row(work="latency", peer=peer, tuned=False, workers=1, values={"p50 ms": [value]}, jobs=[1])
        for peer, value in (("awa", 3.0), ("huey", 0.3), ("oban", 1.5))
    ]

    assert [row.peer for row in table.ordered(rows)] == ["huey", "oban", "awa"]


def test_versions_and_settings_of_each_side_are_told() -> None:
    about = {"versions": {"awa-pg": "0.6.9"}, "python": "3.11.7", "settings": "200 workers"}

    assert table.about([rate("awa", 1.0, about=about)]) == ["awa: 200 workers (awa-pg 0.6.9; Python 3.11.7)"]


def test_an_unknown_peer_is_refused_with_the_names_that_there_are() -> None:
    with pytest.raises(ValueError, match=r"no such peer: celerity; there are jobqueue, .*procrastinate"):
        entries("awa,celerity")
