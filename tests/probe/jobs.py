"""Handlers that do one thing each, for tests of the worker: end well, badly, late, or not at all."""

import ctypes
import os
import time
from typing import Any

from jobqueue import Backoff, Dead, Discard, Limits, Retry, Snooze, job

from . import coroutines, databases, endings, measuring, records, resources, spending, stopping
from .receivers import connect_receivers
from .resources import refuse_forks

MODULES = (
    coroutines,
    databases,
    endings,
    measuring,
    records,
    resources,
    spending,
    stopping,
)  # imported so that their handlers are found


@job("probe.ok")
def ok(context: Any, **payload: Any) -> dict[str, Any]:
    """End well, and say which process did it."""
    return {"pid": os.getpid()}


@job("probe.echo")
def echo(context: Any, *, value: Any = None) -> Any:
    """Return the value."""
    return value


@job("probe.boom")
def boom(context: Any, *, text: str = "boom") -> None:
    """Fail with the text."""
    raise RuntimeError(text)


@job("probe.sleep")
def sleep(context: Any, *, seconds: float) -> dict[str, int]:
    """Sleep, interruptibly."""
    time.sleep(seconds)
    return {"pid": os.getpid()}


@job("probe.hold_gil")
def hold_gil(context: Any, *, seconds: float) -> None:
    """Sleep in C without letting go of the GIL: no Python code of the process runs meanwhile."""
    ctypes.PyDLL(None).usleep(int(seconds * 1e6))


@job("probe.segv")
def segv(context: Any) -> None:
    """Crash the process by a read from address 0."""
    ctypes.string_at(0)


@job("probe.retry")
def retry(context: Any, *, delay: float) -> None:
    """Ask for a retry after a delay."""
    raise Retry(delay=delay, reason="the partner said wait")


@job("probe.snooze")
def snooze(context: Any, *, delay: float) -> None:
    """Ask to be run later, uncharged."""
    raise Snooze(delay)


@job("probe.discard")
def discard(context: Any, *, reason: str = "not needed") -> None:
    """Give the job up."""
    raise Discard(reason)


@job("probe.give_up")
def give_up(context: Any, *, reason: str = "no use") -> None:
    """Say that no further attempt can succeed."""
    raise Dead(reason)


@job("probe.impatient", backoff=Backoff(base=1, cap=1, jitter=0), priority=7, max_attempts=9, queue="probes")
def impatient(context: Any) -> None:
    """Declare everything that an enqueue may leave out."""
    raise RuntimeError("boom")


@job("probe.stamp")
def stamp(context: Any) -> float:
    """Tell when the handler's first line ran, by the host's clock."""
    return time.time()


@job("probe.patient", limits=Limits(duration=1_000))
def patient(context: Any) -> None:
    """Be allowed to take longer than the settings call stuck."""


@job("probe.small_input", limits=Limits(payload_bytes=100, payload_fields={"document.page_count": 10}))
def small_input(context: Any, **payload: Any) -> str:
    """Say that the input was let through."""
    return "let through"


@job("probe.mail", queue="mail")
def mail(context: Any, *, seconds: float = 0) -> None:
    """Have a queue of its own."""
    time.sleep(seconds)


if "PROBE_EXTRA" in os.environ:  # a release that knows one more type than the last

    @job("probe.gone")
    def gone(context: Any) -> str:
        """Be known to the newer release only."""
        return "found again"


if "PROBE_FORKS_REFUSED" in os.environ:
    refuse_forks(*map(int, os.environ["PROBE_FORKS_REFUSED"].split(",")))

if "PROBE_BROKEN" in os.environ:
    raise RuntimeError("probe is broken")

time.sleep(float(os.environ.get("PROBE_IMPORT_SECONDS", "0")))
connect_receivers()
