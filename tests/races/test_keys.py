"""One key, many enqueuers: one job, and nobody's transaction is broken (case C39)."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import OperationalError, connection, connections, transaction

from jobqueue.models import Action, Job
from jobqueue.states import Status
from tests.connections import Watcher
from tests.factories import ActionFactory
from tests.races.conftest import Side

pytestmark = pytest.mark.django_db(transaction=True)

INSERT = "INSERT INTO jobqueue_job (job_type, dedupe_key) VALUES ('probe.ok', %s)"


def in_thread(call: Callable[[], Any]) -> Any:
    try:
        return call()
    finally:
        connection.close()


@pytest.mark.parametrize("kept", [True, False])
def test_an_enqueue_waits_for_the_same_key_and_then_knows(
    kept: bool, first: Side, second: Side, watcher: Watcher
) -> None:
    first.run(INSERT, ["k"])

    enqueueing = second.start(in_thread, lambda: Job.objects.enqueue("probe.ok", dedupe_key="k"))
    watcher.wait_until_any_blocked(by=first.pid)
    first.commit() if kept else first.rollback()

    assert (enqueueing.result(5) is None) == kept
    assert Job.objects.count() == 1


def test_get_or_enqueue_waits_and_returns_the_other_ones_job(first: Side, second: Side, watcher: Watcher) -> None:
    first.run(INSERT, ["k"])

    getting = second.start(in_thread, lambda: Job.objects.get_or_enqueue("probe.ok", dedupe_key="k"))
    watcher.wait_until_any_blocked(by=first.pid)
    first.commit()

    assert getting.result(5) == (Job.objects.get(), False)


def test_a_key_that_is_being_let_go_of_is_free_for_the_one_who_waits(
    first: Side, second: Side, watcher: Watcher, make_job: Callable[..., Job]
) -> None:
    holder = make_job(status=Status.RUNNING, dedupe_key="k")
    first.complete(holder.fence)

    enqueueing = second.start(in_thread, lambda: Job.objects.enqueue("probe.ok", dedupe_key="k"))
    watcher.wait_until_any_blocked(by=first.pid)
    first.commit()

    assert enqueueing.result(5) is not None


def test_of_a_crowd_with_one_key_one_wins_and_all_transactions_commit() -> None:
    rounds, crowd = 12, 8
    barrier = threading.Barrier(crowd)
    answers: list[tuple[str, bool]] = []
    errors: list[BaseException] = []

    def enqueue(number: int) -> None:
        try:
            for each in range(rounds):
                barrier.wait()
                key = f"k{each}"
                if number % 2:
                    answers.append((key, Job.objects.get_or_enqueue("probe.ok", dedupe_key=key)[1]))
                else:
                    with transaction.atomic():
                        ActionFactory.create(actor=str(number))
                        answers.append((key, Job.objects.enqueue("probe.ok", dedupe_key=key) is not None))
        except BaseException as error:
            errors.append(error)
            barrier.abort()
        finally:
            connections.close_all()

    threads = [threading.Thread(target=enqueue, args=[number]) for number in range(crowd)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []
    assert sorted(key for key, created in answers if created) == sorted(f"k{each}" for each in range(rounds))
    assert Job.objects.count() == rounds
    assert Action.objects.count() == rounds * crowd / 2


def test_in_a_stricter_isolation_the_servers_error_reaches_the_caller(first: Side) -> None:
    """Documented: at REPEATABLE READ the 40001 of the server is the caller's to handle, and nothing loops."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            cursor.execute("SELECT count(*) FROM jobqueue_job")
        first.run(INSERT, ["k"])
        first.commit()
        with pytest.raises(OperationalError, match="could not serialize access"):
            Job.objects.get_or_enqueue("probe.ok", dedupe_key="k")
        transaction.set_rollback(True)
