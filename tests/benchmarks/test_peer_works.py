"""How the works count: how many jobs a run takes, where its clock begins and ends, and what is an error instead."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import pytest

from benchmarks.peers.base import Peer
from benchmarks.peers.errors import LostOrDoubled, NotOffered, PeerFailed
from benchmarks.peers.tally import new_tally
from benchmarks.peers.works import bulk, drain, enqueue, latency, mixed

# The modules: their functions, which have the same names, hide them in the package.
draining = import_module("benchmarks.peers.works.drain")
waiting = import_module("benchmarks.peers.works.latency")


class Running:
    """Stands for the workers' processes."""

    def check(self) -> None:
        """Say that all is well."""

    def log(self) -> str:
        """Return no last words."""
        return ""


class ScriptedPeer(Peer):
    """A peer without processes: its workers mark the tally at once, as often as `marks` says, and the store follows."""

    def __init__(self, *, marks: Sequence[int] = (), bulk_size: int | None = 1_000) -> None:
        super().__init__("procrastinate")
        self.about = {"bulk_size": bulk_size}
        self.marks = marks  # starts a job, by number; 1 where it says nothing
        self.ends: int | None = None  # that many first jobs are finished in the end; None for all
        self.lost = 0  # jobs that enqueueing forgets
        self.filled: list[int] = []

    def reset(self) -> None:
        self.tally.empty()
        self.jobs = self.done = 0

    def fill(self, count: int) -> None:
        self.take_numbers(count)
        self.filled.append(count)

    def finished(self) -> int:
        return self.done

    @contextmanager
    def workers(self, count: int = 1) -> Iterator[Any]:
        self._run_jobs(0)
        yield Running()

    def call(self, verb: str, **arguments: Any) -> Any:
        if verb == "paced":
            returned = [time.monotonic_ns() for _ in range(arguments["count"])]
            self._run_jobs(arguments["first"])
            return returned
        if verb == "waiting":
            return self.jobs - self.lost
        return {"count": 50, "seconds": 0.5}

    def _run_jobs(self, first: int) -> None:
        for number in range(first, self.jobs):
            for _ in range(self.marks[number] if number < len(self.marks) else 1):
                now = self.tally._values[number]
                self.tally._values[number] = now + (1 << 56) if now else time.monotonic_ns()
        self.done = self.jobs if self.ends is None else self.ends


@pytest.fixture
def peer() -> Iterator[ScriptedPeer]:
    scripted = ScriptedPeer()
    with new_tally(5_000) as scripted.tally:
        yield scripted


def test_a_drain_of_so_many_jobs_has_a_rate_from_first_start_to_last_finished(peer: ScriptedPeer) -> None:
    sample = drain(peer, jobs=100)

    assert (sample.jobs, peer.filled, sample.note) == (100, [100], "")
    assert sample.values["jobs/s"] == pytest.approx(100 / sample.values["seconds"])


def test_without_a_number_the_estimate_says_how_many_jobs_fill_the_time(peer: ScriptedPeer) -> None:
    peer.estimates[1] = 100.0

    drain(peer, seconds=4)

    assert peer.filled[0] == 440


def test_a_run_that_is_far_too_short_is_made_again_with_the_rate_that_it_showed(peer: ScriptedPeer) -> None:
    peer.estimates[1] = 100.0

    sample = drain(peer, seconds=4)

    assert peer.estimates[1] > 1_000
    assert peer.filled == [440, peer.tally.size]
    assert sample.jobs == peer.tally.size


def test_the_estimate_grows_until_a_run_lasts_and_is_made_once(
    peer: ScriptedPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draining, "PILOT_MOST", 4_000)

    rate = draining.estimate(peer)

    assert peer.filled == [400, 4_000]
    assert (draining.estimate(peer), peer.filled) == (rate, [400, 4_000])


def test_a_job_that_ran_twice_is_no_figure(peer: ScriptedPeer) -> None:
    peer.marks = [1, 1, 2]

    with pytest.raises(LostOrDoubled, match="1 ran twice"):
        drain(peer, jobs=10)


def test_a_store_that_shows_too_few_in_the_end_is_no_figure(
    peer: ScriptedPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draining, "STORE_SECONDS", 0)
    peer.ends = 9

    with pytest.raises(LostOrDoubled, match="shows 9 of 10 finished"):
        drain(peer, jobs=10)


def test_a_run_that_outlasts_its_box_is_cut_and_has_the_rate_of_what_was_finished(
    peer: ScriptedPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draining, "BOX_SECONDS", 0.1)
    peer.marks = [1, 1, 0]
    peer.ends = 2

    sample = drain(peer, jobs=10)

    assert sample.jobs == 2
    assert sample.note.startswith("cut after")
    assert sample.values["jobs/s"] == pytest.approx(2 / sample.values["seconds"])
    assert sample.values["seconds"] >= 0.1


def test_more_finished_than_ever_began_is_no_figure(peer: ScriptedPeer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draining, "BOX_SECONDS", 0.1)
    peer.marks = [1, 1, 0]
    peer.ends = 9 + 1

    with pytest.raises(LostOrDoubled):
        drain(peer, jobs=10)


def test_workers_that_start_nothing_are_a_failure(peer: ScriptedPeer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draining, "START_SECONDS", 0)
    peer.marks = [0] * 10

    with pytest.raises(PeerFailed, match="no job ran"):
        drain(peer, jobs=10)


@pytest.mark.parametrize("work", [enqueue, bulk])
def test_enqueueing_has_the_rate_of_the_driver_where_every_job_is_in_the_store(peer: ScriptedPeer, work: Any) -> None:
    sample = work(peer, seconds=0.01)

    assert (sample.jobs, sample.values["jobs/s"]) == (50, 100.0)
    assert peer.jobs == peer.filled[0] + 50


def test_an_enqueued_job_that_the_store_has_not_is_lost(peer: ScriptedPeer) -> None:
    peer.lost = 1

    with pytest.raises(LostOrDoubled, match="250 jobs were enqueued, the store shows 249"):
        enqueue(peer, seconds=0.01)


def test_bulk_without_such_an_api_is_not_offered(peer: ScriptedPeer) -> None:
    peer.about["bulk_size"] = None

    with pytest.raises(NotOffered):
        bulk(peer)


def test_latency_is_from_the_return_of_the_enqueue_to_the_start(
    peer: ScriptedPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "IDLE_SECONDS", 0)

    values = latency(peer, jobs=100).values

    assert 0 < values["p50 ms"] <= values["p95 ms"] <= values["p99 ms"] <= values["max ms"]


def test_latency_of_a_job_that_ran_twice_is_no_figure(peer: ScriptedPeer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "IDLE_SECONDS", 0)
    peer.marks = [1, 1, 2]

    with pytest.raises(LostOrDoubled):
        latency(peer, jobs=10)


def test_latency_of_a_job_that_does_not_begin_in_time_is_no_figure(
    peer: ScriptedPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "IDLE_SECONDS", 0)
    monkeypatch.setattr(waiting, "WAIT_SECONDS", 0)
    peer.marks = [1, 1, 0]

    with pytest.raises(PeerFailed, match="1 of 10 jobs had not begun"):
        latency(peer, jobs=10)


def test_a_slow_peer_is_given_enough_jobs_to_show_something(peer: ScriptedPeer) -> None:
    peer.estimates[1] = 0.5

    drain(peer, seconds=4)

    assert peer.filled[0] == 50


def test_mixed_tells_both_rates(peer: ScriptedPeer) -> None:
    sample = mixed(peer, jobs=50, seconds=0.001)

    assert (sample.jobs, peer.filled, sample.note) == (100, [50], "")
    assert sample.values["enqueued/s"] == 100.0
    assert "finished/s" in sample.values


def test_mixed_tells_when_the_workers_had_nothing_left_to_do(peer: ScriptedPeer) -> None:
    peer.lost = 50

    assert "used up" in mixed(peer, jobs=50, seconds=0.001).note
