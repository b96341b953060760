"""A cancel of a job that its child has just begun, before the end of the one before it was read."""

import socket
import time
from collections.abc import Iterator
from decimal import Decimal
from types import SimpleNamespace
from typing import Any, cast

import pytest

from jobqueue.children.protocol import frame, frame_for, receive_message
from jobqueue.conf import get_settings
from jobqueue.managers import Done, Ending, Renewal
from jobqueue.outcomes import Outcome
from jobqueue.worker.holding import Held, boottime
from jobqueue.worker.own import Hands
from jobqueue.worker.pool import Child
from jobqueue.worker.reports import Reports
from jobqueue.worker.settle import Settler
from jobqueue.worker.stops import Stops
from jobqueue.worker.verdicts import Verdicts

from .test_handing_out import Bench, a_job


class Launcher:
    """Keeps whom it is told to signal and to kill."""

    def __init__(self) -> None:
        self.signalled: list[str] = []
        self.killed: list[str] = []

    def signal(self, key: str, _number: int) -> None:
        self.signalled.append(key)

    def kill(self, key: str) -> None:
        self.killed.append(key)


class Scene:
    """A child with one slot that was given two jobs, and what stops them and reads of them."""

    def __init__(self, bench: Bench) -> None:
        self.ends, self.launcher = bench.ends, Launcher()
        bench.pool.launcher = cast(Any, self.launcher)
        self.child: Child = bench.children[0]
        self.first, self.second = (Held(a_job(number), boottime() + 60) for number in (1, 2))
        bench.held.add([self.first, self.second])
        assert self.child.give(self.first)
        assert self.child.give(self.second)
        self.child.mark_started()
        self.stops = Stops(bench.pool, bench.held, get_settings())
        self.stops.put_back = bench.hands.put_back
        self.reports = Reports(bench.pool, bench.held, limit=lambda: True)
        self.reports.settler, self.reports.stops = cast(Settler, bench.ends), self.stops
        self.reports.hands = Hands(bench.hands, bench.hands)
        parts: Any = SimpleNamespace(held=bench.held, stops=self.stops, settler=bench.ends)
        self.verdicts = Verdicts(parts)

    def take(self) -> None:
        """Have the child take its next job out of its inbox."""
        assert receive_message(self.child.channels.inbox_far)

    def tell(self, *frames: bytes) -> None:
        """Have the child report."""
        for each in frames:
            self.child.channels.far_ends[0].send(each)

    def read(self) -> None:
        self.reports.read(self.child, time.monotonic())

    def cancel_second(self) -> None:
        """Hear that somebody asked to cancel the second job."""
        self.verdicts.heard([(self.second, Renewal(2, "locked", cancel=True))])


@pytest.fixture
def scene() -> Iterator[Scene]:
    bench = Bench()
    try:
        yield Scene(bench)
    finally:
        for child in list(bench.children):
            bench.pool.bury(child)


def test_a_job_that_has_just_begun_tells_its_own_end(scene: Scene) -> None:
    """C80. Guard: not taken back is begun; it was written down as if it had not, with no time and no costs."""
    scene.take()
    scene.tell(frame_for(Done(1, 1), waits=False))
    scene.take()

    scene.cancel_second()
    assert scene.ends.ends == []
    assert scene.launcher.signalled == [scene.child.key]

    stopped = Ending(2, 1, Outcome.CANCELLED, "cancel", error_text="stopped", run_seconds=0.25)
    scene.tell(frame("C", (2, 1), '["tokens", "USD", "0.50"]'), frame_for(stopped, waits=False))
    scene.read()

    _, end = scene.ends.ends
    assert (end.outcome, end.step, end.run_seconds) == (Outcome.CANCELLED, "cancel", 0.25)
    assert [line.amount for line in end.costs] == [Decimal("0.50")]
    assert end.error_text == "cancelled while it ran"


def test_a_handler_that_has_just_begun_and_swallows_the_stop_is_killed(scene: Scene) -> None:
    """C80. Guard: the same; it ran on for DEADLINE_SECONDS, and its end was settled a second time."""
    scene.take()
    scene.tell(frame_for(Done(1, 1), waits=False))
    scene.take()
    scene.cancel_second()
    scene.read()

    scene.stops.check(time.monotonic() + get_settings().KILL_GRACE + 0.01)
    assert scene.launcher.killed == [scene.child.key]
    scene.reports.died(scene.child, -9, ours=True)

    _, end = scene.ends.ends
    assert (end.outcome, end.exit_code) == (Outcome.CANCELLED, -9)
    assert end.run_seconds > 0


def test_a_job_that_waits_in_the_inbox_is_settled_at_once(scene: Scene) -> None:
    """C80: it has not begun, and never will."""
    scene.take()

    scene.cancel_second()

    (end,) = scene.ends.ends
    assert (end.id, end.outcome, end.error_text) == (2, Outcome.CANCELLED, "cancelled before its handler began")
    assert scene.launcher.signalled == []
    assert list(scene.child.queue) == [(1, 1)]


def test_the_reminder_says_again_what_it_is_about(scene: Scene) -> None:
    """C80. Guard: a child keeps no order that comes before the handler began; the signal alone would say nothing."""
    control = scene.child.channels.far_ends[1]
    scene.take()
    scene.tell(frame_for(Done(1, 1), waits=False))
    scene.take()
    scene.cancel_second()
    scene.read()
    assert control.recv(4096) == b"stop\t2\t1\tcancel"

    scene.stops.check(time.monotonic() + 0.6 * get_settings().KILL_GRACE)

    assert control.recv(4096, socket.MSG_DONTWAIT) == b"stop\t2\t1\tcancel"
    assert scene.launcher.signalled == [scene.child.key] * 2
    assert scene.launcher.killed == []
