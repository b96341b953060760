"""Take samples, as undisturbed as the machine allows, and say how disturbed they were."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from .figures import median
from .machine import Noise
from .plan import Plan, say

QUIET = 0.1  # the share of the processors that others may take before a sample begins
DISTURBED = 0.15  # and during one, before another is taken in its place
LOOK_SECONDS = 0.5


@dataclass(frozen=True)
class Samples:
    """What was measured, by name, a value a sample; and the largest share that others took of the processors."""

    values: dict[str, list[float]]
    noise: float

    def median(self, name: str) -> float:
        """Return the middle value of one name."""
        return median(self.values[name])


def take(plan: Plan, row: str, sample: Callable[[], dict[str, float]]) -> Samples:
    """Call `sample` for each repeat, and again, a few times in all, where others disturbed it; keep the quietest."""
    taken: list[tuple[float, dict[str, float]]] = []
    for number in range(1, plan.repeats + plan.retakes + 1):
        wait_until_quiet(plan.patience)
        with Noise() as during:
            values = sample()
        taken.append((during.share, values))
        told = ", ".join(f"{name} {value:,.{0 if value > 100 else 2}f}" for name, value in values.items())
        say(f"{row} {number}: {told}; others {during.share:.0%}")
        if sum(share <= DISTURBED for share, _ in taken) == plan.repeats:
            break
    kept = sorted(taken, key=lambda pair: pair[0])[: plan.repeats]
    return Samples({name: [values[name] for _, values in kept] for name in kept[0][1]}, max(share for share, _ in kept))


def wait_until_quiet(patience: float) -> None:
    """Wait until others leave the processors alone, but no longer than so many seconds."""
    give_up = time.monotonic() + patience
    while time.monotonic() < give_up:
        with Noise() as now:
            time.sleep(LOOK_SECONDS)
        if now.share <= QUIET:
            return
