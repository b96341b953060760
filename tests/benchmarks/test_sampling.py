"""Disturbed samples are taken again, and the quietest are kept."""

from collections.abc import Iterator
from typing import Any, Self

import pytest

from benchmarks import sampling
from benchmarks.plan import Plan


class FakeNoise:
    """Stands for the measure of what other programs take; the shares to come are `shares`."""

    shares: Iterator[float] = iter(())

    def __enter__(self) -> Self:
        self.share = next(self.shares)
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture
def noise(monkeypatch: pytest.MonkeyPatch) -> Any:
    def set_shares(*shares: float) -> None:
        FakeNoise.shares = iter(shares)

    monkeypatch.setattr(sampling, "Noise", FakeNoise)
    return set_shares


def counter() -> Any:
    numbers = iter(range(1, 10))
    return lambda: {"number": float(next(numbers))}


def test_quiet_samples_are_all_kept(noise: Any) -> None:
    noise(0.0, 0.1, 0.05)

    samples = sampling.take(Plan(repeats=3, patience=0), "row", counter())

    assert sorted(samples.values["number"]) == [1, 2, 3]
    assert samples.noise == 0.1


def test_a_disturbed_sample_is_taken_again_and_left_out(noise: Any) -> None:
    noise(0.0, 0.6, 0.05, 0.02)

    samples = sampling.take(Plan(repeats=3, retakes=2, patience=0), "row", counter())

    assert sorted(samples.values["number"]) == [1, 3, 4]
    assert samples.noise == 0.05


def test_where_all_are_disturbed_the_quietest_are_kept_and_their_noise_is_told(noise: Any) -> None:
    noise(0.5, 0.9, 0.4, 0.3, 0.8)

    samples = sampling.take(Plan(repeats=3, retakes=2, patience=0), "row", counter())

    assert sorted(samples.values["number"]) == [1, 3, 4]
    assert samples.noise == 0.5


def test_without_patience_nothing_is_waited_for(noise: Any) -> None:
    noise()

    sampling.wait_until_quiet(0)
