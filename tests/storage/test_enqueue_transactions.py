"""Enqueueing joins the caller's transaction: never visible before the commit, gone with a rollback (case C21)."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from django.db import connection, transaction

from jobqueue.models import Job
from tests.connections import SecondConnection

pytestmark = pytest.mark.django_db(transaction=True)

WAYS: dict[str, Callable[[], Any]] = {
    "enqueue": lambda: Job.objects.enqueue("probe.ok"),
    "get_or_enqueue": lambda: Job.objects.get_or_enqueue("probe.ok", dedupe_key="k"),
    "enqueue_many": lambda: Job.objects.enqueue_many([("probe.ok", {})]),
    "enqueue_many with keys": lambda: Job.objects.enqueue_many([{"job_type": "probe.ok", "dedupe_key": "k"}]),
}


class Rollback(Exception):
    pass


@pytest.fixture
def visible(second_connection: SecondConnection) -> Callable[[], int]:
    """Return the function that counts the jobs another session sees."""

    def count() -> int:
        rows = second_connection.execute("SELECT count(*) FROM jobqueue_job")
        second_connection.commit()
        return int(rows[0][0])

    return count


@pytest.mark.parametrize("way", WAYS)
def test_a_job_is_seen_by_others_from_the_commit_on(way: str, visible: Callable[[], int]) -> None:
    with transaction.atomic():
        WAYS[way]()

        assert visible() == 0
    assert visible() == 1


@pytest.mark.parametrize("way", WAYS)
def test_a_job_is_gone_with_the_rollback(way: str) -> None:
    with suppress(Rollback), transaction.atomic():
        WAYS[way]()
        raise Rollback

    assert Job.objects.count() == 0


@pytest.mark.parametrize("way", WAYS)
def test_a_job_is_gone_with_its_savepoint_and_the_outer_one_stays(way: str) -> None:
    with transaction.atomic():
        outer = Job.objects.enqueue("probe.ok")
        with suppress(Rollback), transaction.atomic():
            WAYS[way]()
            raise Rollback

    assert [job.pk for job in Job.objects.all()] == [outer.pk]


@pytest.mark.parametrize("way", WAYS)
def test_in_autocommit_a_job_is_seen_at_once(way: str, visible: Callable[[], int]) -> None:
    WAYS[way]()

    assert visible() == 1


def test_in_a_transaction_managed_by_hand_it_waits_for_that_commit(visible: Callable[[], int]) -> None:
    connection.set_autocommit(False)
    try:
        Job.objects.enqueue("probe.ok")
        seen_before = visible()
        connection.commit()
        seen_after = visible()
        Job.objects.enqueue("probe.ok")
        connection.rollback()
    finally:
        connection.set_autocommit(True)

    assert (seen_before, seen_after, Job.objects.count()) == (0, 1, 1)


def test_a_refused_bulk_leaves_the_callers_transaction_usable() -> None:
    with transaction.atomic():
        Job.objects.enqueue("probe.ok")
        with pytest.raises(ValueError, match="item 1"):
            Job.objects.enqueue_many([("probe.ok", {}), ("probe.ok", {"x": float("nan")})])
        Job.objects.enqueue("probe.ok")

    assert Job.objects.count() == 2


def test_a_bulk_that_the_database_refuses_leaves_nothing_and_the_transaction_usable() -> None:
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE jobqueue_job ADD CONSTRAINT poison CHECK (queue <> 'poison')")
    try:
        with transaction.atomic():
            Job.objects.enqueue("probe.ok")
            with pytest.raises(Exception, match="poison"):
                Job.objects.enqueue_many(
                    [
                        {"job_type": "probe.ok", "dedupe_key": "k"},
                        {"job_type": "probe.ok"},
                        {"job_type": "probe.ok", "queue": "poison", "dedupe_key": "l"},
                    ]
                )
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE jobqueue_job DROP CONSTRAINT poison")

    assert Job.objects.count() == 1
