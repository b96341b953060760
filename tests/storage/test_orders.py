"""Orders to workers in the table: who reads which, answered once and by its own worker, forgotten after a day."""

import json
from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import OperationalError

from jobqueue import sql
from jobqueue.maintenance.workers import RemoveWorkers
from jobqueue.managers.ordering import ANSWER_BYTES, Answer, answer_orders, prune_orders, read_orders
from jobqueue.models import Job, Order
from jobqueue.worker.holding import HeldJobs
from jobqueue.worker.lease import Heartbeat
from jobqueue.worker.orders import Mailbox
from jobqueue.worker.threads import Inbox
from tests.connections import SecondConnection
from tests.factories import ago

pytestmark = pytest.mark.django_db

run = Job.objects.run_sql
DAY = timedelta(days=1)


def make(worker_id: str = "w1", **fields: Any) -> Order:
    return Order.objects.create(**{"worker_id": worker_id, "kind": "drain", "asked_by": "ann", **fields})


def answer(*orders: Order, worker_id: str = "w1", text: str = "") -> set[int]:
    return answer_orders(run, worker_id=worker_id, answers=[Answer(order.pk, True, text) for order in orders])


def test_a_worker_reads_its_own_open_orders_oldest_first() -> None:
    second, first = make(job_id=7, lease_epoch=3, kind="kill"), None
    first = Order.objects.create(id=second.pk - 1, worker_id="w1", kind="drain", asked_by="ben")
    make("w2")
    make(answered_at=ago(1))

    found = read_orders(run, worker_id="w1")

    assert found == [(first.pk, "drain", None, None, "ben"), (second.pk, "kill", 7, 3, "ann")]


def test_it_reads_a_hundred_at_a_time() -> None:
    Order.objects.bulk_create(Order(worker_id="w1", kind="drain", asked_by="ann") for _ in range(101))

    assert len(read_orders(run, worker_id="w1")) == 100


def test_an_answer_is_written_with_its_time() -> None:
    order = make()

    assert answer(order, text="File x") == {order.pk}

    order.refresh_from_db()
    assert (order.obeyed, order.answer) == (True, "File x")
    assert order.answered_at >= order.asked_at


def test_an_order_is_answered_once() -> None:
    order = make()
    answer(order, text="first")

    assert answer(order, text="second") == set()

    order.refresh_from_db()
    assert order.answer == "first"


def test_another_workers_order_is_not_answered() -> None:
    order = make("w2")

    assert answer(order) == set()

    order.refresh_from_db()
    assert order.answered_at is None


def test_only_what_was_answered_is_written() -> None:
    asked, other = make(), make()

    answer(asked)

    other.refresh_from_db()
    assert other.answered_at is None


def test_an_answer_is_what_the_database_can_hold_and_no_longer_than_it_may_be() -> None:
    order = make()

    answer(order, text="\0ü\ud800" + "ö" * ANSWER_BYTES)

    order.refresh_from_db()
    assert order.answer.startswith("ü?öö")
    assert ANSWER_BYTES - 2 <= len(order.answer.encode()) <= ANSWER_BYTES


@pytest.mark.django_db(transaction=True)
def test_a_locked_order_is_left_for_the_next_time(open_connection: Callable[[], SecondConnection]) -> None:
    """The thread that answers renews the leases, too: it must not wait for a person."""
    locked, free = make(), make()
    person, worker = open_connection(), open_connection()
    person.execute("SELECT FROM jobqueue_order WHERE id = %s FOR UPDATE", [locked.pk])
    worker.execute("SET lock_timeout = '2s'", [])
    answers = json.dumps([{"id": order.pk, "obeyed": True, "answer": ""} for order in (locked, free)])

    rows = worker.execute(sql.ANSWER_ORDERS, {"worker_id": "w1", "answers": answers})
    worker.commit()

    assert [row[0] for row in rows] == [free.pk]
    assert worker.execute(sql.PRUNE_ORDERS, {"age": timedelta(0), "take": 10}) == [(free.pk,)]
    worker.commit()


@pytest.mark.django_db(transaction=True)
def test_an_order_that_is_not_old_is_not_locked_by_the_look_for_old_ones(
    open_connection: Callable[[], SecondConnection],
) -> None:
    """Else each look of each worker's maintenance would write to every row that is there."""
    young = make()
    person, worker = open_connection(), open_connection()

    assert worker.execute(sql.PRUNE_ORDERS, {"age": DAY, "take": 10}) == []

    assert person.execute("SELECT id FROM jobqueue_order FOR UPDATE NOWAIT", []) == [(young.pk,)]


def test_orders_are_forgotten_after_a_day_answered_or_not() -> None:
    open_one, answered, young = make(asked_at=ago(90_000)), make(asked_at=ago(90_000)), make(asked_at=ago(80_000))
    answer(answered)

    RemoveWorkers(run, lease=timedelta(seconds=5)).run_once()

    assert list(Order.objects.values_list("pk", flat=True)) == [young.pk]
    assert open_one.pk != young.pk


def test_so_many_are_forgotten_at_a_time() -> None:
    for _ in range(5):
        make(asked_at=ago(90_000))

    assert [prune_orders(run, age=DAY, limit=3) for _ in range(3)] == [3, 2, 0]


# -- the worker's side of it ---------------------------------------------------------------------------------------


def mailbox(delivered: list[int]) -> Mailbox:
    return Mailbox("w1", lambda news: delivered.extend(order.id for order in news))


def test_an_order_is_delivered_once_however_often_it_is_read() -> None:
    delivered: list[int] = []
    box, first = mailbox(delivered), make()

    box.read(run)
    second = make()
    box.read(run)
    box.read(run)

    assert delivered == [first.pk, second.pk]


def test_without_answers_nothing_is_asked_of_the_database(django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(0):
        mailbox([]).write(run)


def test_an_answer_that_could_not_be_written_is_written_the_next_time() -> None:
    box, order = mailbox([]), make()
    box.read(run)
    box.put(Answer(order.pk, False, "ended"))

    def fails(*_: object) -> Any:
        raise OSError

    with pytest.raises(OSError):
        box.write(fails)
    box.read(run)
    box.write(run)

    order.refresh_from_db()
    assert (order.obeyed, order.answer) == (False, "ended")
    assert order.refusal == "The attempt was over when the worker looked."


def test_the_answer_to_an_order_that_is_gone_is_dropped(django_assert_num_queries: Any) -> None:
    box, order = mailbox([]), make()
    box.read(run)
    box.put(Answer(order.pk, True))
    order.delete()

    box.read(run)

    with django_assert_num_queries(0):
        box.write(run)


def test_orders_that_could_not_be_read_are_read_with_the_next_try() -> None:
    """The hint of them is spent, and the next beat may be ten seconds away."""

    class Away(Mailbox):
        reads = 0

        def read(self, run: Any) -> None:
            self.reads += 1
            if self.reads == 1:
                raise OperationalError("away")
            heartbeat.end()

    session: Any = SimpleNamespace(run=run, pause=lambda: None, close=lambda: None, away=True)
    away, nothing = Away("w1", lambda news: None), HeldJobs()
    heartbeat = Heartbeat(
        *(session, nothing, Inbox()),
        worker_id="w1",
        lease=timedelta(minutes=1),
        beat=lambda session: None,
        leave=lambda session: None,
        heard=lambda renewals: None,
        mailbox=away,
    )
    heartbeat.deaf = lambda: False

    heartbeat.start()
    heartbeat.join(3)
    heartbeat.end()

    assert away.reads == 2
