"""Backoff: doubling, capped, never overflowing, and only ever lengthened by chance."""

import random
from datetime import timedelta
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobqueue.backoff import MAX_CAP_SECONDS, Backoff, compute_backoff


@pytest.mark.parametrize(("attempts", "seconds"), [(1, 5), (2, 10), (3, 20), (7, 320), (8, 600), (9, 600)])
def test_the_delay_doubles_up_to_the_cap(attempts: int, seconds: float) -> None:
    assert compute_backoff(attempts) == seconds


@pytest.mark.parametrize("attempts", [0, -1])
def test_no_attempt_counts_as_the_first(attempts: int) -> None:
    assert compute_backoff(attempts) == 5


@pytest.mark.parametrize("attempts", [46, 60, 1_100, 4_999, 5_000, 10**9])
@pytest.mark.parametrize("factor", [2, 10, 2.0, 10.0])
@pytest.mark.parametrize("base", [1, 3600])
def test_thousands_of_attempts_wait_the_cap(attempts: int, factor: float, base: float) -> None:
    """C76."""
    assert compute_backoff(attempts, base=base, cap=86_400, factor=factor) == 86_400


def test_a_base_above_the_cap_waits_the_cap() -> None:
    assert compute_backoff(1, base=100, cap=60) == 60


def test_a_base_of_zero_never_waits() -> None:
    assert compute_backoff(5_000, base=0, cap=600, factor=1) == 0


def test_a_factor_of_one_waits_the_same_each_time() -> None:
    assert {compute_backoff(attempts, base=7, factor=1) for attempts in (1, 2, 5_000)} == {7}


@given(
    attempts=st.integers(-5, 5_000),
    base=st.floats(0, 3600),
    factor=st.floats(1, 1000),
    cap=st.floats(3600, MAX_CAP_SECONDS),
)
def test_any_delay_is_between_zero_and_the_cap(attempts: int, base: float, factor: float, cap: float) -> None:
    """C76."""
    assert 0 <= compute_backoff(attempts, base, cap, factor) <= cap


@given(attempts=st.integers(1, 4_999), base=st.floats(0, 3600), factor=st.floats(1, 1000))
def test_a_later_attempt_never_waits_less(attempts: int, base: float, factor: float) -> None:
    assert compute_backoff(attempts, base, 7200, factor) <= compute_backoff(attempts + 1, base, 7200, factor)


@given(
    attempts=st.integers(0, 5_000), jitter=st.floats(0, 1), chance=st.floats(0, 1), factor=st.sampled_from([2.0, 10.0])
)
def test_jitter_only_lengthens_and_never_overflows(attempts: int, jitter: float, chance: float, factor: float) -> None:
    """C76, C79."""
    backoff = Backoff(base=3600, factor=factor, cap=86_400, jitter=jitter)

    delay = backoff.delay(attempts, rand=lambda: chance)

    assert backoff.nominal(attempts) <= delay <= timedelta(days=2)


def test_the_default_jitter_adds_at_most_a_quarter() -> None:
    backoff = Backoff()

    assert backoff.delay(1, rand=lambda: 0.0) == timedelta(seconds=5)
    assert backoff.delay(1, rand=lambda: 1.0) == timedelta(seconds=6.25)


def test_jobs_that_failed_together_come_back_spread_over_a_fifth_of_the_delay() -> None:
    """C78."""
    rand = random.Random(20).random

    delays = [Backoff(base=10).delay(2, rand=rand).total_seconds() for _ in range(500)]

    assert max(delays) - min(delays) >= 0.2 * 20


def test_the_mean_delay_stays_near_the_nominal_one() -> None:
    """C79."""
    rand = random.Random(20).random

    delays = [Backoff(base=10).delay(1, rand=rand).total_seconds() for _ in range(300)]

    assert 9 <= mean(delays) <= 13
    assert min(delays) >= 10


def test_without_jitter_the_delay_is_the_nominal_one() -> None:
    backoff = Backoff(jitter=0)

    assert {backoff.delay(3) for _ in range(10)} == {timedelta(seconds=20)}


def test_by_default_chance_is_real() -> None:
    backoff = Backoff()

    assert len({backoff.delay(3) for _ in range(10)}) > 1


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("base", -1),
        ("base", "5"),
        ("base", True),
        ("base", float("nan")),
        ("factor", 0.5),
        ("factor", 1001),
        ("cap", float("inf")),
        ("cap", MAX_CAP_SECONDS + 1),
        ("cap", None),
        ("jitter", -0.1),
        ("jitter", 1.1),
    ],
)
def test_a_value_that_cannot_work_is_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=rf"Backoff\.{field}"):
        Backoff(**{field: value})  # type: ignore[arg-type]


def test_a_cap_below_the_base_is_refused() -> None:
    with pytest.raises(ValueError, match=r"cap \(1\) must not be below base \(5\.0\)"):
        Backoff(cap=1)


def test_a_backoff_comes_back_from_json() -> None:
    backoff = Backoff(base=1, factor=3, cap=90, jitter=0.5)

    assert Backoff.from_json(backoff.to_json()) == backoff


def test_a_backoff_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Backoff().base = 1  # type: ignore[misc]
