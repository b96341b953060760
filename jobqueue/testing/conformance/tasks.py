"""What the checks enqueue. Nothing here asks for more than every backend has, so that it can be imported under any."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

from . import trace
from .api import task


@task()
def marks(mark: str) -> str:
    """Tell that it ran."""
    trace.write("ran", mark)
    return mark


@task()
def echoes(*args: Any, **kwargs: Any) -> Any:
    """Return what it was given."""
    return {"args": list(args), "kwargs": kwargs}


@task()
def returns_tuple() -> Any:
    """Return what JSON has no word for, but a like of."""
    return (1, (2, "drei"), {"vier": None})


@task()
def fails(mark: str) -> None:
    """Fail."""
    trace.write("ran", mark)
    raise ValueError(f"failed on purpose: {mark}")


@task(takes_context=True)
def tells_context(context: Any) -> Any:
    """Return what the context says."""
    return [str(context.task_result.id), context.attempt]


@task()
def exits() -> None:
    """Ask the process to end, politely."""
    raise SystemExit(3)


@task()
def interrupts() -> None:
    """End as Ctrl-C would."""
    raise KeyboardInterrupt


class Severe(BaseException):
    """No Exception."""


@task()
def raises_base() -> None:
    """Raise what `except Exception` lets through."""
    raise Severe("no Exception")


@task()
def returns_object() -> Any:
    """Return what is no JSON."""
    return object()


@task()
def returns_nan() -> Any:
    """Return what Python's JSON has, and the standard's has not."""
    return float("nan")


@task()
def returns_nul() -> Any:
    """Return a text that PostgreSQL cannot hold."""
    return "a\0b"


class Unpicklable(Exception):
    """Holds a lock, and refuses to be copied."""

    def __init__(self) -> None:
        super().__init__(threading.Lock())

    def __reduce__(self) -> Any:
        raise TypeError("cannot be pickled")


@task()
def raises_unpicklable() -> None:
    """Raise what no pickle can carry."""
    raise Unpicklable


@task()
def raises_huge() -> None:
    """Raise with a message of five million characters."""
    raise ValueError("x" * 5_000_000)


class Speechless(Exception):
    """Fails again where it is to be told."""

    def __str__(self) -> str:
        raise RuntimeError("no text for this")


@task()
def raises_speechless() -> None:
    """Raise what cannot be turned into text."""
    raise Speechless


@task()
def raises_nul() -> None:
    """Raise with a message that PostgreSQL cannot hold."""
    raise ValueError("a\0b")


@task()
def raises_surrogate() -> None:
    """Raise with a message that UTF-8 cannot hold."""
    raise ValueError("half a pair: \ud800")


@task()
def closes_connections() -> None:
    """Leave every connection closed."""
    from django.db import connections  # noqa: PLC0415

    connections.close_all()


@task()
def takes_its_time(mark: str, seconds: float) -> None:
    """Work for a while on the first run, and end at once on any other."""
    first = not trace.read("began", mark)
    trace.write("began", mark)
    if first:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(0.1)


@task()
def kills_its_process(mark: str) -> None:
    """Die as the kernel's out-of-memory killer has one die."""
    trace.write("began", mark)
    os.kill(os.getpid(), signal.SIGKILL)


@task()
def leaves_its_process(mark: str) -> None:
    """End the process behind the worker's back."""
    trace.write("began", mark)
    os._exit(3)


#: Not a task: checks make one of it, if they can.
def needs_context(first: Any) -> None:
    """Take a first argument that is not called context."""
