"""Share what was just read between all who ask in one process, so that many who look cost as much as one.

The first who asks reads; whoever asks meanwhile waits for that answer, and whoever asks within the next second gets it
again. Nothing makes it forget sooner: what it holds is a look at a moment that it names.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

T = TypeVar("T")

SHARED_SECONDS: Final = 1.0


class _Slot(Generic[T]):
    """What was read for one key, and the lock of whoever reads."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.taken_at = self.read_at = float("-inf")  # when the reading began, and when it was over
        self.value: T | None = None

    def young(self) -> T | None:
        return self.value if time.monotonic() - self.taken_at < SHARED_SECONDS else None


class Shared(Generic[T]):
    """Holds the newest answer by key. Safe to be used by many threads."""

    def __init__(self) -> None:
        self._slots: dict[Hashable, _Slot[T]] = {}
        # A child that is forked while some thread reads would wait for ever for a lock that nobody gives back.
        os.register_at_fork(after_in_child=self.forget)

    def get(self, key: Hashable, read: Callable[[], T], *, fresh: bool = False) -> T:
        """Return the answer for a key, read now where there is none or `fresh` wants it. Raises what `read` raises."""
        slot = self._slots.setdefault(key, _Slot())
        asked_at = time.monotonic()
        if not fresh and (value := slot.young()) is not None:
            return value
        with slot.lock:
            # Somebody may have read it while this thread waited: good enough, and for `fresh` if begun since it asked.
            # However long that took: with a database that does not answer, each would wait for its own time-out else.
            if slot.value is not None and (slot.taken_at if fresh else slot.read_at) > asked_at:
                return slot.value
            began = time.monotonic()
            value = read()
            slot.value, slot.taken_at, slot.read_at = value, began, time.monotonic()
            return value

    def forget(self) -> None:
        """Read anew for whoever asks next."""
        self._slots = {}
