"""A run in which a handler ran twice, or not at all, is an error and never a figure."""

import pytest

from benchmarks.measures.drain import check_once
from benchmarks.tally import new_tally


@pytest.mark.parametrize(("runs", "told"), [(0, r"\[0, 1\]"), (2, r"\[1, 2\]")])
def test_a_job_that_did_not_run_once_is_an_error(runs: int, told: str) -> None:
    with new_tally(3) as tally:
        tally.values[0] = tally.values[1] = 1
        tally.values[2] = runs

        with pytest.raises(AssertionError, match=told):
            check_once(tally)


def test_jobs_that_all_ran_once_are_none() -> None:
    with new_tally(2) as tally:
        tally.values[0] = tally.values[1] = 1

        check_once(tally)
