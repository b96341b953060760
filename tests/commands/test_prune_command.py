"""jobqueue_prune: by retention or by age, counted first, in bounded pieces."""

from collections.abc import Callable

import pytest
from django.db import connection

from jobqueue.models import Attempt, Job
from jobqueue.states import Status
from tests.factories import AttemptFactory, JobFactory, ago

from .conftest import Ran

Run = Callable[..., Ran]

WEEK = 7 * 86_400


def finished(status: Status, jobs: int, age_seconds: float) -> list[Job]:
    return JobFactory.create_batch(jobs, status=status, finished_at=ago(age_seconds))


@pytest.mark.django_db
def test_a_dry_run_counts_by_status_and_deletes_nothing(run: Run) -> None:
    finished(Status.DONE, 3, WEEK + 60)
    finished(Status.DONE, 1, WEEK - 60)
    finished(Status.CANCELLED, 2, WEEK + 60)
    finished(Status.DEAD, 4, 10 * WEEK)

    ran = run("jobqueue_prune", "--dry-run")

    assert (ran.code, Job.objects.count()) == (0, 10)
    assert [line.split() for line in ran.out.splitlines()] == [
        ["done", "3"],
        ["cancelled", "2"],
        ["all", "5", "would", "be", "deleted"],
    ]


@pytest.mark.django_db
def test_what_is_past_its_retention_goes_with_its_attempts_and_dead_letters_stay(run: Run) -> None:
    AttemptFactory.create(job=finished(Status.DONE, 3, WEEK + 60)[0])
    young = finished(Status.DONE, 1, WEEK - 60)
    dead = finished(Status.DEAD, 2, 10 * WEEK)

    ran = run("jobqueue_prune")

    assert ran.code == 0
    assert ran.out.splitlines()[-1].split() == ["all", "3", "deleted"]
    assert set(Job.objects.all()) == {*young, *dead}
    assert not Attempt.objects.exists()


@pytest.mark.django_db
def test_an_age_stands_for_the_retention_and_dead_letters_are_named(run: Run) -> None:
    finished(Status.DONE, 1, 7_300)
    finished(Status.DEAD, 2, 7_300)

    assert run("jobqueue_prune", "--older-than", "2h").out.split()[-2:] == ["1", "deleted"]
    assert run("jobqueue_prune", "--older-than", "2h", "--status", "dead").out.split()[-2:] == ["2", "deleted"]
    assert not Job.objects.exists()


@pytest.mark.django_db
def test_the_limit_is_exact_and_told_by_the_exit_code(run: Run) -> None:
    finished(Status.DONE, 5, WEEK + 60)
    finished(Status.CANCELLED, 5, WEEK + 60)

    assert run("jobqueue_prune", "--limit", "7").code == 3
    assert Job.objects.count() == 3
    assert run("jobqueue_prune", "--limit", "3").code == 0
    assert not Job.objects.exists()


@pytest.mark.django_db
def test_time_is_bounded_too(run: Run) -> None:
    finished(Status.DONE, 2, WEEK + 60)

    assert run("jobqueue_prune", "--max-seconds", "0.000001").code == 3
    assert run("jobqueue_prune", "--max-seconds", "60").code == 0


@pytest.mark.django_db(transaction=True)
def test_jobs_that_the_project_refers_to_are_kept_and_named(run: Run) -> None:
    jobs = finished(Status.DONE, 4, WEEK + 60)
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE keeps (job_id bigint REFERENCES jobqueue_job)")
        cursor.execute("INSERT INTO keeps VALUES (%s)", [jobs[1].pk])
    try:
        ran = run("jobqueue_prune")
        kept = list(Job.objects.values_list("pk", flat=True))
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP TABLE keeps")

    assert kept == [jobs[1].pk]
    assert f"1 kept: a foreign key of the project refers to them, such as #{jobs[1].pk}" in ran.out


@pytest.mark.django_db
def test_nothing_to_prune_is_said(run: Run, settings: object) -> None:
    settings.JOBQUEUE = {"RETENTION_DONE_SECONDS": None, "RETENTION_CANCELLED_SECONDS": None}  # type: ignore[attr-defined]

    assert "keeps every status for good" in run("jobqueue_prune").out


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--limit", "0"], "--limit must be at least 1"),
        (["--max-seconds", "-1"], "--max-seconds must be above 0"),
        (["--older-than", "soon"], "'soon' is not a time: write 90, 90s, 15m, 2h or 7d"),
        (["--status", "running"], "invalid choice"),
    ],
)
def test_wrong_options_are_explained(run: Run, arguments: list[str], message: str) -> None:
    assert message in run("jobqueue_prune", *arguments).error
