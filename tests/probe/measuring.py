"""Handlers and receivers that measure and count."""

import os
import threading
import time
from collections.abc import Sequence
from typing import Any

import jobqueue
from jobqueue import job
from jobqueue.exceptions import JobQueueError


@job("probe.measure", max_attempts=1)
def measure(
    context: Any, *, gauges: Sequence[Any] = (), counts: Sequence[Any] = (), text: str = "", seconds: float = 0
) -> None:
    """Tell gauges [name, value, labels] and counts [name, n, labels], sleep, then fail if there is a text."""
    for name, value, labels in gauges:
        jobqueue.gauge(name, value, labels)
    for name, n, labels in counts:
        jobqueue.count(name, n, **labels)
    time.sleep(seconds)
    if text:
        raise RuntimeError(text)


@job("probe.count_in_threads")
def count_in_threads(context: Any, *, threads: int, times: int) -> None:
    """Count from several threads at once."""

    def count() -> None:
        for _ in range(times):
            jobqueue.count("calls", thread="other")

    started = [threading.Thread(target=count) for _ in range(threads)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()


@job("probe.count_in_fork")
def count_in_fork(context: Any) -> int:
    """Count in a process of its own, which has no right to; return its exit code: 7 where it was refused."""
    pid = os.fork()
    if pid == 0:
        try:
            jobqueue.count("forked")
        except JobQueueError:
            os._exit(7)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@job("probe.count_slowly")
def count_slowly(context: Any, *, times: int, seconds: float) -> None:
    """Count so many times, with a pause after each."""
    for _ in range(times):
        jobqueue.count("steps")
        time.sleep(seconds)
