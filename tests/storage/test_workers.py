"""The rows of the workers: who is alive, who sleeps, who has not been heard of for a while."""

import json
import time
from datetime import timedelta
from typing import Any

import pytest

from jobqueue import sql
from jobqueue.models import Counter, Job, Release, Worker
from jobqueue.worker.registration import TOLD_BY_BEATS
from tests.factories import WorkerFactory, ago

pytestmark = pytest.mark.django_db

run = Job.objects.run_sql


def params(**changes: Any) -> dict[str, Any]:
    usual = {
        "worker_id": "w1",
        "name": "w",
        "hostname": "here",
        "pid": 7,
        "version": "1",
        "release": "2026.11",
        "queues": ["default", "*"],
        "job_types": [],
        "slots": 4,
        "busy": 2,
        "idle": False,
        "sleeping": False,
        "claimed_seconds": 1.5,
        "stopping": False,
        "jobs_ended": 5,
        "jobs_per_second": 0.5,
        "memory_bytes": 1_000,
        "clock_skew_seconds": 0.25,
        "listening": True,
        "gauges": "[]",
        "batch": 0,
        "counts": "[]",
    }
    return {**usual, **changes}


def beat(**changes: Any) -> Worker:
    run(sql.WORKER_BEAT, params(**changes))
    return Worker.objects.get(pk="w1")


def test_the_first_beat_makes_the_row() -> None:
    worker = beat()

    assert (worker.queues, worker.slots, worker.busy, worker.idle_since) == (["default", "*"], 4, 2, None)
    assert worker.heartbeat_at - worker.claimed_at == timedelta(seconds=1.5)


def test_a_release_is_written_down_once_with_the_time_of_its_first_worker() -> None:
    run(sql.REMEMBER_RELEASE, {"version": "2026.11"})
    first = Release.objects.get()

    run(sql.REMEMBER_RELEASE, {"version": "2026.11"})
    run(sql.REMEMBER_RELEASE, {"version": "2026.12"})

    assert Release.objects.get(pk="2026.11").first_seen_at == first.first_seen_at
    assert Release.objects.count() == 2
    assert beat().release == "2026.11"


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


def test_what_a_mark_does_not_tell_stays_as_it_was() -> None:
    gauges = [{"name": "ports", "labels": {}, "value": 3, "at_seconds_ago": 0}]
    beat(gauges=json.dumps(gauges))

    marked = beat(idle=True, **dict.fromkeys(TOLD_BY_BEATS))

    assert (marked.jobs_ended, marked.memory_bytes, marked.clock_skew_seconds) == (5, 1_000, 0.25)
    assert marked.jobs_per_second == 0.5
    assert (marked.listening, marked.gauges) == (True, gauges)


def test_a_beat_answers_with_the_servers_time() -> None:
    rows = run(sql.WORKER_BEAT, params())

    assert abs(rows[0][0] - time.time()) < 5  # the test's server runs on this host


COUNTS = json.dumps([{"name": "sessions", "labels": {"end": "block"}, "amount": 2.5}])


def test_a_beat_writes_down_what_was_counted() -> None:
    beat(batch=1, counts=COUNTS)

    assert list(Counter.objects.values_list("name", "labels", "amount", "span_seconds")) == [
        ("sessions", {"end": "block"}, 2.5, 0)
    ]


def test_a_batch_of_counts_is_written_once() -> None:
    """Guard: counts_batch >= batch. A beat whose answer was lost is sent again."""
    beat()
    for _ in range(2):
        beat(batch=7, counts=COUNTS)

    assert Counter.objects.count() == 1
    assert beat().counts_batch == 7, "a beat without counts forgets no number"
    beat(batch=8, counts=COUNTS)
    assert Counter.objects.count() == 2


def test_a_batch_of_another_worker_has_numbers_of_its_own() -> None:
    """Guard: the worker's id."""
    WorkerFactory.create(counts_batch=9)

    beat(batch=1, counts=COUNTS)

    assert Counter.objects.count() == 1


def test_a_worker_that_leaves_takes_its_row_along() -> None:
    beat()
    other = WorkerFactory.create()

    run(sql.WORKER_LEAVE, {"worker_id": "w1"})

    assert list(Worker.objects.all()) == [other]


def test_workers_not_heard_of_for_a_while_are_removed() -> None:
    lost, alive = WorkerFactory.create(heartbeat_at=ago(601)), WorkerFactory.create(heartbeat_at=ago(599))

    assert run(sql.REMOVE_WORKERS, {"age": timedelta(minutes=10)}) == [(lost.pk,)]

    assert list(Worker.objects.all()) == [alive]
