"""How long a failed job waits before its next attempt."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any, Final

#: Far from the year 9999 however it is added up, and longer than anyone waits for a retry.
MAX_CAP_SECONDS: Final = 366 * 86_400


def compute_backoff(attempts: int, base: float = 5, cap: float = 600, factor: float = 2) -> float:
    """Return ``base * factor ** (attempts - 1)`` seconds, at most ``cap``.

    The power is taken in floating point, which overflows at once where whole numbers would grow to thousands of
    digits; an overflow is above any cap.
    """
    try:
        nominal = base * float(factor) ** (max(attempts, 1) - 1)
    except OverflowError:
        return float(cap)
    return float(min(nominal, cap))


@dataclass(frozen=True, slots=True)
class Backoff:
    """An exponential backoff: ``base`` seconds, times ``factor`` for each attempt, never over ``cap`` seconds.

    ``jitter`` is the largest share of the delay that is added at random. It only lengthens: a delay shortened at
    random would break a wait that a partner asked for, and jobs that failed together must not come back together.
    """

    base: float = 5.0
    factor: float = 2.0
    cap: float = 600.0
    jitter: float = 0.25

    def __post_init__(self) -> None:
        """Refuse what cannot be computed: a negative delay, a shrinking one, a cap past any date."""
        bounds = (("base", 0, MAX_CAP_SECONDS), ("factor", 1, 1000), ("cap", 0, MAX_CAP_SECONDS), ("jitter", 0, 1))
        for name, low, high in bounds:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ValueError(f"Backoff.{name} must be a number, not {value!r}")
            if not low <= value <= high:
                raise ValueError(f"Backoff.{name} must be from {low} to {high}, not {value!r}")
        if self.cap < self.base:
            raise ValueError(f"Backoff.cap ({self.cap!r}) must not be below base ({self.base!r})")

    def nominal(self, attempts: int) -> timedelta:
        """Return the delay after this many attempts without jitter."""
        return timedelta(seconds=compute_backoff(attempts, self.base, self.cap, self.factor))

    def delay(self, attempts: int, rand: Callable[[], float] = random.random) -> timedelta:
        """Return the delay after this many attempts; ``rand`` gives a number from 0 to 1."""
        return self.nominal(attempts) * (1 + rand() * self.jitter)

    def to_json(self) -> dict[str, float]:
        """Return the fields as JSON holds them."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Backoff:
        """Build a backoff from what to_json() returned."""
        return cls(**values)
