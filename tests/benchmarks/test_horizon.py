"""The p95 of the last claims is taken from those that brought the last jobs, and from none that nobody timed."""

import pytest

from benchmarks.measures.horizon import last_p95

CLAIMS = [(100, 1.0), (100, 2.0), (50, 3.0), (50, 4.0)]


@pytest.mark.parametrize(("last", "expected"), [(50, 4.0), (100, 4.0), (300, 4.0)])
def test_the_slowest_of_few_claims_is_their_p95(last: int, expected: float) -> None:
    assert last_p95(CLAIMS, last, 300) == expected


def test_claims_before_the_last_jobs_do_not_count() -> None:
    assert last_p95([(100, 9.0), (100, 1.0)], 100, 200) == 1.0


def test_claims_that_nobody_timed_are_an_error() -> None:
    with pytest.raises(AssertionError, match="nobody timed"):
        last_p95(CLAIMS, 50, 301)
