"""The handlers that are measured: they do nothing, or say when they began, or keep a slot or a processor taken."""

import time
from typing import Any

from jobqueue import job

from .peers.drivers.tally import mark
from .tally import shared_tally

NOTHING, STAMP, PAUSE, MARK = "benchmarks.nothing", "benchmarks.stamp", "benchmarks.pause", "benchmarks.mark"
SLEEP, BURN = "benchmarks.sleep", "benchmarks.burn"
TEXT = "a payload of the size that small jobs have"


@job(NOTHING)
def nothing(context: Any, *, number: int, text: str) -> None:
    """Do nothing but count the run, where runs are counted."""
    _count(number)


@job(STAMP)
def stamp(context: Any, *, number: int) -> None:
    """Write down when the handler began."""
    now = time.monotonic_ns()
    tally = shared_tally()
    if tally is not None:
        tally.values[number] = now


@job(MARK)
def mark_run(context: Any, *, number: int) -> None:
    """Do what the handlers of the peers do."""
    mark(number)


@job(PAUSE)
def pause(context: Any, *, seconds: float) -> None:
    """Keep a slot taken without using the processor."""
    time.sleep(seconds)


@job(SLEEP)
def sleep(context: Any, *, number: int, seconds: float) -> None:
    """Keep a slot taken for a moment, and count the run."""
    time.sleep(seconds)
    _count(number)


@job(BURN)
def burn(context: Any, *, number: int, steps: int) -> None:
    """Keep a processor busy with so many steps, and count the run."""
    work(steps)
    _count(number)


def work(steps: int) -> int:
    """Do arithmetic in pure Python, the same for each step; some 10 to 30 ns a step."""
    value = 1
    for _ in range(steps):
        value = (value * 5 + 1) & 1023
    return value


def _count(number: int) -> None:
    tally = shared_tally()
    if tally is not None:
        tally.values[number] += 1


def payload(number: int) -> dict[str, Any]:
    """Return the payload of one no-op."""
    return {"number": number, "text": TEXT}
