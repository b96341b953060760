"""The one place where a test waits: for a condition, with a bound."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

LOOK_EVERY_SECONDS = 0.02
_never = threading.Event()


def until(look: Callable[[], T | None], *, within: float = 10, what: str | Callable[[], str] = "") -> T:
    """Return the first answer of look() that is true; fail with what was waited for, after `within` seconds."""
    give_up = time.monotonic() + within
    while True:
        answer = look()
        if answer:
            return answer
        if time.monotonic() > give_up:
            told = what() if callable(what) else what
            raise AssertionError(f"not within {within} s: {told or getattr(look, '__name__', look)}")
        _never.wait(LOOK_EVERY_SECONDS)


def holds_for(seconds: float, look: Callable[[], object], *, what: str = "") -> None:
    """Fail as soon as look() is not true during the given time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert look(), what
        _never.wait(LOOK_EVERY_SECONDS)
