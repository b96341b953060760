"""Gauges, counters and the worker's row: from the handler's call through the heartbeat to what is read."""

import os
import signal
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import Sum

from jobqueue.conf import get_settings
from jobqueue.managers.sessions import Session
from jobqueue.models import Counter, Worker
from jobqueue.ops.gauges import count_over, gauge_over_workers
from jobqueue.registry import PolicyTable
from jobqueue.states import Status
from jobqueue.worker.options import WorkerOptions
from jobqueue.worker.registration import Registration

from . import processes
from .effects import Effects
from .forwarder import Forwarder
from .kinds import Enqueue, Launch, Terminate, WaitFor
from .waiting import until

HOUR = timedelta(hours=1)


def row() -> Any:
    return Worker.objects.get()


def counted(name: str) -> float:
    return Counter.objects.filter(name=name).aggregate(total=Sum("amount"))["total"] or 0.0


def test_what_a_handler_tells_comes_with_the_heartbeat(launch: Launch, enqueue: Enqueue, wait_for: WaitFor) -> None:
    launch("--processes", "1")
    gauges = [["ports", 27, {"provider": "acme"}], ["ports", 30, {"provider": "other"}], ["free", 0.5, {}]]
    wait_for(enqueue("measure", gauges=gauges, counts=[["sessions", 2, {"end": "block"}], ["sessions", 1, {}]]))

    until(lambda: len(row().gauges) == 3 and counted("sessions") == 3, what="the beat")

    (port, *_) = [found for found in row().gauges if found["labels"] == {"provider": "acme"}]
    assert (port["name"], port["value"]) == ("ports", 27)
    assert 0 <= port["at_seconds_ago"] < 30
    assert gauge_over_workers("ports", aggregate="min") == 27
    assert count_over("sessions", {"end": "block"}, HOUR) == 2


def test_the_last_value_of_a_gauge_counts_and_counts_add_up(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor
) -> None:
    launch("--processes", "2")
    for number in range(20):
        wait_for(enqueue("measure", gauges=[["depth", number, {}]], counts=[["runs", 1, {}]]))

    until(lambda: counted("runs") == 20, what="twenty runs")
    until(lambda: gauge_over_workers("depth") == 19, what="the last value")


def test_what_was_counted_before_a_failure_or_a_kill_stays_counted(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor
) -> None:
    worker = launch("--processes", "1", LIMITS={"probe.measure": {"duration": 60}})
    wait_for(enqueue("measure", counts=[["tries", 1, {}]], text="boom"), Status.DEAD)
    killed = enqueue("measure", counts=[["tries", 5, {}]], seconds=60)
    until(lambda: counted("tries") == 6, what="both")

    os.kill(worker.children[0], signal.SIGKILL)

    wait_for(killed, Status.DEAD)
    wait_for(enqueue("measure", counts=[["tries", 1, {}]]))
    until(lambda: counted("tries") == 7, what="the one after the kill")


def test_threads_of_a_handler_may_count(launch: Launch, enqueue: Enqueue, wait_for: WaitFor) -> None:
    """Frames of several threads, and of several slots of one child, are never cut into one another."""
    launch("--processes", "1", "--threads", "3")
    jobs = [enqueue("count_in_threads", threads=4, times=500) for _ in range(3)]

    for job in jobs:
        wait_for(job)

    until(lambda: counted("calls") == 6_000, what=lambda: f"6,000 calls, not {counted('calls')}")


def test_a_process_that_a_handler_forks_is_refused(launch: Launch, enqueue: Enqueue, wait_for: WaitFor) -> None:
    launch("--processes", "1")

    assert wait_for(enqueue("count_in_fork")).result == 7


def test_a_worker_that_stops_writes_down_what_was_counted(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, terminate: Terminate
) -> None:
    """With a lease of a minute the next beat would be ten seconds away."""
    worker = launch("--processes", "1", LEASE_SECONDS=60)
    until(lambda: row().memory_bytes, what="the first beat")
    wait_for(enqueue("measure", counts=[["last", 3, {}]]))

    assert terminate(worker) == 0

    assert counted("last") == 3
    assert not Worker.objects.exists()


@pytest.mark.faults
def test_counts_outlast_an_outage_and_none_is_doubled(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, proxy: Forwarder, through_proxy: dict[str, str]
) -> None:
    """Beats are written whose answers are lost, again and again: in the end each call is counted, and counted once."""
    proxy.open()
    worker = launch("--processes", "1", env=through_proxy, LEASE_SECONDS=12)
    job = enqueue("count_slowly", times=1_200, seconds=0.01)
    for _ in range(3):
        proxy.drop_answers("jobqueue lease")
        before = counted("steps")
        until(lambda: counted("steps") > before, within=20, what="a beat that is written")  # noqa: B023
        proxy.reset("jobqueue lease")
    worker.says("heartbeat failed")
    proxy.shut()
    worker.says("database away", within=30)
    proxy.open()

    wait_for(job, within=40)

    until(lambda: counted("steps") >= 1_200, within=20, what=lambda: f"1,200 steps, not {counted('steps')}")
    assert counted("steps") == 1_200


def test_receivers_of_the_heartbeat_are_called_while_all_slots_are_busy(
    launch: Launch, enqueue: Enqueue, effects: Effects
) -> None:
    """In one child, always the same, which is none of the busy ones."""
    worker = launch("--processes", "2", env={"PROBE_RECEIVERS": "heartbeat"}, LEASE_SECONDS=6, SHUTDOWN_TIMEOUT=0.2)
    worker.expected_to_end = True
    for _ in range(2):
        enqueue("mark", seconds=60)
    busy = {start.pid for start in effects.wait("start", times=2)}

    until(lambda: counted("heartbeats") >= 4, what="beats")

    pid = gauge_over_workers("receiver_pid")
    assert pid not in busy
    assert pid in worker.children
    assert len(worker.children) == 3
    before = counted("heartbeats")
    until(lambda: counted("heartbeats") > before, what="a further beat")
    assert gauge_over_workers("receiver_pid") == pid


def test_without_receivers_there_is_no_child_for_them(launch: Launch, enqueue: Enqueue, wait_for: WaitFor) -> None:
    worker = launch("--processes", "2")
    before = row().heartbeat_at
    until(lambda: row().heartbeat_at > before, what="a beat")
    wait_for(enqueue("ok"))

    assert len(worker.children) == 2


def test_the_row_tells_what_the_worker_uses_and_has_done(launch: Launch, enqueue: Enqueue, wait_for: WaitFor) -> None:
    worker = launch("--processes", "2")
    for _ in range(3):
        wait_for(enqueue("ok"))

    until(lambda: row().jobs_ended == 3 and row().listening, what="a beat that tells of three jobs")

    tree = [worker.pid, worker.zygote, *worker.children]
    resident_mb = sum(map(processes.resident_mb, tree))
    assert resident_mb / 5 < row().memory_bytes / 2**20 <= resident_mb, "shared pages are counted once"
    until(lambda: row().clock_skew_seconds is not None, what="a second beat")
    assert abs(row().clock_skew_seconds) < 1, "the server runs on this host"


@pytest.mark.django_db(transaction=True)
def test_memory_is_measured_while_something_happens_and_now_and_then_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes longer than all else that an idle worker's heartbeat does."""
    now = {"clock": 100.0, "busy": 0, "ended": 0}
    options = WorkerOptions.make(get_settings(), alias="default")
    registration = Registration(options, 4, ["*"], lambda: int(now["busy"]))
    registration.jobs_ended = lambda: int(now["ended"])
    monkeypatch.setattr("jobqueue.worker.registration.time.monotonic", lambda: now["clock"])
    session = Session("default", "jobqueue test")

    def tells(clock: float, busy: int, ended: int) -> bool:
        now.update(clock=clock, busy=busy, ended=ended)
        Worker.objects.filter(pk=options.worker_id).update(memory_bytes=None)
        registration.beat(session)
        return row().memory_bytes is not None

    try:
        assert [tells(100, 0, 0), tells(110, 0, 0)] == [True, False]
        assert [tells(120, 1, 0), tells(130, 1, 0)] == [True, True]
        assert [tells(140, 0, 1), tells(150, 0, 1)] == [True, False]
        assert [tells(199, 0, 1), tells(201, 0, 1)] == [False, True]
    finally:
        session.close()


@pytest.mark.django_db(transaction=True)
def test_memory_is_measured_again_once_there_are_children() -> None:
    """The first heartbeat is before any, and a worker that does nothing would have told of that for a minute."""
    options = WorkerOptions.make(get_settings(), alias="default")
    registration = Registration(options, 4, ["*"], lambda: 0)
    session = Session("default", "jobqueue test")
    try:
        registration.register(session, PolicyTable({}), ready=lambda run: None, stopped=lambda: False)
        Worker.objects.update(memory_bytes=None)

        registration.beat(session)
    finally:
        session.close()

    assert row().memory_bytes is not None


def test_a_worker_that_hears_nothing_says_so(launch: Launch) -> None:
    launch("--processes", "1", NOTIFY=False)

    until(lambda: row().listening is False, what="a beat")
