"""The rows of idle workers: ours against the bar, the peers beside it, and no row that holds without ours."""

import math

import pytest

from benchmarks.measures.quiet import Idle, _connections, _idle_cpu, heard_at_all
from benchmarks.peers.errors import PeerFailed

OURS = Idle(worker=[0.2, 0.3, 0.4], server=[0.1, 0.1, 0.1], connections=5)
BUSY = Idle(worker=[9.0, 9.0, 9.0], server=[1.0, 1.0, 1.0], connections=1)


def test_an_idle_workers_share_of_a_core_is_the_whole_minutes() -> None:
    figure = _idle_cpu({"jobqueue": OURS, "oban": BUSY}, [], 0.0, 60.0)

    assert math.isclose(figure.value, 0.3)
    assert figure.holds
    assert figure.limit == "oban: 9.00 %"
    assert "oban: 9.00 % (9.00 to 9.00), and the server 1.00 % for it" in figure.notes


def test_a_worker_that_takes_more_than_half_a_hundredth_does_not_hold() -> None:
    assert not _idle_cpu({"jobqueue": BUSY}, [], 0.0, 60.0).holds


def test_without_ours_no_row_holds_and_the_reason_is_told() -> None:
    figures = [
        _idle_cpu({"oban": BUSY}, ["jobqueue: away"], 0.0, 60.0),
        _connections({"oban": BUSY}, ["jobqueue: away"], 0.0),
    ]

    assert not any(figure.holds for figure in figures)
    assert all("jobqueue: away" in figure.notes for figure in figures)


def test_connections_are_told_beside_those_of_peers() -> None:
    figure = _connections({"jobqueue": OURS, "oban": BUSY}, [], 0.0)

    assert (figure.value, figure.limit) == (5, "oban: 1")


def test_a_peer_of_which_nothing_is_heard_has_no_figure_of_zero() -> None:
    assert heard_at_all(0.5) == 0.5
    with pytest.raises(PeerFailed, match="not one NOTIFY was heard"):
        heard_at_all(0.0)
