"""An order to stop that comes at a bad moment: while another one is being followed, or just as the handler ends."""

import asyncio
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest

import jobqueue.children.child as child_module
import jobqueue.children.context as context_module
from jobqueue.children.child import Child, _Guard
from jobqueue.children.context import Context
from jobqueue.children.coroutines import SharedLoop
from jobqueue.children.costs import Costs
from jobqueue.children.launcher import Channels
from jobqueue.children.protocol import CANCEL, Work, send_message
from jobqueue.exceptions import JobCancelled

from .waiting import until

WORK = Work(7, 1, "probe.ok", "default", 1, 3, 2, "{}")


class Lock:
    """Calls something in the moment after it was let go."""

    def __init__(self, after: Callable[[], object]) -> None:
        self._after: Callable[[], object] | None = after

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        after, self._after = self._after, None
        if after is not None:
            after()


def test_a_reminder_just_as_the_handler_ends_changes_no_reason() -> None:
    """The handler was cancelled on the loop that slots share: what it raised is told as the order that it followed."""
    child: Any = object.__new__(Child)
    control, _far = socket.socketpair()
    with control, _far:
        control.setblocking(False)
        child._control, child._slots, child._threads = control, 4, 0
        child._armed, child._stopped, child._told = {}, {}, set()
        child._stop_lock = Lock(after=child._on_stop_signal)

        def run() -> None:
            with _Guard(child, WORK):
                child._stopped[WORK[:2]] = CANCEL
                child._told.add(WORK[:2])
                raise asyncio.CancelledError

        with pytest.raises(JobCancelled):
            run()

    assert (child._armed, child._stopped, child._told) == ({}, {}, set())


class Loop:
    """An event loop that is asked again while it is being asked."""

    def __init__(self, shared: SharedLoop) -> None:
        self.shared, self.asked = shared, 0

    def call_soon_threadsafe(self, *_: object) -> None:
        self.asked += 1
        if self.asked == 1:
            self.shared.cancel("b")


def test_a_second_order_while_the_first_is_followed_hangs_nothing() -> None:
    """A worker that stops sends one signal for each running job, at once."""
    shared = SharedLoop()
    loop = Loop(shared)
    shared._loop = cast(asyncio.AbstractEventLoop, loop)
    shared._keys = {"a", "b"}

    thread = threading.Thread(target=shared.cancel, args=["a"], daemon=True)
    thread.start()
    thread.join(5)

    assert (thread.is_alive(), loop.asked) == (False, 2)


def test_costs_that_threads_report_at_the_same_time_all_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """context.complete() writes the sum that stands here."""
    both_begin = threading.Barrier(2)

    class Slow(Costs):
        def __init__(self) -> None:
            super().__init__()
            with suppress(threading.BrokenBarrierError):
                both_begin.wait(0.3)  # for the other thread, which comes only where nothing keeps it out

    monkeypatch.setattr(context_module, "Costs", Slow)
    reporter: Any = type("Nobody", (), {"cost": lambda *_: None})()
    context = Context(WORK, "w", reporter)
    threads = [threading.Thread(target=context.add_cost, args=[name, 1]) for name in ("tokens", "pages")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)

    assert sorted(line.component for line in context.costs) == ["pages", "tokens"]


def test_a_slot_whose_supervisor_is_gone_ends_its_process_without_a_word(tmp_path: Path) -> None:
    """It cannot tell its end to anybody: that is no error, in a thread as little as in the main thread."""
    channels, told = Channels.open(), tmp_path / "stderr"
    parent, pid = os.getpid(), os.fork()
    if not pid:
        sys.stderr = told.open("w", buffering=1)
        for mine in (channels.inbox, channels.results, channels.control):
            mine.close()
        results, control = channels.far_ends
        ends = (channels.inbox_far, results, control)
        child_module.main(key="c", worker_id="w", slots=2, zygote=parent, sockets=ends, memory=channels.memory.fileno())
    channels.results.close()
    send_message(channels.inbox, WORK)

    codes: list[int] = []

    def has_ended() -> bool:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            codes.append(os.waitstatus_to_exitcode(status))
        return bool(codes)

    try:
        until(has_ended, what="the child's end")
    finally:
        if not codes:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        channels.close()
    assert (codes, told.read_text()) == ([0], "")
