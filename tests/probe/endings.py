"""Handlers that end in every way that a function or a process can end."""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any, NoReturn

from jobqueue import Backoff, Retry, job

from .effects import record


class Demanding(Exception):
    """Cannot be rebuilt from its text: two arguments are required."""

    def __init__(self, first: object, second: object) -> None:
        super().__init__(f"{first} and {second}")
        self.first, self.second = first, second


class Holding(Exception):
    """Holds what cannot be pickled."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.lock = threading.Lock()
        self.generator = _numbers()


class Unprintable(Exception):
    """Fails to tell its own message."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


class Sudden(BaseException):
    """A BaseException of the project's own."""


def _numbers() -> Iterator[int]:
    yield 1


def _demanding() -> NoReturn:
    try:
        raise Demanding("one", "two")
    except Demanding as error:
        raise Demanding("three", "four") from error


@job("probe.raises", max_attempts=1)
def raises(context: Any, *, kind: str) -> None:
    """Raise something unusual."""
    record(context, "start")
    if kind == "demanding":
        _demanding()
    if kind == "recursion":
        _recurse(0)
    if kind == "exit":
        sys.exit(0)
    raise {
        "holding": Holding("holding"),
        "unprintable": Unprintable(),
        "sudden": Sudden("sudden"),
        "keyboard": KeyboardInterrupt(),
        "generator": GeneratorExit(),
        "stop_iteration": StopIteration(),
        "exit_3": SystemExit(3),
        "exit_text": SystemExit("bye"),
    }[kind]


def _recurse(depth: int) -> int:
    return _recurse(depth + 1) + 1


@job("probe.quits", max_attempts=1)
def quits(context: Any, *, code: int) -> None:
    """End the process itself, without a word."""
    os._exit(code)


@job("probe.mark_segv", max_attempts=3, backoff=Backoff(base=0.1, cap=0.2))
def mark_segv(context: Any) -> None:
    """Record the start and crash."""
    import ctypes

    record(context, "start")
    ctypes.string_at(0)


@job("probe.boom_in", max_attempts=2, backoff=Backoff(base=0.1, cap=0.2))
def boom_in(context: Any, *, text: str, times: int = 1) -> None:
    """Fail with a text, perhaps a very long one."""
    raise RuntimeError(text.replace("<nul>", "\x00") * times)


@job("probe.flaky", max_attempts=5, backoff=Backoff(base=0.1, cap=0.2))
def flaky(context: Any, *, failures: int) -> Any:
    """Fail so many times, then succeed."""
    record(context, "start")
    if context.attempt <= failures:
        raise RuntimeError("not yet")
    return context.attempt


@job("probe.ret")
def ret(context: Any, *, size: int) -> str:
    """Return a text of so many bytes as JSON writes it, quotes included."""
    return "x" * (size - 2)


@job("probe.ret_value", max_attempts=1)
def ret_value(context: Any, *, kind: str) -> Any:
    """Return what JSON cannot hold, after an effect."""
    record(context, "start")
    values: dict[str, Any] = {
        "nan": float("nan"),
        "inf": [float("inf")],
        "set": {1, 2},
        "nul": {"a": "x\x00y"},
        "surrogate": "\ud800",
        "object": object(),
    }
    return values[kind]


@job("probe.retry_after", max_attempts=2)
def retry_after(context: Any, *, delay: float) -> None:
    """Ask for a retry, not earlier than that."""
    raise Retry(delay=delay)


@job("probe.plain_backoff", max_attempts=2, backoff=Backoff(base=10, cap=100))
def plain_backoff(context: Any) -> None:
    """Fail, to be tried again in ten seconds or a little more."""
    raise RuntimeError("boom")


@job("probe.steep_backoff", max_attempts=5000, backoff=Backoff(base=3600, factor=10, cap=7200))
def steep_backoff(context: Any) -> None:
    """Fail with a backoff that would overflow anything."""
    raise RuntimeError("boom")


@job("probe.snooze_once")
def snooze_once(context: Any) -> Any:
    """Be put off once: which run this is tells the lease epoch."""
    from jobqueue import Snooze

    record(context, "start")
    if context.lease_epoch == 1:
        raise Snooze(0.2)
    return context.attempt


@job("probe.killed_by_itself")
def killed_by_itself(context: Any) -> None:
    """Die as by the kernel's OOM killer."""
    record(context, "start")
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(10)
