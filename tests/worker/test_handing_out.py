"""How claimed jobs are spread over the children: nobody idles beside a heap, and a heap is no larger than it may be."""

import contextlib
import itertools
import os
import resource
import socket
import time
from collections.abc import Iterator
from typing import Any, cast

import pytest

from jobqueue import MB, Backoff, Limits
from jobqueue.children.launcher import Channels, Launcher
from jobqueue.children.protocol import frame, frame_for, receive_message
from jobqueue.handlers import Policy
from jobqueue.managers import ClaimedJob, Done, Release
from jobqueue.models import Job
from jobqueue.worker.handout import HandOut
from jobqueue.worker.holding import Held, HeldJobs, boottime
from jobqueue.worker.own import Hands
from jobqueue.worker.pool import Child, Pool
from jobqueue.worker.reports import Reports
from jobqueue.worker.settle import Settler

from .kinds import Launch

SHORT, MEDIUM = 0.00005, 0.04


class Sockets:
    """A launcher whose children are their sockets alone."""

    def fork(self, _key: str, _slots: int) -> Channels:
        return Channels.open()


class Ends:
    """A settler that keeps what it is given."""

    def __init__(self) -> None:
        self.ends: list[Any] = []

    def add(self, held: Held, end: Any) -> None:
        held.ended = True
        self.ends.append(end)


def a_job(number: int, payload: str = "{}") -> ClaimedJob:
    return ClaimedJob(
        number, 1, "probe.ok", "default", 100, 0, 1, 3, 0, "", len(payload), payload, None, None, None, None
    )


class Bench:
    """Two children that live, and what hands jobs to them."""

    def __init__(self) -> None:
        self.pool = Pool(cast(Launcher, Sockets()), processes=2, threads=1)
        self.ends, self.held = Ends(), HeldJobs()
        self.hands = HandOut(self.pool.common, self.held, cast(Settler, self.ends), began=lambda _: None)
        self.children = self.pool.common.fill()
        for child in self.children:
            child.pid = 1
        self.hands.mean_seconds = SHORT
        self.numbers = itertools.count(1)

    def add(self, count: int) -> list[Held]:
        held = [Held(a_job(next(self.numbers)), boottime() + 60) for _ in range(count)]
        for item in held:
            self.hands.add(item, time.monotonic())
        return held

    def waiting(self) -> int:
        return sum(child.waiting() for child in self.children)

    def fill_up(self) -> None:
        """Claim what there is room for, as the dispatch does."""
        free, _ = self.hands.free(time.monotonic())
        self.add(free)
        self.hands.hand_out(time.monotonic())

    def resize(self, size: int) -> None:
        for child in self.children:
            child.channels.inbox.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size)

    def run_one(self, child: Child, seconds: float) -> None:
        """Have a child end its next job, which took so long."""
        work: Any = receive_message(child.channels.inbox_far)
        child.finished(work[:2])
        self.hands.learn(seconds)


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    try:
        yield bench
    finally:
        for child in list(bench.children):
            bench.pool.bury(child)


@pytest.mark.parametrize(
    ("mean_seconds", "given", "gathers"),
    [
        (0.00001, 1_200, 0.004),
        (0.0025, 16, 0.00875),
        (0.005, 20, 0.012),
        (0.0025, 14, 0.0),
        (0.02, 4, 0.0),
        (10.0, 2, 0.0),
    ],
    ids=["no-ops", "half of the work", "at most", "too little work", "longer jobs", "long jobs"],
)
def test_reports_gather_while_every_child_has_short_work(
    mean_seconds: float, given: int, gathers: float, bench: Bench
) -> None:
    bench.hands.mean_seconds = mean_seconds

    bench.add(given)
    bench.hands.hand_out(time.monotonic())

    assert bench.hands.gather_seconds() == pytest.approx(gathers)


def test_reports_are_read_at_once_where_a_child_has_little_to_do(bench: Bench) -> None:
    bench.hands.mean_seconds = 0.005
    bench.add(20)
    bench.hands.hand_out(time.monotonic())

    for _ in range(8):
        bench.run_one(bench.children[0], 0.005)

    assert bench.children[1].waiting() == 9
    assert bench.hands.gather_seconds() == 0.0


def test_several_slots_share_the_work_of_their_child() -> None:
    pool = Pool(cast(Launcher, Sockets()), processes=1, threads=2)
    hands = HandOut(pool.common, HeldJobs(), cast(Settler, Ends()), began=lambda _: None)
    hands.mean_seconds = 0.0025
    (child,) = pool.common.fill()
    child.pid = 1
    for number in range(18):
        hands.add(Held(a_job(number), boottime() + 60), time.monotonic())
    hands.hand_out(time.monotonic())

    assert hands.gather_seconds() == pytest.approx(0.01)
    pool.bury(child)


@pytest.mark.parametrize("count", [2, 7, 60, 120])
def test_no_child_idles_beside_a_heap(bench: Bench, count: int) -> None:
    """Short jobs are given by the handful, but what is there is shared: nobody knows that the next ones are short."""
    bench.add(count)

    bench.hands.hand_out(time.monotonic())

    sizes = [len(child.queue) for child in bench.children]
    assert sum(sizes) + bench.hands.waiting == count
    assert max(sizes) - min(sizes) <= count % 2


def test_what_turns_out_longer_than_thought_is_taken_back(bench: Bench) -> None:
    """None of them is long, all together are: what nobody here begins soon goes to other workers."""
    while bench.waiting() < 800:
        bench.fill_up()
    for child in bench.children:
        for _ in range(3):
            bench.run_one(child, MEDIUM)
    now = time.monotonic()
    for later in (0.0, 0.07, 0.15):
        bench.hands.pump(now + later)

    assert bench.waiting() * MEDIUM <= 0.4
    assert len(bench.ends.ends) > 700
    assert {type(end) for end in bench.ends.ends} == {Release}


def test_one_run_that_was_held_up_takes_nothing_back(bench: Bench) -> None:
    while bench.waiting() < 800:
        bench.fill_up()
    before = bench.waiting()

    now = time.monotonic()
    for child, seconds in zip(bench.children, (MEDIUM, SHORT), strict=True):
        bench.run_one(child, seconds)
    bench.hands.pump(now)
    for _ in range(60):
        bench.run_one(bench.children[0], SHORT)
    bench.hands.pump(now + 0.04)
    bench.hands.pump(now + 0.1)

    assert bench.waiting() == before - 62


@pytest.mark.parametrize(("seconds", "depth"), [(0.005, 10), (0.02, 2), (3.0, 1)])
def test_a_slot_is_given_as_much_as_lasts_50_ms(seconds: float, depth: int, bench: Bench) -> None:
    for _ in range(100):
        bench.hands.learn(seconds)

    assert bench.hands.depth == depth


def test_room_is_what_an_inbox_holds_and_comes_back(bench: Bench) -> None:
    """An inbox that is full of large payloads: no more of them is asked for than it takes."""
    bench.resize(100_000)
    for number in range(40):
        bench.hands.add(Held(a_job(1000 + number, "x" * 30_000), boottime() + 60), time.monotonic())
    bench.hands.pump(time.monotonic())
    few = bench.hands.depth
    assert bench.hands.waiting == 40 - sum(len(child.queue) for child in bench.children) > 0

    bench.resize(1 << 20)
    for _ in range(30):
        for child in bench.children:
            while child.queue:
                bench.run_one(child, SHORT)
        bench.fill_up()

    assert few < 10
    assert bench.hands.depth > 400


def test_too_many_payloads_on_the_way_as_files_are_no_error(bench: Bench) -> None:
    """The kernel counts them for each user who has no privilege; the worker goes on when some have arrived."""
    large = Held(a_job(1, "x" * 40_000), boottime() + 60)
    pid = os.fork()
    if not pid:  # the limit and the user are this process's for good
        with contextlib.suppress(BaseException):
            resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
            if os.getuid() == 0:
                os.setuid(65534)
            given = [bench.children[0].give(large) for _ in range(300)]
            os._exit(0 if 0 < sum(given) < 250 else 1)
        os._exit(2)

    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_an_end_of_a_run_whose_claim_the_server_lost_ends_no_other(bench: Bench) -> None:
    """A crash can undo a claim (ASYNC_CLAIMS, a failover): the next one has the same worker and the same epoch."""
    first, second = (Held(a_job(1), boottime() + 60) for _ in range(2))
    reports = Reports(bench.pool, bench.held, limit=lambda: True)
    reports.settler, reports.hands = cast(Settler, bench.ends), Hands(bench.hands, bench.hands)
    for child, held in zip(bench.children, (first, second), strict=True):
        assert child.give(held)
        bench.held.add([held])
        held.started = time.monotonic()
    first.lost = True

    bench.children[0].channels.far_ends[0].send(frame("X", first.fence))
    reports.read(bench.children[0], time.monotonic())
    assert bench.held.get(1, 1) is second

    bench.children[1].channels.far_ends[0].send(frame_for(Done(1, 1), waits=False))
    reports.read(bench.children[1], time.monotonic())
    assert [type(end) for end in bench.ends.ends] == [Done]


def test_a_child_that_is_too_large_stays_until_it_is_empty(bench: Bench) -> None:
    """It gets nothing more, and no other is forked: its successor would take as much again."""
    large, other = bench.children
    bench.add(2)
    bench.hands.hand_out(time.monotonic())
    large.too_large = True
    bench.add(3)
    bench.hands.hand_out(time.monotonic())

    assert (len(large.queue), len(other.queue)) == (1, 4)
    assert (bench.pool.due(10_000), bench.pool.common.fill()) == ([], [])
    bench.run_one(large, MEDIUM)
    assert bench.pool.due(10_000) == [large]


def test_a_slot_is_free_again_when_the_job_that_was_to_run_alone_in_it_is_taken_back(bench: Bench) -> None:
    """Cancelled, or its lease lost, before the child was forked: else nothing was ever given to that child again."""
    for child in bench.children:
        child.pid = None
    held = Held(a_job(1), boottime() + 60)
    held.policy = Policy(
        name="probe.ok",
        queue="default",
        priority=100,
        max_attempts=3,
        backoff=Backoff(),
        limits=Limits(memory_bytes=MB),
        on_deadline="retry",
        is_async=False,
    )
    bench.hands.add(held, time.monotonic())
    bench.hands.hand_out(time.monotonic())
    (chosen,) = [child for child in bench.children if child.alone is held]

    assert chosen.recall() == [held]

    assert chosen.accepts()


@pytest.mark.parametrize("why", ["jobs", "leftovers"])
def test_no_more_children_retire_at_a_time_than_there_are_processes(why: str, bench: Bench) -> None:
    """Each may run jobs of hours in its other slots; a successor that is due meanwhile serves on."""
    reports = Reports(bench.pool, bench.held, limit=lambda: True)
    reports.hands = Hands(bench.hands, bench.hands)
    for _ in range(5):
        for child in bench.pool.common.serving:
            child.queue[1, 1] = Held(a_job(1), boottime() + 60)
            if why == "jobs":
                child.served = 10_000
            else:
                child.channels.far_ends[0].send(frame("T", (1, 1)))
                reports.read(child, time.monotonic())
        for child in bench.pool.due(10_000):
            bench.hands.put_back_retired(child)
        bench.children += bench.pool.common.fill()

    assert len(bench.pool.children) == 4
    assert len(bench.pool.common.serving) == 2
    bench.pool.bury(bench.children[0])
    assert len(bench.pool.due(10_000)) == 1


def test_large_payloads_are_claimed_as_far_as_they_can_be_handed_out(launch: Launch, transactional_db: None) -> None:
    Job.objects.enqueue_many([("probe.ok", {"text": "x" * 30_000})] * 1000)

    assert launch("--processes", "2", "--drain", wait=False, LEASE_SECONDS=60).ends(within=60) == 0

    epochs = list(Job.objects.values_list("lease_epoch", flat=True))
    assert sum(epoch > 1 for epoch in epochs) < 150
