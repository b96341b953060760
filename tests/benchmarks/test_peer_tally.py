"""What handlers mark tells whether each job ran exactly once, and when."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.peers.drivers.tally import VARIABLE
from benchmarks.peers.errors import LostOrDoubled
from benchmarks.peers.tally import Tally, new_tally

ROOT = Path(__file__).resolve().parent.parent.parent
MARK = "import sys; from benchmarks.peers.drivers.tally import mark; [mark(int(number)) for number in sys.argv[1:]]"


@pytest.fixture
def tally() -> Iterator[Tally]:
    with new_tally(10) as made:
        yield made


def mark(tally: Tally, *numbers: int) -> None:
    """Mark as a handler does: in another process."""
    subprocess.run(
        [sys.executable, "-c", MARK, *map(str, numbers)],
        cwd=ROOT,
        env={**os.environ, VARIABLE: str(tally.path)},
        check=True,
    )


def test_a_mark_of_another_process_tells_when_the_handler_began(tally: Tally) -> None:
    mark(tally, 0, 2)
    mark(tally, 1)

    first, second, third = tally.starts(0, 3)
    assert 0 < first <= third < second
    assert tally.first_start(0, 3) == first
    assert tally.began(0, 10) == 3


def test_all_have_begun_only_when_the_last_one_has(tally: Tally) -> None:
    mark(tally, 0, 2)
    assert not tally.all_began(3)

    mark(tally, 1)

    assert tally.all_began(3)
    assert not tally.all_began(4)


def test_a_start_is_noticed_whichever_job_begins_first() -> None:
    with new_tally(5_000) as tally:
        assert not any(tally.any_began(0, 5_000) for _ in range(100))
        mark(tally, 4_999)

        assert any(tally.any_began(0, 5_000) for _ in range(100))
        assert not any(tally.any_began(0, 4_999) for _ in range(100))
        assert tally.any_began(4_999, 5_000)


def test_jobs_that_each_began_once_pass_the_check(tally: Tally) -> None:
    mark(tally, 0, 1, 2)

    tally.check_once(0, 3)


def test_a_job_that_began_again_is_doubled_and_keeps_its_first_start(tally: Tally) -> None:
    mark(tally, 0, 1)
    before = tally.starts(0, 2)
    mark(tally, 1)

    assert tally.starts(0, 2) == before
    with pytest.raises(LostOrDoubled, match="0 never ran and 1 ran twice"):
        tally.check_once(0, 2)


def test_a_job_that_never_began_is_lost_unless_there_was_no_time_for_it(tally: Tally) -> None:
    mark(tally, 0)

    tally.check_once(0, 2, all_of_them=False)
    with pytest.raises(LostOrDoubled, match="1 never ran and 0 ran twice"):
        tally.check_once(0, 2)


def test_an_emptied_tally_has_no_marks(tally: Tally) -> None:
    mark(tally, 0)
    assert tally.all_began(1)

    tally.empty()

    assert tally.began(0, 10) == 0
    assert not tally.all_began(1)


def test_the_file_is_gone_at_the_end() -> None:
    with new_tally(1) as tally:
        assert tally.path.exists()

    assert not tally.path.exists()
