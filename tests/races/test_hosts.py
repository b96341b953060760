"""Turns at a host, two at once: whoever comes second counts what the first has done."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from jobqueue import sql
from jobqueue.models import Host
from tests.races.conftest import Side

pytestmark = pytest.mark.django_db(transaction=True)

HOST = "partner.example.test:443"
WaitUntilBlocked = Callable[..., None]


def take(side: Side, most: int = 2) -> datetime | None:
    rows = side.run(sql.TAKE_HOST, {"name": HOST, "most": most, "seconds": 60})
    return rows[0][0] if rows else None


def free(side: Side, token: datetime | None, *, well: bool) -> None:
    side.run(sql.FREE_HOST, {"name": HOST, "token": token, "well": well})


@pytest.fixture
def turns(first: Side) -> list[datetime | None]:
    """Return the tokens of two requests under way."""
    found = [take(first), take(first)]
    first.commit()
    return found


def test_two_good_ends_at_once_leave_no_row(
    turns: list[datetime | None], first: Side, second: Side, wait_until_blocked: WaitUntilBlocked
) -> None:
    """Guard: the lock. Without it the second would write back the turn that the first has ended."""
    free(first, turns[0], well=True)
    ending = second.start(free, second, turns[1], well=True)
    wait_until_blocked(second.pid, by=first.pid)
    first.commit()
    ending.result(5)
    second.commit()

    assert not Host.objects.exists()


def test_two_bad_ends_at_once_both_count(
    turns: list[datetime | None], first: Side, second: Side, wait_until_blocked: WaitUntilBlocked
) -> None:
    free(first, turns[0], well=False)
    ending = second.start(free, second, turns[1], well=False)
    wait_until_blocked(second.pid, by=first.pid)
    first.commit()
    ending.result(5)
    second.commit()

    host = Host.objects.get()
    assert (host.failures, host.busy_until) == (2, [])


@pytest.mark.parametrize(("most", "gets_one"), [(1, False), (2, True)])
def test_the_second_who_takes_a_turn_counts_the_first(
    first: Side, second: Side, wait_until_blocked: WaitUntilBlocked, most: int, gets_one: bool
) -> None:
    assert take(first, most) is not None
    taking: Any = second.start(take, second, most)
    wait_until_blocked(second.pid, by=first.pid)
    first.commit()

    assert (taking.result(5) is not None) is gets_one
