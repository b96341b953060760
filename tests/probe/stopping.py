"""Handlers that take their time, and those that resist being stopped."""

import ctypes
import os
import signal
import threading
import time
from typing import Any

from jobqueue import Limits, job

from .effects import record


@job("probe.mark")
def mark(context: Any, *, seconds: float = 0, **payload: Any) -> Any:
    """Record the start, sleep, record the end."""
    record(context, "start")
    time.sleep(seconds)
    record(context, "end")
    return context.attempt


@job("probe.step_loop")
def step_loop(context: Any, *, seconds: float, every: float = 0.1) -> None:
    """Record a step again and again."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        record(context, "step")
        time.sleep(every)


@job("probe.spin")
def spin(context: Any, *, seconds: float) -> None:
    """Compute without a pause."""
    record(context, "start")
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


@job("probe.mark_hold_gil")
def mark_hold_gil(context: Any, *, seconds: float) -> None:
    """Record the start, then sleep in C without letting go of the GIL."""
    record(context, "start")
    ctypes.PyDLL(None).usleep(int(seconds * 1e6))


@job("probe.wait_at")
def wait_at(context: Any, *, gate: str, hold_gil: bool = False) -> None:
    """Wait until a byte comes through a named pipe, with or without letting go of the GIL."""
    pipe = os.open(gate, os.O_RDWR)  # for writing, too: opening it waits for nobody
    record(context, "start")
    if hold_gil:
        while ctypes.PyDLL(None).read(pipe, ctypes.create_string_buffer(1), 1) != 1:
            pass
    else:
        os.read(pipe, 1)
    os.close(pipe)
    record(context, "end")


@job("probe.tidy_stop")
def tidy_stop(context: Any, *, seconds: float) -> None:
    """Clean up when stopped, and say why."""
    record(context, "start")
    try:
        time.sleep(seconds)
    except BaseException as error:
        record(context, "stopped", type(error).__name__)
        raise


class _Slow:
    """Takes its time to go; what is raised meanwhile goes nowhere."""

    def __del__(self) -> None:
        time.sleep(2)


@job("probe.drops_slowly")
def drops_slowly(context: Any) -> None:
    """Be in a destructor for two seconds, then wait; say why that ended."""
    slow = _Slow()
    record(context, "start")
    try:
        del slow
        time.sleep(60)
    except BaseException as error:
        record(context, "stopped", type(error).__name__)
        raise


@job("probe.looks_for_cancel")
def looks_for_cancel(context: Any, *, seconds: float) -> str:
    """End in good order when the job is cancelled: the request is seen, and the order to stop is put off."""
    record(context, "start")
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if context.cancelled:
                return "ended by itself"
            time.sleep(0.02)
        except BaseException:
            continue
    return "never asked"


@job("probe.sleep_then_boom")
def sleep_then_boom(context: Any, *, seconds: float) -> None:
    """Fail whatever happens: a stop too ends in an error of its own."""
    record(context, "start")
    try:
        time.sleep(seconds)
    finally:
        raise RuntimeError("boom")


@job("probe.swallow_stop", limits=Limits(duration=0.6))
def swallow_stop(context: Any) -> str:
    """Swallow the order to stop and return as if nothing had happened."""
    try:
        time.sleep(30)
    except BaseException:
        return "success"
    return "slept"


@job("probe.stubborn", limits=Limits(duration=0.6))
def stubborn(context: Any, *, how: str) -> None:
    """Run for ever, in a way that an order to stop does not reach."""
    record(context, "start")
    if how == "hold_gil":
        while True:  # usleep alone ends early at a signal
            ctypes.PyDLL(None).usleep(60_000_000)
    elif how == "native":
        sum(range(10**11))  # in C, which looks at no signal
    elif how == "thread":
        thread = threading.Thread(target=_for_ever, name="for-ever")
        thread.start()
        thread.join()
    elif how == "ignored":
        for number in (signal.SIGALRM, signal.SIGRTMIN + 4):
            signal.signal(number, signal.SIG_IGN)
        _for_ever()
    else:
        _for_ever()


def _for_ever() -> None:
    while True:
        try:
            time.sleep(0.05)
        except BaseException:
            continue


@job("probe.limited", limits=Limits(duration=1))
def limited(context: Any, *, seconds: float) -> None:
    """Sleep under a limit of one second."""
    record(context, "start")
    time.sleep(seconds)


@job("probe.dead_late", limits=Limits(duration=0.5), on_deadline="dead")
def dead_late(context: Any) -> None:
    """Be late, which is for good."""
    time.sleep(30)


@job("probe.slices")
def slices(context: Any, *, count: int) -> None:
    """Sleep in slices of a tenth of a second: while the process is frozen, none passes."""
    for number in range(count):
        record(context, "slice", number)
        time.sleep(0.1)


@job("probe.forgets_alarm")
def forgets_alarm(context: Any) -> None:
    """Set an alarm, whose default is to end the process, and return."""
    signal.alarm(1)


@job("probe.naps")
def naps(context: Any, *, seconds: float) -> None:
    """Sleep in short naps: an order to stop is obeyed between two of them."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.02)


@job("probe.reads_in_c")
def reads_in_c(context: Any, *, seconds: float) -> int:
    """Be in a system call of a library that takes no interruption for an answer; return what it returned."""
    reader, writer = os.pipe()
    threading.Timer(seconds, lambda: os.write(writer, b"x")).start()
    record(context, "start")
    return int(ctypes.CDLL(None).read(reader, ctypes.create_string_buffer(1), 1))
