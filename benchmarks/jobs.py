"""The handlers that are measured: they do nothing, or say when they began, or keep a slot taken."""

import time
from typing import Any

from jobqueue import job

from .tally import shared_tally

NOTHING, STAMP, PAUSE = "benchmarks.nothing", "benchmarks.stamp", "benchmarks.pause"
TEXT = "a payload of the size that small jobs have"


@job(NOTHING)
def nothing(context: Any, *, number: int, text: str) -> None:
    """Do nothing but count the run, where runs are counted."""
    tally = shared_tally()
    if tally is not None:
        tally.values[number] += 1


@job(STAMP)
def stamp(context: Any, *, number: int) -> None:
    """Write down when the handler began."""
    now = time.monotonic_ns()
    tally = shared_tally()
    if tally is not None:
        tally.values[number] = now


@job(PAUSE)
def pause(context: Any, *, seconds: float) -> None:
    """Keep a slot taken without using the processor."""
    time.sleep(seconds)


def payload(number: int) -> dict[str, Any]:
    """Return the payload of one no-op."""
    return {"number": number, "text": TEXT}
