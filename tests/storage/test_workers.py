"""The rows of the workers: who is alive, who sleeps, who has not been heard of for a while."""

from datetime import timedelta
from typing import Any

import pytest

from jobqueue import sql
from jobqueue.models import Job, Worker
from tests.factories import WorkerFactory, ago

pytestmark = pytest.mark.django_db

run = Job.objects.run_sql


def beat(**changes: Any) -> Worker:
    params = {
        "worker_id": "w1",
        "name": "w",
        "hostname": "here",
        "pid": 7,
        "version": "1",
        "queues": ["default", "*"],
        "job_types": [],
        "slots": 4,
        "busy": 2,
        "idle": False,
        "sleeping": False,
        "claimed_seconds": 1.5,
        "stopping": False,
    }
    run(sql.WORKER_BEAT, {**params, **changes})
    return Worker.objects.get(pk="w1")


def test_the_first_beat_makes_the_row() -> None:
    worker = beat()

    assert (worker.queues, worker.slots, worker.busy, worker.idle_since) == (["default", "*"], 4, 2, None)
    assert worker.heartbeat_at - worker.claimed_at == timedelta(seconds=1.5)


def test_later_beats_move_the_heartbeat_and_keep_the_start() -> None:
    first = beat()

    later = beat(busy=0, stopping=True, claimed_seconds=None)

    assert later.heartbeat_at > first.heartbeat_at
    assert (later.started_at, later.claimed_at, later.busy, later.stopping) == (
        first.started_at,
        first.claimed_at,
        0,
        True,
    )


def test_the_idle_mark_is_set_kept_and_cleared() -> None:
    marked = beat(idle=True).idle_since
    assert marked is not None

    assert beat(idle=None).idle_since == marked, "a heartbeat knows nothing of it"
    assert beat(idle=True).idle_since == marked, "idle since the first mark"
    assert beat(idle=False).idle_since is None
    assert beat(idle=None).idle_since is None


def test_a_worker_that_leaves_takes_its_row_along() -> None:
    beat()
    other = WorkerFactory.create()

    run(sql.WORKER_LEAVE, {"worker_id": "w1"})

    assert list(Worker.objects.all()) == [other]


def test_workers_not_heard_of_for_a_while_are_removed() -> None:
    lost, alive = WorkerFactory.create(heartbeat_at=ago(601)), WorkerFactory.create(heartbeat_at=ago(599))

    assert run(sql.REMOVE_WORKERS, {"age": timedelta(minutes=10)}) == [(lost.pk,)]

    assert list(Worker.objects.all()) == [alive]
