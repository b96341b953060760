"""Callers of one process share a look for a second: many who look cost as much as one."""

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection, connections

from jobqueue.models import Job
from jobqueue.ops import reading, sharing
from jobqueue.ops.sharing import Shared
from jobqueue.ops.snapshot import Snapshot
from tests.connections import SecondConnection
from tests.factories import JobFactory
from tests.worker.waiting import until

THREADS = 8

pytestmark = pytest.mark.usefixtures("patient")


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list that each look at the database is added to."""
    made: list[str] = []
    read_all = reading.read_all

    def counted(*args: Any, **named: Any) -> Any:
        made.append(threading.current_thread().name)
        return read_all(*args, **named)

    monkeypatch.setattr("jobqueue.ops.snapshot.read_all", counted)
    return made


@pytest.mark.django_db(transaction=True)
def test_within_a_second_everybody_gets_the_same_look(looks: list[str]) -> None:
    first = Job.objects.ops()
    JobFactory.create()

    assert Job.objects.ops() is first
    assert len(looks) == 1
    until(lambda: Job.objects.ops().pending == 1, within=5, what="a look that is younger")


@pytest.mark.django_db(transaction=True)
def test_a_fresh_look_is_ones_own_and_the_next_ones_share_it() -> None:
    Job.objects.ops()
    JobFactory.create()

    fresh = Job.objects.ops(fresh=True)

    assert fresh.pending == 1
    assert Job.objects.ops() is fresh


@pytest.mark.django_db(transaction=True)
def test_threads_that_ask_at_once_wait_for_one_look(
    looks: list[str], second_connection: SecondConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case C143: ten dashboards are one reader. The look takes its time here, since a table is locked."""
    monkeypatch.setattr(sharing, "SHARED_SECONDS", 30.0)
    second_connection.execute("LOCK TABLE jobqueue_queue IN ACCESS EXCLUSIVE MODE")

    with ThreadPoolExecutor(THREADS) as pool:
        taken = list(pool.map(lambda _: _look(), range(THREADS)))

    assert len(looks) == 1
    assert all(each is taken[0] for each in taken)


def _look() -> Snapshot:
    try:
        return Job.objects.ops()
    finally:
        connections.close_all()


@pytest.mark.django_db
def test_within_a_transaction_one_sees_ones_own_rows_and_shares_nothing(looks: list[str]) -> None:
    JobFactory.create()
    assert Job.objects.ops().pending == 1
    JobFactory.create()

    assert Job.objects.ops().pending == 2
    assert len(looks) == 2


@pytest.mark.django_db(transaction=True)
def test_a_look_that_found_no_database_is_shared_too(looks: list[str]) -> None:
    """Otherwise each of many callers would wait for its own time-out."""
    connection.close()
    port = connection.settings_dict["PORT"]
    connection.settings_dict["PORT"] = "1"
    try:
        assert Job.objects.ops().error
        assert Job.objects.ops().error
    finally:
        connection.settings_dict["PORT"] = port

    assert len(looks) == 1


@pytest.mark.parametrize("fresh", [False, True])
def test_a_look_that_took_more_than_a_second_is_that_of_all_who_waited(
    monkeypatch: pytest.MonkeyPatch, *, fresh: bool
) -> None:
    """With a database that does not answer each of many callers would wait for its own time-out, in a row."""
    monkeypatch.setattr(sharing, "SHARED_SECONDS", 0.0)
    shared: Shared[int] = Shared()
    slow, looks, waiting = threading.Event(), [], []

    def read() -> int:
        looks.append(1)
        slow.wait(10)
        return len(looks)

    def wait() -> int:
        waiting.append(1)
        return shared.get("a", read, fresh=False)

    with ThreadPoolExecutor(THREADS) as pool:
        first = pool.submit(shared.get, "a", read, fresh=fresh)
        until(lambda: bool(looks), within=5, what="the first look")
        others = [pool.submit(wait) for _ in range(THREADS - 1)]
        until(lambda: len(waiting) == THREADS - 1, within=5, what="the others")
        slow.set()
        assert {one.result() for one in (first, *others)} == {1}


def test_an_error_is_not_shared() -> None:
    shared: Shared[int] = Shared()

    with pytest.raises(ZeroDivisionError):
        shared.get("a", lambda: 1 // 0)

    assert shared.get("a", lambda: 7) == 7


def test_each_key_has_its_own_look() -> None:
    shared: Shared[int] = Shared()

    assert [shared.get(key, lambda key=key: key) for key in (1, 2, 1)] == [1, 2, 1]  # type: ignore[misc]


def test_who_wants_a_fresh_look_takes_one_that_began_after_it_was_asked_for() -> None:
    shared, began, may_end = Shared[int](), threading.Event(), threading.Event()
    values, asking = iter(range(10)), threading.Semaphore(0)

    def slow() -> int:
        began.set()
        may_end.wait(10)
        return next(values)

    def ask() -> int:
        asking.release()
        return shared.get("a", slow, fresh=True)

    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(shared.get, "a", slow, fresh=True)
        began.wait(10)
        others = [pool.submit(ask) for _ in range(3)]
        assert all(asking.acquire(timeout=10) for _ in others)
        may_end.set()
        found = [first.result(10), *(each.result(10) for each in others)]

    # Whoever asked while the first one read must not get that look: rows may have changed since it began.
    assert found[0] == 0
    assert 0 not in found[1:]


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # of threads and fork, which is the point
def test_a_forked_child_does_not_wait_for_a_look_of_its_parent() -> None:
    shared, began, may_end = Shared[int](), threading.Event(), threading.Event()

    def slow() -> int:
        began.set()
        may_end.wait(20)
        return 1

    with ThreadPoolExecutor(1) as pool:
        parents = pool.submit(shared.get, "a", slow)
        began.wait(10)
        try:
            assert _in_a_child(lambda: shared.get("a", lambda: 2) == 2)
        finally:
            may_end.set()
        assert parents.result(10) == 1


def _in_a_child(holds: Callable[[], bool]) -> bool:
    """Tell whether something holds in a forked child within ten seconds."""
    pid = os.fork()
    if pid == 0:
        os._exit(0 if holds() else 1)
    status: list[int] = []

    def ended() -> bool:
        found, code = os.waitpid(pid, os.WNOHANG)
        status.append(code)
        return found == pid

    try:
        until(ended, what="the child")
    except AssertionError:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        return False
    return status[-1] == 0
