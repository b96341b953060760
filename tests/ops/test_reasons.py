"""Why a job is not running, each reason by itself and by the conditions of the claim; what it does, how it ended."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobqueue import sql
from jobqueue.managers import Span, leasing
from jobqueue.models import Budget, Job, Queue, Worker
from jobqueue.models.expressions import StatementTimestamp
from jobqueue.ops import waiting_reasons
from jobqueue.ops.reasons import why
from jobqueue.outcomes import Outcome
from jobqueue.states import Status
from tests.factories import JobFactory, WorkerFactory, ago, ahead

pytestmark = pytest.mark.django_db


def codes(job: Job) -> list[str]:
    return [reason.code for reason in why(job)]


def text(job: Job, code: str) -> str:
    return next(reason.text for reason in why(job) if reason.code == code)


def claimed() -> set[int]:
    """Return what a real claim of the queue takes; the test's transaction takes it back."""
    rows = leasing.claim(
        Job.objects.run_sql, spans=[Span("default", 10)], worker_id="w", lease=timedelta(seconds=60), total=10
    )
    return {row.id for row in rows}


def pause(name: str = "default", **columns: Any) -> None:
    Queue.objects.create(**{"name": name, "paused_at": StatementTimestamp(), "paused_by": "ann"} | columns)


def test_the_next_job_of_an_idle_worker_is_claimed_in_a_moment() -> None:
    WorkerFactory.create(busy=0)

    assert codes(JobFactory.create()) == ["next"]


def test_a_job_that_is_not_due_says_when() -> None:
    WorkerFactory.create()
    job = JobFactory.create(status=Status.SCHEDULED, run_after=ahead(7200))

    assert codes(job) == ["scheduled"]
    assert f"{job.run_after:%H:%M:%S}" in text(job, "scheduled")
    assert "2 h" in text(job, "scheduled")


def test_a_job_that_waits_for_its_next_attempt_says_how_the_last_one_ended() -> None:
    WorkerFactory.create()
    job = JobFactory.create(status=Status.SCHEDULED, attempts=1, outcome=Outcome.DEADLINE)

    assert codes(job) == ["retry"]
    assert "deadline" in text(job, "retry")


def test_a_scheduled_job_whose_time_has_come_waits_for_maintenance() -> None:
    job = JobFactory.create(status=Status.SCHEDULED, run_after=ago(3))

    assert codes(job) == ["promotion", "no_worker"]


def test_a_paused_queue_is_told_with_who_why_and_until_when_and_nothing_is_claimed_from_it() -> None:
    WorkerFactory.create()
    job = JobFactory.create()
    pause(reason="the partner is down", resumes_at=ahead(3600))

    assert codes(job) == ["paused"]
    assert re.search(r"paused by ann until \d{4}-.*\(the partner is down\)", text(job, "paused"))
    assert claimed() == set()


@pytest.mark.parametrize("columns", [{"paused_at": None}, {"resumes_at": ago(1)}, {"name": "other"}])
def test_a_pause_that_holds_no_longer_or_another_queue_is_no_reason(columns: dict[str, Any]) -> None:
    WorkerFactory.create()
    job = JobFactory.create()
    pause(**columns)

    assert codes(job) == ["next"]
    assert claimed() == {job.pk}


def test_the_pause_of_all_queues_leaves_out_the_packages_own() -> None:
    WorkerFactory.create()
    pause("*")

    assert codes(JobFactory.create()) == ["all_paused"]
    assert codes(JobFactory.create(queue="jobqueue")) == ["next"]


def test_a_spent_budget_is_named_with_its_amounts() -> None:
    WorkerFactory.create()
    terms = {"window_start": ago(9), "window_end": ahead(9), "unit": "USD", "amount": "5", "spent": "5.20"}
    Budget.objects.create(name="indexing", level=100, **terms)
    pause(paused_by="budget:indexing", resumes_at=ahead(60))

    job = JobFactory.create()

    assert codes(job) == ["budget"]
    assert "indexing is spent, 5.2 of 5 USD" in text(job, "budget")


def test_without_a_living_worker_that_is_the_reason() -> None:
    WorkerFactory.create(heartbeat_at=ago(3600))

    assert codes(JobFactory.create()) == ["no_worker"]


def test_workers_of_other_queues_do_not_help() -> None:
    job = JobFactory.create()
    WorkerFactory.create(queues=["mail"])
    WorkerFactory.create(queues=["search"])

    assert codes(job) == ["no_worker_for_queue"]
    assert "all 2 that live serve others" in text(job, "no_worker_for_queue")
    assert codes(JobFactory.create(queue="jobqueue")) == ["next"]


@pytest.mark.parametrize("queues", [["default"], ["mail", "*"]])
def test_a_worker_of_the_queue_or_of_every_queue_serves_it(queues: list[str]) -> None:
    WorkerFactory.create(queues=queues)

    assert codes(JobFactory.create()) == ["next"]


def test_workers_that_all_stop_claim_nothing_more() -> None:
    WorkerFactory.create(stopping=True)

    assert codes(JobFactory.create()) == ["workers_stopping"]


def test_busy_slots_are_counted_over_the_workers_that_serve_the_queue() -> None:
    WorkerFactory.create(slots=2, busy=2)
    WorkerFactory.create(slots=4, busy=7)
    WorkerFactory.create(slots=9, busy=0, queues=["mail"])
    job = JobFactory.create()

    assert codes(job) == ["busy"]
    assert "6 of 6" in text(job, "busy")
    Worker.objects.filter(slots=2).update(busy=1)
    assert codes(job) == ["next"]


def test_the_jobs_ahead_are_those_that_a_claim_takes_first() -> None:
    WorkerFactory.create()
    mine = JobFactory.create(run_after=ago(10))
    earlier, better = JobFactory.create(run_after=ago(20)), JobFactory.create(priority=1)
    JobFactory.create(run_after=ago(5))
    JobFactory.create(queue="mail", priority=1)
    JobFactory.create(status=Status.DONE, priority=1)

    assert text(mine, "ahead") == "2 jobs of its queue default are claimed before it."
    rows = leasing.claim(
        Job.objects.run_sql, spans=[Span("default", 2)], worker_id="w", lease=timedelta(seconds=60), total=2
    )
    assert {row.id for row in rows} == {earlier.pk, better.pk}
    assert "ahead" not in codes(mine)


def test_the_jobs_ahead_are_counted_up_to_a_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting_reasons, "AHEAD_CAP", 3)
    WorkerFactory.create()
    JobFactory.create_batch(5, priority=1)

    assert text(JobFactory.create(), "ahead").startswith("At least 3 jobs")


def test_a_type_that_nobody_declares_is_named() -> None:
    WorkerFactory.create()
    job = JobFactory.create(job_type="gone.type", unknown_since=ago(60))

    assert codes(job) == ["unknown_to_workers", "unknown_type"]
    assert "gone.type" in text(job, "unknown_type")


def test_a_first_job_that_free_workers_leave_alone_is_told_what_may_hold_it() -> None:
    WorkerFactory.create()

    assert codes(JobFactory.create(run_after=ago(300))) == ["overlooked"]


def test_several_reasons_are_told_together() -> None:
    WorkerFactory.create(queues=["mail"])
    pause()

    assert codes(JobFactory.create()) == ["paused", "no_worker_for_queue"]


def test_the_conditions_on_a_pause_are_those_of_the_claim() -> None:
    """Whoever changes the claim has to change this page, too."""
    claim = " ".join(sql.CLAIM_JOBS.split()).replace("asked.queue", "job.queue")
    (condition,) = re.findall(r"WHERE (\(paused\.name = .*?statement_timestamp\(\)\))\)", claim)

    assert condition in " ".join(sql.WAITING_JOB.split())
    assert "(job.priority, job.run_after, job.id)" in sql.CLAIM_JOBS


def test_a_running_job_says_since_when_where_and_how_its_lease_stands() -> None:
    WorkerFactory.create(worker_id="worker-1")
    job = JobFactory.create(status=Status.RUNNING, claimed_at=ago(65), run_started_at=ago(61))

    assert codes(job) == ["running", "worker", "leased"]
    assert "1 min" in text(job, "running")
    assert "worker-1" in text(job, "worker")


def test_a_claimed_job_that_has_not_started_says_so() -> None:
    WorkerFactory.create(worker_id="worker-1")

    assert codes(JobFactory.create(status=Status.RUNNING))[0] == "claimed"


def test_the_progress_of_a_run_is_told_without_its_secrets() -> None:
    progress = {"percent": 40, "message": "page 4 with token=abcdef"}
    job = JobFactory.create(status=Status.RUNNING, run_started_at=ahead(0), progress=progress)

    assert text(job, "progress") == "It last reported 40 %: page 4 with token=***."


def test_a_lost_lease_comes_first_and_the_worker_is_gone() -> None:
    job = JobFactory.create(expired=True)

    assert codes(job) == ["lease_expired", "claimed", "worker_gone"]


def test_an_overlong_run_and_a_request_to_cancel_are_told() -> None:
    WorkerFactory.create(worker_id="worker-1", heartbeat_at=ago(3600))
    job = JobFactory.create(status=Status.RUNNING, run_started_at=ago(86_400), claimed_at=ago(86_400))
    Job.objects.filter(pk=job.pk).update(cancel_requested_at=StatementTimestamp())
    job.refresh_from_db()

    assert codes(job) == ["overlong", "running", "worker_silent", "leased", "cancelling"]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"status": Status.DONE}, "It is done"),
        ({"status": Status.CANCELLED}, "was cancelled"),
        ({"status": Status.CANCELLED, "outcome": Outcome.DISCARDED}, "was discarded"),
        ({"status": Status.DEAD}, "all 3 attempts are used up, the last one ended as failed"),
        ({"status": Status.DEAD, "outcome": Outcome.MEMORY, "attempts": 1}, r"\(memory\) is not repeated"),
        ({"status": Status.DEAD, "attempts": 1}, "after 1 of 3 attempts"),
        ({"status": Status.DEAD, "max_attempts": 1}, "its only attempt ended as failed"),
        ({"status": 6}, "WAITING"),
        ({"status": 99}, "99"),
    ],
)
def test_a_finished_job_says_how_it_ended(columns: dict[str, Any], words: str) -> None:
    (reason,) = why(JobFactory.create(**columns))

    assert re.search(words, reason.text)


def test_a_dead_letter_whose_key_is_held_names_the_holder() -> None:
    dead, holder = JobFactory.create(status=Status.DEAD, dedupe_key="k"), JobFactory.create(dedupe_key="k")

    assert codes(dead) == ["dead", "key_held"]
    assert f"#{holder.pk}" in text(dead, "key_held")


def test_a_locked_table_gives_a_partial_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql, "WAITING_JOB", "SELECT pg_sleep(5), %(id)s, %(workers)s, %(cap)s")

    assert codes(JobFactory.create()) == ["unknown"]


def test_it_takes_one_statement_within_its_limit() -> None:
    WorkerFactory.create()
    job = JobFactory.create()

    with CaptureQueriesContext(
        connection,
    ) as queries:
        why(job)

    assert [query["sql"].split()[0] for query in queries] == ["SAVEPOINT", "SELECT", "--", "SELECT", "RELEASE"]


def test_a_job_that_is_gone_meanwhile_is_gone() -> None:
    waiting, running = JobFactory.create(), JobFactory.create(status=Status.RUNNING)
    Job.objects.all().delete()

    assert codes(waiting) == codes(running) == ["gone"]
