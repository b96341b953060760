"""Histograms: fixed buckets, sums of counts, and percentiles that are off by less than a bucket."""

import math
import random
from collections.abc import Callable

import pytest

from jobqueue.histograms import BUCKETS, NO_COUNTS, add, bucket_of, counts_of, edges, padded, percentile

TRIFLE = 1e-6


def test_there_are_64_buckets_two_an_octave_from_a_millisecond() -> None:
    assert BUCKETS == 64
    assert len(edges()) == 63
    assert edges()[0] == 0.001
    assert all(edges()[number + 2] == pytest.approx(2 * edges()[number]) for number in range(61))
    assert edges()[62] == 0.001 * 2**31


@pytest.mark.parametrize("number", range(63))
def test_an_edge_belongs_to_the_bucket_above_it(number: int) -> None:
    assert bucket_of(edges()[number]) == number + 1
    assert bucket_of(edges()[number] * (1 - TRIFLE)) == number


@pytest.mark.parametrize(
    ("seconds", "number"),
    [
        (0.0, 0),
        (-5.0, 0),
        (1e-9, 0),
        (0.002, 3),
        (0.004, 5),
        (1e12, 63),
        (math.inf, 63),
        (math.nan, 63),
        (-math.inf, 0),
    ],
)
def test_whatever_a_clock_gives_is_in_a_bucket(seconds: float, number: int) -> None:
    assert bucket_of(seconds) == number


def test_counts_add_up_and_shorter_ones_lack_zeros() -> None:
    assert add([1, 2], [3]) == (4, 2, *NO_COUNTS[2:])
    assert add(counts_of([0.5]), counts_of([0.5, 0.1])) == counts_of([0.1, 0.5, 0.5])
    assert padded(None) == NO_COUNTS
    assert padded([7]) == (7, *NO_COUNTS[1:])


def lognormal(dice: random.Random) -> float:
    return dice.lognormvariate(-1, 2)


def uniform(dice: random.Random) -> float:
    return dice.uniform(0, 30)


def two_humps(dice: random.Random) -> float:
    return dice.uniform(0.01, 0.02) if dice.random() < 0.9 else dice.uniform(60, 90)


@pytest.mark.parametrize("draw", [lognormal, uniform, two_humps])
@pytest.mark.parametrize("q", [0.0, 0.01, 0.5, 0.9, 0.95, 0.99, 1.0])
def test_a_percentile_is_in_the_bucket_of_the_true_one(draw: Callable[[random.Random], float], q: float) -> None:
    dice = random.Random(11)
    times = [draw(dice) for _ in range(10_000)]
    true = sorted(times)[max(1, math.ceil(q * len(times))) - 1]

    found = percentile(counts_of(times), q)

    assert found is not None
    assert bucket_of(found) == bucket_of(true)


def test_evenly_spread_times_give_nearly_the_true_percentile() -> None:
    times = [0.001 * 2 ** (number / 1000) for number in range(10_000)]

    assert percentile(counts_of(times), 0.5) == pytest.approx(times[4_999], rel=0.001)


def test_a_single_time_is_every_percentile() -> None:
    middle = percentile(counts_of([0.0015]), 0.5)

    assert middle == percentile(counts_of([0.0015]), 0.99) == pytest.approx(0.001 * 2**0.75)


def test_of_no_times_there_is_no_percentile() -> None:
    assert percentile(NO_COUNTS, 0.5) is None
    assert percentile([], 0.5) is None


def test_the_last_bucket_gives_its_beginning() -> None:
    assert percentile(counts_of([1e12]), 0.5) == edges()[-1]


@pytest.mark.parametrize("q", [-0.1, 1.1, 95, math.nan])
def test_a_share_beyond_0_and_1_is_refused(q: float) -> None:
    with pytest.raises(ValueError, match="a share is from 0 to 1"):
        percentile(NO_COUNTS, q)
