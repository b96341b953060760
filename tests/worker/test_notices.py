"""Signals that a child sends for a killed one: in a slot that is free, ahead of the next job, in bounded time."""

import time
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from jobqueue.children.launcher import Channels, Launcher
from jobqueue.children.protocol import Notice, frame, receive_message
from jobqueue.conf import get_settings
from jobqueue.worker.handout import HandOut
from jobqueue.worker.holding import Held, HeldJobs, boottime
from jobqueue.worker.own import Hands
from jobqueue.worker.pool import RECEIVERS_SECONDS, Child, Pool
from jobqueue.worker.reports import Reports
from jobqueue.worker.settle import Settler
from jobqueue.worker.stops import Stops

from .test_handing_out import Ends, a_job

LONG = 10.0
NO_PROCESS = 2**22 + 1  # above the largest process id


class Zygote:
    """A launcher whose children are their sockets alone, and which notes whom it is to kill."""

    def __init__(self) -> None:
        self.killed: list[str] = []

    def fork(self, _key: str, _slots: int) -> Channels:
        return Channels.open()

    def kill(self, key: str) -> None:
        self.killed.append(key)


class Scene:
    """Two children, and a signal to send."""

    def __init__(self, threads: int = 1) -> None:
        self.zygote = Zygote()
        self.pool = Pool(cast(Launcher, self.zygote), processes=2, threads=threads)
        self.held, settler = HeldJobs(), cast(Settler, Ends())
        self.hands = HandOut(self.pool.common, self.held, settler, began=lambda _: None)
        self.reports = Reports(self.pool, self.held, limit=lambda: True)
        self.reports.hands = Hands(self.hands, self.hands)
        self.stops = Stops(self.pool, self.held, get_settings())
        self.reports.stops = self.stops
        self.children = self.pool.common.fill()
        for child in self.children:
            child.pid = NO_PROCESS
        self._number = 0

    def give(self, child: Child, *, for_seconds: float = 0.0) -> Held:
        """Have a child run one more job, which began so long ago."""
        self._number += 1
        held = Held(a_job(self._number), boottime() + 60)
        assert child.give(held)
        for begun in child.mark_started():
            begun.started = time.monotonic() - for_seconds
        return held

    def tell(self) -> None:
        self.reports._notices.append(Notice("job_dead", {"job_id": 7}))
        self.reports.send_notices()

    @property
    def told(self) -> list[int]:
        """How many signals each child has been given."""
        return [child.notices for child in self.children]

    def ends(self, child: Child, held: Held) -> None:
        assert cast(Any, receive_message(child.channels.inbox_far))[:2] == held.fence
        child.finished(held.fence)

    def has_told(self, child: Child) -> None:
        assert isinstance(receive_message(child.channels.inbox_far), Notice)
        child.channels.far_ends[0].send(frame("S", (0, 0)))
        self.reports.read(child, time.monotonic())


@pytest.fixture
def scene() -> Iterator[Callable[..., Scene]]:
    made: list[Scene] = []

    def make(threads: int = 1) -> Scene:
        made.append(Scene(threads))
        return made[-1]

    yield make
    for one in made:
        for child in one.children:
            one.pool.bury(child)


def test_a_child_with_nothing_to_do_is_given_it_and_no_job_meanwhile(scene: Callable[..., Scene]) -> None:
    one = scene()
    busy, idle = one.children
    one.give(busy)

    one.tell()

    assert one.told == [0, 1]
    assert one.hands.free(time.monotonic())[0] == 0
    one.has_told(idle)
    assert one.hands.free(time.monotonic())[0] == 1


def test_it_goes_before_the_next_job_where_all_children_run_long_ones(scene: Callable[..., Scene]) -> None:
    """Behind one it would wait for hours; so the first that ends its own is given it, and nothing else."""
    one = scene()
    first, second = [one.give(child, for_seconds=LONG) for child in one.children], one.children[1]
    one.tell()
    assert one.told == [0, 0]

    one.ends(second, first[1])
    one.reports.send_notices()

    assert one.told == [0, 1]
    assert not second.accepts()
    assert one.reports.owes_signals


def test_it_waits_behind_short_jobs_and_goes_elsewhere_when_one_turns_out_long(scene: Callable[..., Scene]) -> None:
    one = scene()
    left, right = one.children
    jobs = [one.give(child) for child in one.children]
    one.tell()
    assert one.told == [1, 0]
    cast(Any, receive_message(left.channels.inbox_far))  # it has begun its job

    now = time.monotonic()
    jobs[0].started = now - LONG
    assert one.hands.next_at(now) is not None
    one.hands.pump(now)
    one.ends(right, jobs[1])
    one.reports.send_notices()

    assert one.told == [0, 1]


def test_a_free_slot_beside_a_long_job_is_enough(scene: Callable[..., Scene]) -> None:
    one = scene(threads=2)
    for child in one.children:
        one.give(child, for_seconds=LONG)

    one.tell()
    one.hands.pump(time.monotonic())

    assert one.told == [1, 0]


def test_receivers_that_do_not_end_cost_their_child(scene: Callable[..., Scene], caplog: Any) -> None:
    """Not before their slot was free, though; and a stall of the worker's own does not count."""
    one = scene()
    child, other = one.children
    job = one.give(child)
    one.give(other)
    one.give(other)
    one.tell()
    now = time.monotonic()
    one.stops.check(now)
    one.stops.check(now + 2 * RECEIVERS_SECONDS)
    assert (one.told, one.zygote.killed) == ([1, 0], [])

    one.ends(child, job)
    one.stops.check(now)
    one.stops.shift(5.0)
    one.stops.check(now + RECEIVERS_SECONDS + 4)
    assert one.zygote.killed == []
    one.stops.check(now + RECEIVERS_SECONDS + 6)

    assert one.zygote.killed == [child.key]
    assert caplog.text.count("their child is killed") == 1
