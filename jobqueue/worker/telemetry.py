"""The gauges and counters of one worker, between the frames that bring them and the heartbeat that carries them.

Counts leave in numbered batches. A batch whose write failed, or whose answer was lost, is sent again as it was and
under its number, which the worker's row keeps: so nothing is lost by an outage, and nothing is counted twice. What is
counted meanwhile waits for the next batch.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from typing import Any, NamedTuple

from jobqueue.logs import Quietly

logger = logging.getLogger("jobqueue.worker")

MOST_SERIES = 200
FORGET_SECONDS = 600.0

Series = tuple[str, str, tuple[tuple[str, str], ...]]
"""Kind, name and labels."""


class Load(NamedTuple):
    """What one heartbeat carries: the gauges, and one batch of counts; both are JSON arrays."""

    gauges: str
    batch: int
    counts: str


class Telemetry:
    """Keeps the last value of each gauge, and what was counted since the last batch; used by two threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[Series, float] = {}  # monotonic: when it was told last
        self._gauges: dict[Series, float] = {}
        self._counts: dict[Series, float] = {}
        self._batch, self._sending = 1, ""  # the batch that is under way, "" for none
        self._refused = Quietly(logger)

    def take(self, value: list[Any]) -> None:
        """Take one measure as its frame has it: kind, name, labels, value."""
        kind, name, labels, number = value
        series = (kind, name, tuple(map(tuple, labels)))
        now = time.monotonic()
        with self._lock:
            if series not in self._seen and not self._has_room(now):
                self._refused.warning(
                    "%s refused: a worker keeps %s series, each set of label values is one name=%s",
                    *(kind, MOST_SERIES, name),
                )
                return
            self._seen[series] = now
            if kind == "gauge":
                self._gauges[series] = number
            else:
                self._counts[series] = self._counts.get(series, 0.0) + number

    def load(self) -> Load:
        """Return what the next heartbeat carries; the same batch until written() is called for it."""
        now = time.monotonic()
        with self._lock:
            self._forget(now)
            if not self._sending and self._counts:
                self._sending = json.dumps(
                    [{**_named(series), "amount": amount} for series, amount in self._counts.items()]
                )
                self._counts = {}
            gauges = [
                {**_named(series), "value": value, "at_seconds_ago": round(now - self._seen[series], 3)}
                for series, value in self._gauges.items()
            ]
            # Without a batch its number is 0: a number that stands in the row is one that was used.
            return Load(json.dumps(gauges), self._batch if self._sending else 0, self._sending or "[]")

    def written(self, load: Load) -> None:
        """Note that a heartbeat was answered."""
        with self._lock:
            if self._sending and load.batch == self._batch:
                self._batch, self._sending = self._batch + 1, ""

    @property
    def owes_counts(self) -> bool:
        """Whether something was counted that is not written yet."""
        return bool(self._counts or self._sending)

    def _has_room(self, now: float) -> bool:
        if len(self._seen) >= MOST_SERIES:
            self._forget(now)
        return len(self._seen) < MOST_SERIES

    def _forget(self, now: float) -> None:
        """Forget the series that nobody has told for a while; what they counted is kept until it is written."""
        for series in [series for series, at in self._seen.items() if now - at > FORGET_SECONDS]:
            if series not in self._counts:
                del self._seen[series]
                self._gauges.pop(series, None)


def _named(series: Series) -> dict[str, Any]:
    _, name, labels = series
    return {"name": name, "labels": dict(labels)}
