"""What a window of time of statistics comes to: figures of attempts, points of charts, histograms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

from jobqueue.histograms import NO_COUNTS, Counts, add, percentile
from jobqueue.outcomes import Outcome

#: Ends that say that something is wrong; not those that people or the queue brought about (cancels, interruptions).
FAILURES: Final = frozenset(
    {
        Outcome.FAILED,
        Outcome.DEADLINE,
        Outcome.MEMORY,
        Outcome.CRASHED,
        Outcome.LEASE_EXPIRED,
        Outcome.INPUT_LIMIT,
        Outcome.UNKNOWN_TYPE,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What attempts of one kind came to. Seconds are sums over the attempts; a percentile of none is None.

    The outcomes are those of jobqueue.outcomes.Outcome. An attempt has a wait unless it is to be tried again later, and
    a run unless its worker was lost.
    """

    outcomes: Mapping[int, int] = field(default_factory=dict)
    dead: int = 0  # of these attempts, the ones that made their job a dead letter
    wait_seconds: float = 0.0
    run_seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_memory_bytes: int | None = None  # None: nobody measured it
    wait_counts: Counts = NO_COUNTS  # by bucket: see jobqueue.histograms
    run_counts: Counts = NO_COUNTS
    seconds: float = 0.0  # how long the time is that these figures stand for

    @property
    def jobs(self) -> int:
        """Attempts that ended, in whatever way."""
        return sum(self.outcomes.values())

    @property
    def done(self) -> int:
        """Attempts that ended well."""
        return self.outcomes.get(Outcome.DONE, 0)

    @property
    def failed(self) -> int:
        """Attempts that ended badly: see FAILURES."""
        return sum(count for outcome, count in self.outcomes.items() if outcome in FAILURES)

    @property
    def failure_rate(self) -> float | None:
        """The share of the attempts that ended badly, of those that ended well or badly: 0 to 1; None of none."""
        ended = self.done + self.failed
        return self.failed / ended if ended else None

    @property
    def wait_p50(self) -> float | None:
        """Seconds between due and claimed that half of the attempts did not exceed."""
        return percentile(self.wait_counts, 0.5)

    @property
    def wait_p95(self) -> float | None:
        """Seconds between due and claimed that 95 % of the attempts did not exceed."""
        return percentile(self.wait_counts, 0.95)

    @property
    def wait_p99(self) -> float | None:
        """Seconds between due and claimed that 99 % of the attempts did not exceed."""
        return percentile(self.wait_counts, 0.99)

    @property
    def run_p50(self) -> float | None:
        """Seconds of a run that half of the attempts did not exceed."""
        return percentile(self.run_counts, 0.5)

    @property
    def run_p95(self) -> float | None:
        """Seconds of a run that 95 % of the attempts did not exceed."""
        return percentile(self.run_counts, 0.95)

    @property
    def run_p99(self) -> float | None:
        """Seconds of a run that 99 % of the attempts did not exceed."""
        return percentile(self.run_counts, 0.99)

    def __add__(self, other: Figures) -> Figures:
        """Return the figures of both together: of two kinds of attempts in one window of time."""
        outcomes = {
            outcome: self.outcomes.get(outcome, 0) + other.outcomes.get(outcome, 0)
            for outcome in sorted({*self.outcomes, *other.outcomes})
        }
        peaks = [figures.peak_memory_bytes for figures in (self, other) if figures.peak_memory_bytes is not None]
        return Figures(
            outcomes=outcomes,
            dead=self.dead + other.dead,
            wait_seconds=self.wait_seconds + other.wait_seconds,
            run_seconds=self.run_seconds + other.run_seconds,
            cpu_seconds=self.cpu_seconds + other.cpu_seconds,
            peak_memory_bytes=max(peaks, default=None),
            wait_counts=add(self.wait_counts, other.wait_counts),
            run_counts=add(self.run_counts, other.run_counts),
            seconds=max(self.seconds, other.seconds),
        )


@dataclass(frozen=True, slots=True)
class Point:
    """The figures of one period of a chart; both ends are aware, in the chart's zone."""

    start: datetime
    end: datetime
    figures: Figures


class Histogram(NamedTuple):
    """Times by bucket (jobqueue.histograms), their sums in seconds, and how many attempts ended."""

    wait_counts: Counts
    run_counts: Counts
    wait_sum: float
    run_sum: float
    attempts: int


#: The figures of no attempts.
NOTHING: Final = Figures()
