"""Prune: by status and age, in batches, with the attempts, and without what a project's foreign key holds."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction

from jobqueue.maintenance.prune import Prune
from jobqueue.models import Attempt, Cost, Job, Stat
from jobqueue.states import FINISHED, Status
from tests.factories import CostFactory, StatFactory, ago

pytestmark = pytest.mark.django_db

MakeJob = Callable[..., Job]
WEEK = timedelta(days=7)
OLD = 8 * 86_400


@pytest.fixture
def invoices(db: None) -> Iterator[Callable[[Job], None]]:
    """Return the function that makes a row of the project's own table that refers to a job."""
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE invoice (job_id bigint NOT NULL REFERENCES jobqueue_job (id))")

        def refer(job: Job) -> None:
            cursor.execute("INSERT INTO invoice VALUES (%s)", [job.pk])

        yield refer
        cursor.execute("DROP TABLE invoice")


@pytest.mark.parametrize("status", FINISHED)
def test_finished_jobs_older_than_the_age_are_deleted_by_status(status: Status, make_job: MakeJob) -> None:
    """Case C109: an age for each status; nothing else goes with it."""
    old = make_job(status=status, finished_at=ago(OLD))
    young = make_job(status=status, finished_at=ago(OLD - 2 * 86_400))
    others = [make_job(status=other, finished_at=ago(OLD)) for other in Status if other != status]

    assert Job.objects.prune(status=status, age=WEEK) == [old.pk]

    assert set(Job.objects.values_list("pk", flat=True)) == {young.pk, *(job.pk for job in others)}


@pytest.mark.parametrize("status", [status for status in Status if status not in FINISHED])
def test_a_job_that_still_has_something_to_do_is_never_pruned(status: Status, make_job: MakeJob) -> None:
    make_job(status=status, finished_at=ago(OLD))

    with pytest.raises(ValueError, match=f"only DONE, DEAD and CANCELLED jobs are pruned, not {status.name}"):
        Job.objects.prune(status=status, age=WEEK)


def test_the_attempts_go_with_the_job(make_job: MakeJob, make_attempt: Any) -> None:
    old, kept = make_job(status=Status.DEAD, finished_at=ago(OLD)), make_job(status=Status.DEAD)
    for job in (old, kept):
        make_attempt(job=job, number=1)
        make_attempt(job=job, number=2)

    Job.objects.prune(status=Status.DEAD, age=WEEK)

    assert set(Attempt.objects.values_list("job_id", flat=True)) == {kept.pk}


def test_statistics_and_costs_outlive_the_jobs(make_job: MakeJob) -> None:
    """Case C166: totals of the past do not change."""
    make_job(status=Status.DONE, finished_at=ago(OLD))
    StatFactory.create(at=ago(OLD))
    CostFactory.create(at=ago(OLD))

    Job.objects.prune(status=Status.DONE, age=WEEK)

    assert (Stat.objects.count(), Cost.objects.count(), Job.objects.count()) == (1, 1, 0)


def test_the_oldest_go_first_a_batch_at_a_time(make_job: MakeJob) -> None:
    """Case C108. Guard: LIMIT."""
    jobs = [make_job(status=Status.DONE, finished_at=ago(OLD + age)) for age in (1, 3, 2)]

    batches = [Job.objects.prune(status=Status.DONE, age=WEEK, limit=2) for _ in range(3)]

    assert [sorted(batch) for batch in batches] == [sorted([jobs[1].pk, jobs[2].pk]), [jobs[0].pk], []]


def test_a_job_that_a_foreign_key_of_the_project_holds_refuses_its_batch(
    make_job: MakeJob, make_attempt: Any, invoices: Callable[[Job], None]
) -> None:
    held, free = (make_job(status=Status.DEAD, finished_at=ago(OLD)) for _ in range(2))
    make_attempt(job=held)
    invoices(held)

    with pytest.raises(IntegrityError, match="invoice"), transaction.atomic():
        Job.objects.prune(status=Status.DEAD, age=WEEK)

    assert set(Job.objects.values_list("pk", flat=True)) == {held.pk, free.pk}
    assert Attempt.objects.filter(job=held).exists(), "the attempts of a kept job are kept"


def test_the_jobs_that_are_to_be_kept_are_left_out(
    make_job: MakeJob, make_attempt: Any, invoices: Callable[[Job], None]
) -> None:
    held, free = (make_job(status=Status.DEAD, finished_at=ago(OLD)) for _ in range(2))
    make_attempt(job=held)
    invoices(held)

    assert Job.objects.prune(status=Status.DEAD, age=WEEK, keep=[held.pk]) == [free.pk]

    assert Attempt.objects.filter(job=held).exists()


def test_the_row_that_is_kept_is_one_of_the_status_that_is_pruned(
    make_job: MakeJob, invoices: Callable[[Job], None]
) -> None:
    """Guard: the status where the row is looked for that a foreign key holds."""
    make_job(status=Status.DONE, finished_at=ago(OLD + 9))
    held = make_job(status=Status.DEAD, finished_at=ago(OLD))
    invoices(held)

    def run(statement: str, params: Any = None) -> list[tuple[Any, ...]]:
        with transaction.atomic():
            return Job.objects.run_sql(statement, params)

    service = Prune(run, ages={Status.DEAD: WEEK})
    service.run_once()

    assert service.kept == {held.pk}
