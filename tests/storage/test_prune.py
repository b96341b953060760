"""Prune: by status and age, in batches, with the attempts, and without what a project's foreign key holds."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction

from jobqueue.maintenance.prune import ANEW_RESTS, ANEW_SECONDS, MOST_REFUSALS, Prune
from jobqueue.managers import moving
from jobqueue.models import Attempt, Cost, Job, Stat
from jobqueue.states import FINISHED, Status
from tests.factories import CostFactory, StatFactory, ago

pytestmark = pytest.mark.django_db

MakeJob = Callable[..., Job]
WEEK = timedelta(days=7)
OLD = 8 * 86_400


def run_apart(statement: str, params: Any = None) -> list[tuple[Any, ...]]:
    """Run a statement as maintenance does: what it refuses leaves no transaction behind."""
    with transaction.atomic():
        return Job.objects.run_sql(statement, params)


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


def test_what_was_seen_before_is_passed_over(make_job: MakeJob) -> None:
    """Guard: `after`, by the time and then the id."""
    older = make_job(status=Status.DEAD, finished_at=ago(OLD + 1))
    first = make_job(status=Status.DEAD, finished_at=ago(OLD))
    moment = Job.objects.get(pk=first.pk).finished_at
    assert moment is not None
    second, third = (make_job(status=Status.DEAD, finished_at=moment) for _ in range(2))

    gone = moving.prune(run_apart, status=Status.DEAD, age=WEEK, limit=500, after=(moment, first.pk))

    assert sorted(gone) == [second.pk, third.pk]
    assert set(Job.objects.values_list("pk", flat=True)) == {older.pk, first.pk}


def test_the_row_that_is_kept_is_one_of_the_status_that_is_pruned(
    make_job: MakeJob, invoices: Callable[[Job], None]
) -> None:
    """Guard: the status where the row is looked for that a foreign key holds."""
    make_job(status=Status.DONE, finished_at=ago(OLD + 9))
    held = make_job(status=Status.DEAD, finished_at=ago(OLD))
    invoices(held)

    service = Prune(run_apart, ages={Status.DEAD: WEEK})
    service.run_once()

    assert service.kept == {held.pk}


class Asked:
    """Counts what is asked of the server, and what it refuses."""

    def __init__(self) -> None:
        self.statements = self.refused = 0

    def __call__(self, statement: str, params: Any = None) -> list[tuple[Any, ...]]:
        self.statements += 1
        try:
            return run_apart(statement, params)
        except IntegrityError:
            self.refused += 1
            raise


def test_rows_that_are_kept_cost_each_round_little_and_all_about_their_number(
    make_job: MakeJob, invoices: Callable[[Job], None]
) -> None:
    """Guard: MOST_REFUSALS, `more`. The others wait for one round; before, 80 kept rows were 165 refusals in one."""
    held = [make_job(status=Status.DEAD, finished_at=ago(OLD + 200 - place)) for place in range(80)]
    for job in held:
        invoices(job)
    free = [make_job(status=Status.DEAD, finished_at=ago(OLD + age)) for age in (300, 1)]
    run, rounds = Asked(), 0
    service = Prune(run, ages={Status.DEAD: WEEK})

    while service.more or not rounds:
        before = run.refused
        service.run_once()
        rounds += 1
        assert run.refused - before <= MOST_REFUSALS

    assert service.kept == {job.pk for job in held}
    assert not Job.objects.filter(pk__in=[job.pk for job in free]).exists()
    assert run.refused <= len(held) + 30
    before = run.statements
    service.run_once()
    assert run.statements == before + 1, "those that are kept are not tried again"


def test_a_job_that_nothing_refers_to_any_more_goes_within_the_hour(
    make_job: MakeJob, invoices: Callable[[Job], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guard: ANEW_SECONDS."""
    clock = {"now": 1_000.0}
    monkeypatch.setattr("jobqueue.maintenance.prune.time.monotonic", lambda: clock["now"])
    held, other = (make_job(status=Status.DEAD, finished_at=ago(OLD)) for _ in range(2))
    invoices(held)
    invoices(other)
    service = Prune(run_apart, ages={Status.DEAD: WEEK})
    service.run_once()
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM invoice WHERE job_id = %s", [held.pk])
    clock["now"] += ANEW_SECONDS - 1
    assert service.run_once() == {}

    clock["now"] += 1
    assert service.run_once() == {"dead": 1}
    assert service.kept == {other.pk}
    assert list(Job.objects.values_list("pk", flat=True)) == [other.pk]


def test_a_pass_that_took_long_is_not_followed_by_the_next_within_the_hour(
    make_job: MakeJob, invoices: Callable[[Job], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guard: ANEW_RESTS. What a million kept jobs cost is not paid all the time."""
    clock = {"now": 1_000.0}
    monkeypatch.setattr("jobqueue.maintenance.prune.time.monotonic", lambda: clock["now"])
    for _ in range(2 * MOST_REFUSALS):
        invoices(make_job(status=Status.DEAD, finished_at=ago(OLD)))
    run = Asked()
    service = Prune(run, ages={Status.DEAD: WEEK})
    service.run_once()
    clock["now"] += 600
    while len(service.kept) < 2 * MOST_REFUSALS or service.more:
        service.run_once()

    before = run.refused
    for later in (ANEW_SECONDS, 600 * ANEW_RESTS - ANEW_SECONDS - 1):
        clock["now"] += later
        service.run_once()
        assert run.refused == before

    clock["now"] += 1
    service.run_once()
    assert run.refused > before
