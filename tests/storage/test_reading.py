"""Reading: named querysets, counts, the primary, and the loose scans of the snapshot."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from jobqueue import sql
from jobqueue.managers import Fence, moving
from jobqueue.models import Job
from jobqueue.states import Status
from tests.factories import ActionFactory, AttemptFactory, CostFactory, StatFactory, WorkerFactory, ago, ahead

pytestmark = pytest.mark.django_db

MakeJob = Callable[..., Job]
run = Job.objects.run_sql


def test_due_jobs_come_in_claim_order(make_job: MakeJob) -> None:
    late, first = make_job(), make_job(priority=1)
    make_job(status=Status.SCHEDULED)

    assert list(Job.objects.due()) == [first, late]


def test_dead_letters_come_newest_first(make_job: MakeJob) -> None:
    older, newer = make_job(status=Status.DEAD, finished_at=ago(60)), make_job(status=Status.DEAD)
    make_job(status=Status.DONE)

    assert list(Job.objects.dead()) == [newer, older]


@pytest.mark.parametrize(
    ("fields", "stuck"),
    [
        ({"lease_until": ahead(60)}, False),
        ({"lease_until": ago(1)}, True),
        ({"claimed_at": ago(599)}, False),
        ({"claimed_at": ago(601)}, True),
        ({"claimed_at": ago(601), "run_started_at": ago(30)}, False),
        ({"claimed_at": ago(900), "run_started_at": ago(601)}, True),
        ({"claimed_at": ago(700), "job_type": "probe.patient"}, False),
        ({"claimed_at": ago(1061), "job_type": "probe.patient"}, True),
        ({"claimed_at": ago(601), "job_type": "probe.gone"}, True),
    ],
    ids=str,
)
def test_stuck_is_a_lease_that_ran_out_or_a_run_that_takes_too_long(
    fields: dict[str, Any], stuck: bool, leased: MakeJob
) -> None:
    """Longer than max(STUCK_AFTER, own deadline + 60 s); probe.patient may take 1,000 s."""
    leased(**fields)

    assert Job.objects.stuck().count() == int(stuck)


@pytest.mark.parametrize("status", [status for status in Status if status != Status.RUNNING])
def test_only_running_jobs_are_stuck(status: Status, make_job: MakeJob) -> None:
    """Case C140: a normal backlog is not stuck."""
    make_job(status=status, claimed_at=ago(10_000), lease_until=ago(10_000), run_after=ago(10_000))

    assert not Job.objects.stuck().exists()


def test_counts_by_status_up_to_a_cap(make_job: MakeJob) -> None:
    for status, number in ((Status.PENDING, 3), (Status.RUNNING, 1), (Status.DONE, 2), (Status.CANCELLED, 1)):
        for _ in range(number):
            make_job(status=status)

    exact = {1: 3, 2: 1, 3: 2, 4: 0, 5: 0, 7: 1}
    assert Job.objects.counts(cap=None) == exact
    assert Job.objects.counts() == exact
    assert Job.objects.counts(cap=2) == {**exact, 1: 2}


def test_ping_answers() -> None:
    assert Job.objects.ping() is True


def test_queues_with_due_jobs_are_listed_in_order(make_job: MakeJob) -> None:
    for queue in ("mail", "default", "mail", "zoo"):
        make_job(queue=queue)
    make_job(queue="later", status=Status.SCHEDULED)

    assert run(sql.PENDING_QUEUES, {}) == [("default",), ("mail",), ("zoo",)]


def test_no_due_job_is_no_queue_and_no_age() -> None:
    assert run(sql.PENDING_QUEUES, {}) == []
    assert run(sql.OLDEST_PENDING, {}) == [(None,)]


def test_the_oldest_due_job_is_found_in_whatever_queue_and_priority(make_job: MakeJob) -> None:
    for queue, priority, age in (("a", 1, 5), ("a", 9, 500), ("b", 1, 20), ("b", 1, 90)):
        make_job(queue=queue, priority=priority, run_after=ago(age))
    make_job(status=Status.RUNNING, run_after=ago(9_000))

    ((seconds,),) = run(sql.OLDEST_PENDING, {})

    assert 500 <= seconds < 560


def test_the_next_due_time_is_told_in_seconds(make_job: MakeJob) -> None:
    assert moving.seconds_to_next_due(run) is None
    make_job(status=Status.SCHEDULED, run_after=ahead(90))
    make_job(status=Status.SCHEDULED, run_after=ahead(30))

    seconds = moving.seconds_to_next_due(run)

    assert seconds == pytest.approx(30, abs=20)


class ToReplica:
    """Sends reads of everything to a replica that is not there."""

    def db_for_read(self, model: Any, **hints: Any) -> str:
        return "replica"

    def db_for_write(self, model: Any, **hints: Any) -> str:
        return "default"


def test_get_reads_the_primary_whatever_the_router_says_of_reads(make_job: MakeJob, settings: Any) -> None:
    """Case C150: a replica may not have the job yet."""
    job = make_job(status=Status.RUNNING)
    settings.DATABASE_ROUTERS = [ToReplica()]

    assert Job.objects.all().db == "replica"
    assert Job.objects.get(pk=job.pk) == job
    assert Job.objects.complete(job) == {job.pk: Status.DONE}
    job.refresh_from_db()
    assert job.status == Status.DONE
    assert Job.objects.enqueue("probe.ok", dedupe_key="k")
    assert Job.objects.get_or_enqueue("probe.ok", dedupe_key="k")[1] is False


def test_the_settings_name_the_database_of_all_verbs(settings: Any) -> None:
    settings.JOBQUEUE = {**settings.JOBQUEUE, "DATABASE": "elsewhere"}

    assert (Job.objects.write_db, Job.objects.all().db) == ("elsewhere", "elsewhere")
    assert Job.objects.using("default").db == "default"


def test_the_fence_is_what_the_row_says(leased: MakeJob) -> None:
    job = leased(lease_epoch=4)

    assert job.fence == Fence(job.pk, "worker-1", 4)


def test_every_row_has_a_readable_name(make_job: MakeJob) -> None:
    job = make_job()
    moment = job.created_at
    rows = [
        AttemptFactory.create(job=job, number=2),
        WorkerFactory.create(worker_id="w1"),
        StatFactory.create(at=moment),
        CostFactory.create(at=moment),
        ActionFactory.create(job_ids=[1, 2]),
    ]

    names = [str(row) for row in (job, *rows)]

    stamp = f"{moment:%Y-%m-%d %H:%M}"
    assert names == [
        f"probe.ok #{job.pk}",
        f"#{job.pk} attempt 2",
        "w1",
        f"probe.ok done {stamp}",
        f"probe.ok 0.10000000 USD {stamp}",
        "admin: retry 2 jobs",
    ]


def test_timedelta_leases_are_kept_to_the_millisecond(make_job: MakeJob) -> None:
    make_job()

    (job,) = Job.objects.claim(worker_id="w", lease=timedelta(milliseconds=5_250))

    assert job.lease_until - job.claimed_at == timedelta(milliseconds=5_250)


def test_a_lease_without_a_length_is_that_of_the_settings(make_job: MakeJob, settings: Any) -> None:
    settings.JOBQUEUE = {**settings.JOBQUEUE, "LEASE_SECONDS": 33}
    make_job()

    (job,) = Job.objects.claim(worker_id="w")
    Job.objects.renew_lease(job)

    job.refresh_from_db()
    assert job.lease_until - job.updated_at == timedelta(seconds=33)
