"""The harness's side of the tally that every handler marks (drivers/tally.py): how many began, when, how often."""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .drivers.tally import AGAIN, BYTES
from .errors import LostOrDoubled

SIZE = 8_000_000  # jobs; the file is sparse
NEAR, LOOKS_A_FAR_LOOK = 1_000, 20
# In memory where there is such a folder, so that writing the file out does not disturb what is measured.
FOLDER = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


class Tally:
    """When the handlers of jobs began, by number."""

    def __init__(self, path: Path, size: int) -> None:
        self.path, self.size = path, size
        self._cursor = self._looks = 0
        self._map()

    def close(self) -> None:
        """Unmap the file."""
        self._values.release()
        self._mapped.close()

    def empty(self) -> None:
        """Forget all marks. No worker may run: a truncated file takes the map from under its feet."""
        self.close()
        os.truncate(self.path, 0)
        os.truncate(self.path, self.size * BYTES)
        self._cursor = 0
        self._map()

    def all_began(self, end: int) -> bool:
        """Tell whether every job below that number has begun; cheap enough to ask all the time."""
        while self._cursor < end and self._values[self._cursor]:
            self._cursor += 1
        return self._cursor >= end

    def starts(self, first: int, end: int) -> list[int]:
        """Return when each of those handlers first began, in CLOCK_MONOTONIC nanoseconds; 0 where it has not."""
        return [value % AGAIN for value in self._values[first:end]]

    def began(self, first: int, end: int) -> int:
        """Return how many of those handlers have begun."""
        return end - first - self._values[first:end].tolist().count(0)

    def any_began(self, first: int, end: int) -> bool:
        """Tell whether one of those handlers has begun; cheap, since the first jobs are asked first."""
        near = min(end, first + NEAR)
        return any(self._values[first:near].tolist()) or (self._far_look() and any(self._values[near:end].tolist()))

    def first_start(self, first: int, end: int) -> int:
        """Return when the first of those handlers began, in CLOCK_MONOTONIC nanoseconds."""
        return min(start for start in self.starts(first, end) if start)

    def check_once(self, first: int, end: int, *, all_of_them: bool = True) -> None:
        """Raise LostOrDoubled unless each of those jobs began once; at most once, where not all had the time."""
        values = self._values[first:end].tolist()
        doubled = sum(1 for value in values if value >= AGAIN)
        lost = values.count(0) if all_of_them else 0
        if doubled or lost:
            raise LostOrDoubled(
                f"lost/doubled: of {len(values):,} jobs {lost:,} never ran and {doubled:,} ran twice or more"
            )

    def _far_look(self) -> bool:
        """Tell now and then that it is time to look at all numbers: not every peer begins with the first."""
        self._looks += 1
        return self._looks % LOOKS_A_FAR_LOOK == 0

    def _map(self) -> None:
        with self.path.open("r+b") as file:
            self._mapped = mmap.mmap(file.fileno(), 0)
        self._values = memoryview(self._mapped).cast("Q")


@contextmanager
def new_tally(size: int = SIZE) -> Iterator[Tally]:
    """Make an empty tally for so many jobs; gone at the end of the block."""
    with tempfile.NamedTemporaryFile(prefix="jobqueue-tally-", dir=FOLDER) as file:
        file.truncate(size * BYTES)
        tally = Tally(Path(file.name), size)
        try:
            yield tally
        finally:
            tally.close()
