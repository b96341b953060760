"""One number a job, in a file that all children map: what the handlers did, told by them and not by the database."""

from __future__ import annotations

import functools
import mmap
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

VARIABLE = "BENCHMARKS_TALLY"
BYTES_A_NUMBER = 8


class Tally:
    """A shared array of 64-bit numbers, all 0 at first."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        self.values = memoryview(self._map).cast("Q")

    def close(self) -> None:
        """Unmap the file."""
        self.values.release()
        self._map.close()


@functools.cache
def shared_tally() -> Tally | None:
    """Return the tally that the environment names, or None: nothing is counted then."""
    path = os.environ.get(VARIABLE)
    return Tally(Path(path)) if path else None


@contextmanager
def new_tally(size: int) -> Iterator[Tally]:
    """Make a tally of so many numbers; workers take part through the environment {VARIABLE: str(tally.path)}."""
    with tempfile.NamedTemporaryFile(prefix="jobqueue-tally-") as file:
        file.truncate(size * BYTES_A_NUMBER)
        tally = Tally(Path(file.name))
        try:
            yield tally
        finally:
            tally.close()
