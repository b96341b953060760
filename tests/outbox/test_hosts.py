"""Turns at one host: so many at a time, none for a while after failures in a row, and nothing is left of a good one."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connection, connections
from django.utils import timezone

from jobqueue.models import Host
from jobqueue.outbox import hosts
from tests.factories import ago

pytestmark = pytest.mark.django_db

HOST = "partner.example.test:443"


def take() -> hosts.Turn:
    return hosts.take(HOST)


def fail(times: int = 1) -> None:
    for _ in range(times):
        turn = take()
        assert turn.token is not None
        hosts.free(HOST, turn.token, well=False)


def past_the_break() -> None:
    Host.objects.update(open_until=ago(1))


def left_alone_for() -> float:
    turn = take()
    assert turn.token is None
    return turn.wait.total_seconds()


def test_so_many_requests_at_a_time_and_no_more(configure: Callable[..., None]) -> None:
    configure(WEBHOOK_PER_HOST=2)
    first, second = take(), take()

    assert take() == (None, timedelta(0))
    assert hosts.take("other.example.test:443").token is not None

    assert first.token is not None
    hosts.free(HOST, first.token, well=True)
    assert take().token is not None
    assert second.token is not None


def test_a_request_whose_process_was_killed_counts_no_more_after_its_time(configure: Callable[..., None]) -> None:
    configure(WEBHOOK_PER_HOST=1)
    take()
    Host.objects.update(busy_until=[timezone.now() - timedelta(hours=1)])

    turn = take()

    assert turn.token is not None
    assert Host.objects.get().busy_until == [turn.token]


def test_its_time_is_that_of_a_delivery_and_some(configure: Callable[..., None]) -> None:
    configure(WEBHOOK_TOTAL_SECONDS=100)

    turn = take()

    with connection.cursor() as cursor:
        cursor.execute("SELECT extract(epoch FROM %s - statement_timestamp())::float8", [turn.token])
        assert 125 < cursor.fetchone()[0] < 132


def test_a_host_that_is_well_has_no_row() -> None:
    first, second = take(), take()
    assert first.token is not None
    assert second.token is not None

    hosts.free(HOST, first.token, well=True)
    assert Host.objects.get().busy_until == [second.token]
    hosts.free(HOST, second.token, well=None)

    assert not Host.objects.exists()


def test_five_failures_in_a_row_have_the_host_left_alone_for_a_minute() -> None:
    fail(4)
    turn = take()
    assert turn.token is not None

    hosts.free(HOST, turn.token, well=False)

    assert 50 < left_alone_for() <= 60


def test_a_success_between_makes_it_no_row_of_failures() -> None:
    fail(4)
    turn = take()
    assert turn.token is not None
    hosts.free(HOST, turn.token, well=True)
    fail(4)

    assert take().token is not None


def test_a_success_forgives_the_failures_while_other_requests_are_under_way(configure: Callable[..., None]) -> None:
    configure(WEBHOOK_PER_HOST=2)
    fail(4)
    good, other = take(), take()
    assert good.token is not None
    assert other.token is not None

    hosts.free(HOST, good.token, well=True)

    assert Host.objects.get().failures == 0
    hosts.free(HOST, other.token, well=False)
    assert take().token is not None


def test_an_end_that_tells_nothing_neither_counts_nor_forgives() -> None:
    fail(4)
    turn = take()
    assert turn.token is not None
    hosts.free(HOST, turn.token, well=None)

    assert Host.objects.get().failures == 4
    fail()
    assert left_alone_for() > 50


def test_after_the_break_one_request_at_a_time_tries_it(configure: Callable[..., None]) -> None:
    configure(WEBHOOK_PER_HOST=4)
    fail(5)
    past_the_break()

    assert take().token is not None
    assert take() == (None, timedelta(0))


def test_each_failed_try_doubles_the_break_up_to_ten_minutes() -> None:
    fail(5)
    breaks = [left_alone_for()]
    for _ in range(5):
        past_the_break()
        fail()
        breaks.append(left_alone_for())

    assert [round(seconds, -1) for seconds in breaks] == [60, 120, 240, 480, 600, 600]


def test_a_good_try_ends_it(configure: Callable[..., None]) -> None:
    configure(WEBHOOK_PER_HOST=2)
    fail(5)
    past_the_break()
    turn = take()
    assert turn.token is not None

    hosts.free(HOST, turn.token, well=True)

    assert take().token is not None
    assert take().token is not None
    assert Host.objects.get().failures == 0


def test_failures_of_requests_that_had_begun_before_the_break_do_not_lengthen_it(
    configure: Callable[..., None],
) -> None:
    configure(WEBHOOK_PER_HOST=8)
    under_way = [take().token for _ in range(8)]

    for token in under_way:
        assert token is not None
        hosts.free(HOST, token, well=False)

    assert Host.objects.get().failures == 5
    assert left_alone_for() <= 60


@pytest.mark.django_db(transaction=True)
def test_a_crowd_gets_no_more_than_there_are_turns_and_leaves_no_row(configure: Callable[..., None]) -> None:
    """Real connections at once: every statement counts what the others have committed."""
    configure(WEBHOOK_PER_HOST=3)

    def try_it(_number: int) -> hosts.Turn:
        try:
            return take()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(12) as pool:
        turns = [turn for turn in pool.map(try_it, range(60)) if turn.token is not None]

        assert len(turns) == 3
        assert len({turn.token for turn in turns}) == 3

        def end_it(turn: hosts.Turn) -> None:
            try:
                assert turn.token is not None
                hosts.free(HOST, turn.token, well=True)
            finally:
                connections.close_all()

        list(pool.map(end_it, turns))
    assert not Host.objects.exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_a_stricter_isolation_level_of_the_project_does_no_harm(level: str, configure: Callable[..., None]) -> None:
    """Two requests at a time would else fail with 40001."""
    configure(WEBHOOK_PER_HOST=100)

    def many(_number: int) -> int:
        try:
            with connection.cursor() as cursor:
                cursor.execute(f"SET default_transaction_isolation = '{level}'")
            turns = [take().token for _ in range(20)]
            for token in turns:
                assert token is not None
                hosts.free(HOST, token, well=True)
            return len(turns)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(many, range(4))) == 80
    assert not Host.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_without_autocommit_a_turn_is_seen_by_others_at_once(configure: Callable[..., None]) -> None:
    configure(WEBHOOK_PER_HOST=1)
    connection.set_autocommit(False)
    try:
        assert take().token is not None

        def other() -> hosts.Turn:
            try:
                return take()
            finally:
                connections.close_all()

        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(other).result(10).token is None
    finally:
        connection.rollback()
        connection.set_autocommit(True)
