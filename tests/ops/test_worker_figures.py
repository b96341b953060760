"""The snapshot's workers: what their rows say, and whether they live."""

from typing import Any

import pytest

from jobqueue.models import Job
from jobqueue.ops.worker_figures import WorkerFigures, silent_after
from tests.factories import WorkerFactory, ago

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("patient")]


def workers() -> dict[str, WorkerFigures]:
    return {each.name: each for each in Job.objects.ops().workers}


def test_a_worker_is_told_as_its_row_stands() -> None:
    WorkerFactory.create(
        worker_id="w:1", name="w", hostname="h", pid=7, version="1.2", queues=["mail", "*"], slots=4, busy=3,
        started_at=ago(1_000), heartbeat_at=ago(10), claimed_at=ago(12), memory_bytes=5_000_000, jobs_ended=1_980,
        jobs_per_second=2.5, clock_skew_seconds=0.25, listening=True,
        gauges=[{"name": "ports", "labels": {"zone": "b"}, "value": 27}],
    )  # fmt: skip

    found = workers()["w"]

    assert (found.worker_id, found.host, found.pid, found.version) == ("w:1", "h", 7, "1.2")
    assert (found.queues, found.job_types, found.slots, found.busy) == (("mail", "*"), (), 4, 3)
    assert (found.uptime_sec, found.heartbeat_age_sec, found.claim_age_sec) == pytest.approx((1_000, 10, 12), abs=3)
    assert (found.jobs_ended, found.jobs_per_sec) == (1_980, 2.5)
    assert (found.memory_bytes, found.clock_skew_sec, found.listening) == (5_000_000, 0.25, True)
    assert found.gauges == ({"name": "ports", "labels": {"zone": "b"}, "value": 27},)
    assert (found.alive, found.stopping) == (True, False)


def test_what_a_worker_has_not_told_yet_is_none() -> None:
    WorkerFactory.create(name="new")

    found = workers()["new"]

    assert (found.jobs_per_sec, found.claim_age_sec, found.memory_bytes, found.clock_skew_sec) == (None,) * 4


def test_a_worker_is_silent_after_half_a_lease_and_not_before_thirty_seconds(settings: Any) -> None:
    settings.JOBQUEUE = {**settings.JOBQUEUE, "LEASE_SECONDS": 120}
    assert silent_after() == 60
    WorkerFactory.create(name="late", heartbeat_at=ago(50))
    WorkerFactory.create(name="lost", heartbeat_at=ago(70))
    assert {name: each.alive for name, each in workers().items()} == {"late": True, "lost": False}

    settings.JOBQUEUE = {**settings.JOBQUEUE, "LEASE_SECONDS": 10, "KILL_GRACE": 0.1, "STATEMENT_TIMEOUT": 3}

    assert silent_after() == 30


def test_gauges_in_a_form_that_nobody_knows_are_left_out() -> None:
    WorkerFactory.create(name="newer", gauges={"ports": 27})
    WorkerFactory.create(name="odd", gauges=["ports", {"name": "ports", "value": 27}])

    found = workers()

    assert found["newer"].gauges == ()
    assert found["odd"].gauges == ({"name": "ports", "value": 27},)


def test_workers_come_by_name_and_start() -> None:
    WorkerFactory.create(worker_id="3", name="b")
    WorkerFactory.create(worker_id="2", name="a", started_at=ago(1))
    WorkerFactory.create(worker_id="1", name="a", started_at=ago(9))

    assert [each.worker_id for each in Job.objects.ops().workers] == ["1", "2", "3"]
