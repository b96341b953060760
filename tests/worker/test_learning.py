"""When a worker of all queues looks for those that have due jobs."""

import time
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from jobqueue.internal import INTERNAL_QUEUE
from jobqueue.models import Job
from jobqueue.worker.claims import Claims
from jobqueue.worker.learning import Learning
from jobqueue.worker.queues import QueuePlan
from tests.factories import JobFactory

POLL_SECONDS = 1.0


def learning(queues: str = "*", poll_seconds: float = POLL_SECONDS) -> tuple[Learning, QueuePlan]:
    run, plan = Job.objects.db_manager(connection.alias).run_sql, QueuePlan.parse(queues)
    claims = Claims(run, worker_id="w", lease=timedelta(seconds=60))
    return Learning(run, plan, claims, poll_seconds=poll_seconds), plan


@pytest.mark.django_db
@pytest.mark.parametrize(("queue", "own_is_empty"), [("mail", True), (INTERNAL_QUEUE, False)])
def test_it_learns_the_queues_and_tells_whether_the_own_one_is_empty(queue: str, own_is_empty: bool) -> None:
    JobFactory.create(queue=queue)
    looks, plan = learning()

    assert looks.look() is own_is_empty
    assert plan.learnt == {queue}


@pytest.mark.django_db
def test_a_hint_that_names_a_queue_waits_for_no_look_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 100.0
    monkeypatch.setattr("jobqueue.worker.learning.time.monotonic", lambda: clock)
    looks, _ = learning()
    seen: dict[str, Any] = {"first": looks.is_due(clock, hungry=True, hinted=True)}
    looks.look()

    for after in (0.5, 1.5, 2.5):
        now = clock + after * POLL_SECONDS
        seen[f"{after}"] = [looks.is_due(now, hungry=True, hinted=hinted) for hinted in (True, False)]

    assert seen == {"first": True, "0.5": [False, False], "1.5": [False, True], "2.5": [True, True]}


@pytest.mark.django_db
def test_it_looks_where_known_queues_had_nothing_or_somebody_asks() -> None:
    looks, _ = learning()
    looks.look()
    now = time.monotonic()

    sated = looks.is_due(now, hungry=True, hinted=False)
    rested = looks.is_due(now, hungry=False, hinted=False)
    looks.ask()

    assert (sated, rested, looks.is_due(now, hungry=True, hinted=True)) == (False, True, True)


@pytest.mark.django_db
def test_who_asks_while_it_looks_gets_another_look() -> None:
    looks, _ = learning()
    run = looks._run

    def ask_meanwhile(*given: Any) -> list[tuple[Any, ...]]:
        found = run(*given)
        looks.ask()
        return found

    looks._run = ask_meanwhile
    looks.look()

    assert looks.is_due(time.monotonic(), hungry=True, hinted=True)


def test_who_asks_on_a_host_that_was_up_for_less_than_a_poll_is_heard() -> None:
    looks, _ = learning(poll_seconds=time.monotonic() * 2)

    looks.ask()

    assert looks.is_due(time.monotonic(), hungry=True, hinted=True)


def test_a_worker_of_named_queues_never_looks() -> None:
    looks, _ = learning("mail,default")

    assert not looks.is_due(1e9, hungry=False, hinted=False)
