"""Histograms of times: 64 fixed buckets on a logarithmic scale, two an octave, so that any rows can be added up.

Bucket 0 is below a millisecond, bucket k from 1 to 62 is [1 ms * 2^((k-1)/2), 1 ms * 2^(k/2)), and bucket 63 begins
at 2^31 ms, which is 25 days, and has no end. A percentile read from the counts is therefore off by less than the width
of a bucket, 41 %, whatever the times were; sums and counts are exact.

The settle statements have the same formula in SQL (settle_done.sql, settle_ended.sql, complete_job.sql).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Final

BUCKETS: Final = 64
SMALLEST_SECONDS: Final = 0.001

Counts = tuple[int, ...]

NO_COUNTS: Final[Counts] = (0,) * BUCKETS

# bucket = floor(2 * log2(seconds / 1 ms)) + 1, as FACTOR * ln(seconds) + OFFSET. A trifle more than the exact offset: a
# logarithm that is rounded down must not put 2 ms, which is an edge, below it.
_FACTOR: Final = 2 / math.log(2)
_OFFSET: Final = 1 - _FACTOR * math.log(SMALLEST_SECONDS) + 1e-9
_EDGES: Final = tuple(SMALLEST_SECONDS * 2 ** (k / 2) for k in range(BUCKETS - 1))


def edges() -> tuple[float, ...]:
    """Return the 63 edges between the buckets, in seconds: number k is where bucket k ends; the last never does."""
    return _EDGES


def bucket_of(seconds: float) -> int:
    """Return the number of the bucket that a time is in; negative times and NaN count as none and endless."""
    if math.isnan(seconds):
        return BUCKETS - 1
    if seconds < SMALLEST_SECONDS / 2:
        return 0
    exact = _FACTOR * math.log(seconds) + _OFFSET
    return max(0, math.floor(min(exact, BUCKETS - 1)))


def counts_of(times: Iterable[float]) -> Counts:
    """Return the counts of some times in seconds."""
    counts = [0] * BUCKETS
    for seconds in times:
        counts[bucket_of(seconds)] += 1
    return tuple(counts)


def add(a: Sequence[int], b: Sequence[int]) -> Counts:
    """Return the counts of both together; stored ones may be shorter than 64, what they lack is 0."""
    return padded([one + other for one, other in zip_longest(a, b, fillvalue=0)])


def padded(counts: Sequence[int] | None) -> Counts:
    """Return stored counts as 64 numbers; None, of rows older than the histograms, as none."""
    return tuple(counts or ()) + NO_COUNTS[len(counts or ()) :]


def percentile(counts: Sequence[int], q: float) -> float | None:
    """Return the time in seconds that a share q (0 to 1) of the counted ones do not exceed, None where none is counted.

    Within its bucket it is interpolated on the logarithmic scale, below 1 ms evenly; of the last bucket, which has no
    end, it is the beginning. Raises ValueError for a q that is no share.
    """
    if not 0 <= q <= 1:
        msg = f"a share is from 0 to 1, not {q}"
        raise ValueError(msg)
    rank = max(1, math.ceil(q * sum(counts)))  # the smallest time is the first, not the one before it
    for number, count in enumerate(counts):
        if count and rank <= count:
            return _within(number, (rank - 0.5) / count)
        rank -= count
    return None


def _within(number: int, share: float) -> float:
    """Return the time that lies at a share of the way through a bucket."""
    if number == 0:
        return SMALLEST_SECONDS * share
    if number >= BUCKETS - 1:
        return _EDGES[-1]
    return float(_EDGES[number - 1] * 2 ** (share / 2))
