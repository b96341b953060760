"""How many attempts end a second of late, by looks at a number that only grows."""

from __future__ import annotations

from collections import deque
from typing import Final

WINDOW_SECONDS: Final = 60.0


class Tempo:
    """Keeps the looks of the last minute, and the newest one before it."""

    def __init__(self) -> None:
        self._looks: deque[tuple[float, int]] = deque()

    def look(self, at: float, ended: int) -> float | None:
        """Note how many have ended by a monotonic time; return the rate of the last minute, None at the first look."""
        while len(self._looks) > 1 and self._looks[1][0] <= at - WINDOW_SECONDS:
            self._looks.popleft()
        self._looks.append((at, ended))
        since, before = self._looks[0]
        return (ended - before) / (at - since) if at > since else None
