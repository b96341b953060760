"""Claim: which jobs, in which order, how many, and what is charged for it."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from jobqueue import sql
from jobqueue.managers import Span, leasing
from jobqueue.models import Job
from jobqueue.states import Status
from tests.factories import JobFactory, ago

pytestmark = pytest.mark.django_db

MakeJob = Callable[..., Job]
LEASE = timedelta(seconds=60)


def claim(*spans: Span, total: int | None = None, worker_id: str = "w") -> list[int]:
    claimed = leasing.claim(Job.objects.run_sql, spans=spans, worker_id=worker_id, lease=LEASE, total=total)
    return [job.id for job in claimed]


def test_lower_priority_runs_first_then_the_earlier_then_the_older(make_job: MakeJob) -> None:
    moment = make_job(status=Status.DONE).created_at
    late, low, urgent, first, second = (
        make_job(run_after=moment),
        make_job(priority=101, run_after=moment - timedelta(hours=1)),
        make_job(priority=-5, run_after=moment),
        make_job(run_after=moment - timedelta(seconds=9)),
        make_job(run_after=moment - timedelta(seconds=9)),
    )

    claimed = Job.objects.claim(10, worker_id="w")

    assert [job.pk for job in claimed] == [urgent.pk, first.pk, second.pk, late.pk, low.pk]


def test_a_limited_claim_takes_the_best(make_job: MakeJob) -> None:
    make_job(priority=2)
    best = make_job(priority=1)

    assert [job.pk for job in Job.objects.claim(1, worker_id="w")] == [best.pk]


def test_only_the_queues_asked_for_are_claimed(make_job: MakeJob) -> None:
    make_job(queue="other")
    mail, default = make_job(queue="mail"), make_job()

    claimed = Job.objects.claim(10, worker_id="w", queues=["mail", "default"])

    assert {job.pk for job in claimed} == {mail.pk, default.pk}


def test_each_queue_has_its_own_take_and_the_total_bounds_them_all(make_job: MakeJob) -> None:
    """Guards: LIMIT span.take and LIMIT total; the earlier span goes first."""
    mail = [make_job(queue="mail").pk for _ in range(3)]
    default = [make_job().pk for _ in range(3)]

    assert sorted(claim(Span("mail", 2), Span("default", 3), total=3)) == [*mail[:2], default[0]]
    assert sorted(claim(Span("mail", 5), Span("default", 1))) == [mail[2], default[1]]


def test_a_span_starts_behind_its_key_and_ends_at_its_top(make_job: MakeJob) -> None:
    """Floors: the claim starts at the last key it saw, and looks at better priorities from their start."""
    jobs = [make_job(priority=priority, run_after=ago(100)) for priority in (1, 2, 2, 2, 3, 4)]
    second = jobs[1]

    behind = Span("default", 10, second.priority, second.run_after, second.pk, top=3)

    assert claim(behind) == [job.pk for job in (jobs[2], jobs[3], jobs[4])]
    assert claim(Span("default", 10, top=1)) == [jobs[0].pk]


def test_a_span_can_end_at_an_instant_of_its_last_priority(make_job: MakeJob) -> None:
    old, new = make_job(run_after=ago(100)), make_job()

    assert claim(Span("default", 10, top=100, until=old.run_after + timedelta(seconds=1))) == [old.pk]
    assert claim(Span("default", 10)) == [new.pk]


def test_a_claim_by_job_type_takes_no_other(make_job: MakeJob) -> None:
    make_job()
    echo = make_job(job_type="probe.echo")

    claimed = Job.objects.claim(10, worker_id="w", job_types=["probe.echo"])

    assert [job.pk for job in claimed] == [echo.pk]


def test_a_claim_charges_an_attempt_and_says_when(make_job: MakeJob) -> None:
    """Case C10: charged at the claim, so a job that kills its process is counted."""
    make_job(attempts=1, lease_epoch=4, run_started_at=ago(50), first_started_at=ago(50))

    (job,) = Job.objects.claim(worker_id="w", lease=LEASE)

    assert (job.attempts, job.lease_epoch, job.worker_id) == (2, 5, "w")
    assert job.lease_until - job.claimed_at == LEASE
    assert (job.run_started_at, job.first_started_at is None) == (None, False)


def test_the_claimed_row_brings_the_payload_as_text_and_what_limits_compare(make_job: MakeJob) -> None:
    make_job(payload={"a": [1, "é"]}, owner="me", unknown_since=ago(30), interruptions=2)

    (job,) = leasing.claim(Job.objects.run_sql, spans=[Span("default", 1)], worker_id="w", lease=LEASE)

    assert (job.payload, job.payload_bytes, job.owner) == ('{"a": [1, "é"]}', 16, "me")
    assert (job.attempts, job.max_attempts, job.interruptions) == (1, 3, 2)
    assert 30 <= (job.unknown_seconds or 0) < 60


def test_jobs_that_are_not_due_do_not_use_up_the_limit(make_job: MakeJob) -> None:
    """Guard: status = 1 inside the limit, not only in the update."""
    for status in (Status.DONE, Status.RUNNING, Status.SCHEDULED):
        make_job(status=status, priority=1)
    due = make_job(priority=2)

    assert claim(Span("default", 1)) == [due.pk]


def test_nothing_due_is_an_empty_claim(make_job: MakeJob) -> None:
    make_job(status=Status.SCHEDULED)

    assert Job.objects.claim(10, worker_id="w") == []


def test_a_claim_never_takes_more_than_its_limit_under_any_plan(make_job: MakeJob) -> None:
    """Case C30. Guards: MATERIALIZED, and the limit inside it. The IN form claimed 20 rows with LIMIT 1 here."""
    for _ in range(60):
        make_job()
    off = ("hashjoin", "mergejoin", "material", "hashagg", "sort", "memoize", "indexscan", "bitmapscan")
    with connection.cursor() as cursor:
        for node in off:
            cursor.execute(f"SET LOCAL enable_{node} = off")

    sizes = [len(claim(Span("default", limit), worker_id=f"w{limit}-{n}")) for limit in (1, 5) for n in range(5)]

    assert sizes == [1] * 5 + [5] * 5
    assert Job.objects.filter(status=Status.RUNNING).count() == 30
    assert set(Job.objects.filter(status=Status.RUNNING).values_list("lease_epoch", flat=True)) == {1}


def test_the_priority_of_a_narrowed_claim_is_the_same_statement() -> None:
    """The manager narrows the statement by replacing a line of it: the line must be there."""
    assert sql.CLAIM_JOBS.count("AND job.queue = span.queue") == 1


@pytest.mark.parametrize("fields", [{"attempts": 1}, {"attempts": 3}])
def test_strays_are_given_back_uncharged(fields: dict[str, Any], leased: MakeJob) -> None:
    """The answer to a claim was lost: the worker releases what is leased to it and it does not hold."""
    held, stray, other = leased(), leased(**fields), leased(worker_id="worker-2")
    ended = JobFactory.create(status=Status.DONE)

    assert leasing.release_strays(Job.objects.run_sql, worker_id="worker-1", held=[held.pk]) == [stray.pk]

    stray.refresh_from_db()
    assert (stray.status, stray.attempts, stray.worker_id) == (Status.PENDING, fields["attempts"] - 1, None)
    assert set(Job.objects.filter(status=Status.RUNNING).values_list("pk", flat=True)) == {held.pk, other.pk}
    assert Job.objects.get(pk=ended.pk).status == Status.DONE, "what has ended keeps its worker, and is no stray"


def test_a_stray_with_a_request_to_cancel_is_cancelled(leased: MakeJob) -> None:
    stray = leased(cancel_requested_at=ago(1))

    leasing.release_strays(Job.objects.run_sql, worker_id="worker-1", held=[])

    stray.refresh_from_db()
    assert (stray.status, stray.outcome) == (Status.CANCELLED, 8)
    assert stray.finished_at is not None
