"""Settle: batches, statistics, costs, attempt rows and notices of what the UPDATE returned; a bad value alone."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import OperationalError, transaction
from django.db.models import Sum

from jobqueue import sql
from jobqueue.exceptions import ResultError
from jobqueue.managers import CostLine, Done, Ending
from jobqueue.managers.settling import settle_done, settle_ended, settle_split
from jobqueue.models import Attempt, Cost, Job, Stat
from jobqueue.outcomes import Outcome
from jobqueue.states import Status
from jobqueue.worker.settle import FULL, STILL_LOCKED
from tests.factories import ago

pytestmark = pytest.mark.django_db

MakeJob = Callable[..., Job]
End = Callable[..., int | None]
run = Job.objects.run_sql


def finish(*jobs: Done) -> dict[int, int]:
    return settle_done(run, worker_id="worker-1", jobs=jobs)


def test_one_statistics_row_a_batch_queue_and_type(leased: MakeJob) -> None:
    moment = leased(worker_id="worker-2").created_at
    waited = {"run_after": moment - timedelta(seconds=8), "claimed_at": moment}
    fast, slow, other = leased(**waited), leased(**waited), leased(job_type="probe.echo", **waited)

    finish(
        Done(fast.pk, 1, run_seconds=1.0, cpu_seconds=0.5, peak_memory=10),
        Done(slow.pk, 1, run_seconds=3.0, cpu_seconds=0.25, peak_memory=30),
        Done(other.pk, 1, run_seconds=7.0),
    )

    rows = Stat.objects.order_by("run_seconds").values(
        "queue",
        "job_type",
        "outcome",
        "jobs",
        "dead",
        "wait_seconds",
        "run_seconds",
        "cpu_seconds",
        "peak_memory_bytes",
    )
    assert [tuple(row.values()) for row in rows] == [
        ("default", "probe.ok", Outcome.DONE, 2, 0, 16.0, 4.0, 0.75, 30),
        ("default", "probe.echo", Outcome.DONE, 1, 0, 8.0, 7.0, 0.0, None),
    ]


def test_only_what_was_settled_is_counted_and_charged(leased: MakeJob) -> None:
    """Guard: statistics and costs are computed from the rows that the UPDATE returned, not from what was sent."""
    mine, lost = leased(), leased(lease_epoch=5)
    costs = [CostLine("llm", "USD", Decimal("0.10"))]

    assert finish(Done(mine.pk, 1, costs=costs), Done(lost.pk, 1, costs=costs)) == {mine.pk: Status.DONE}

    assert Stat.objects.get().jobs == 1
    assert Cost.objects.aggregate(total=Sum("amount"))["total"] == Decimal("0.10")


def test_a_done_job_keeps_what_its_run_took(leased: MakeJob) -> None:
    job = leased(first_started_at=ago(500))

    finish(Done(job.pk, 1, '{"n": 1}', run_seconds=2.0, cpu_seconds=1.5, peak_memory=4096))

    after = Job.objects.get(pk=job.pk)
    assert (after.cpu_seconds, after.peak_memory_bytes, after.result) == (1.5, 4096, {"n": 1})
    assert after.finished_at - after.run_started_at == timedelta(seconds=2)
    assert after.first_started_at == job.first_started_at
    assert (after.worker_id, after.lease_epoch) == ("worker-1", 1), "the worker is kept: a repeat is recognised by it"


def test_an_attempt_that_did_not_end_well_is_logged(leased: MakeJob, end: End) -> None:
    job = leased(attempts=2, lease_epoch=7)

    end(
        job,
        outcome=Outcome.CRASHED,
        error_class="jobqueue.Crashed",
        error_text="crashed, signal 11",
        traceback="Fatal Python error",
        fingerprint="abc",
        exit_code=-11,
        run_seconds=1.5,
        cpu_seconds=1.0,
        peak_memory=2048,
    )

    row = Attempt.objects.get()
    job.refresh_from_db()
    assert (row.job_id, row.lease_epoch, row.number, row.worker_id) == (job.pk, 7, 2, "worker-1")
    assert (row.error_class, row.error_text, row.traceback, row.fingerprint, row.exit_code) == (
        "jobqueue.Crashed",
        "crashed, signal 11",
        "Fatal Python error",
        "abc",
        -11,
    )
    assert (row.claimed_at, row.cpu_seconds, row.peak_memory_bytes) == (job.claimed_at, 1.0, 2048)
    assert row.finished_at - row.started_at == timedelta(seconds=1.5)
    assert (job.last_error, job.error_class, job.fingerprint) == ("crashed, signal 11", "jobqueue.Crashed", "abc")


def test_an_end_without_an_error_keeps_the_earlier_one(leased: MakeJob, end: End) -> None:
    job = leased(last_error="earlier", error_class="E", fingerprint="f")

    end(job, outcome=Outcome.INTERRUPTED, step="interrupt")

    job.refresh_from_db()
    assert (job.last_error, job.error_class, job.fingerprint) == ("earlier", "E", "f")


def test_ended_attempts_are_counted_with_their_dead_letters(leased: MakeJob) -> None:
    retried, dead = leased(), leased(max_attempts=1)

    Job.objects.fail([retried, dead], "boom")

    stat = Stat.objects.get()
    assert (stat.outcome, stat.jobs, stat.dead) == (Outcome.FAILED, 2, 1)


def test_a_dead_letter_enqueues_the_notice_of_it_in_the_same_statement(leased: MakeJob) -> None:
    job = leased(owner="lena@example.org", max_attempts=1)

    Job.objects.fail(job, "boom")

    notice = Job.objects.get(job_type="jobqueue.notify")
    assert (notice.status, notice.queue, notice.priority) == (Status.PENDING, "jobqueue", 0)
    assert notice.payload == {
        "job_id": job.pk,
        "job_type": "probe.ok",
        "queue": "default",
        "owner": "lena@example.org",
        "outcome": Outcome.FAILED,
        "reason": "dead",
        "error_class": "RuntimeError",
        "error_text": "boom",
        "attempts": 1,
    }


def test_a_broken_limit_is_notified_although_the_job_is_tried_again(leased: MakeJob, end: End) -> None:
    job = leased()

    assert end(job, outcome=Outcome.DEADLINE, limit_hit=True) == Status.SCHEDULED

    assert Job.objects.get(job_type="jobqueue.notify").payload["reason"] == "limit"


@pytest.mark.parametrize(
    ("fields", "ending"),
    [
        pytest.param({}, {}, id="a retry"),
        pytest.param({"job_type": "jobqueue.notify"}, {"step": "dead"}, id="a notice that failed"),
        pytest.param({"cancel_requested_at": ago(1)}, {"limit_hit": True}, id="a cancelled job"),
    ],
)
def test_nobody_is_notified_of(fields: dict[str, Any], ending: dict[str, Any], leased: MakeJob, end: End) -> None:
    end(leased(**fields), **ending)

    assert Job.objects.count() == 1


def test_without_notifiers_there_is_no_notice(leased: MakeJob, quiet: None) -> None:
    Job.objects.fail(leased(max_attempts=1), "boom")

    assert Job.objects.count() == 1


def split_done(jobs: Sequence[Done]) -> tuple[dict[int, int], list[int]]:
    refused: list[int] = []

    def refuse(job: Done, error: Exception) -> dict[int, int]:
        refused.append(job.id)
        return {}

    def settle(batch: Sequence[Done]) -> dict[int, int]:
        with transaction.atomic():
            return finish(*batch)

    return settle_split(settle, jobs, refuse=refuse), refused


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param({"result": '{"x": NaN}'}, id="no JSON"),
        pytest.param({"result": '{"x": "\\u0000"}'}, id="an escaped NUL"),
        pytest.param({"result": '{"x": "\x00"}'}, id="a NUL"),
        pytest.param({"costs": [CostLine("llm", "USD", Decimal("NaN"))]}, id="a cost that is no number"),
        pytest.param({"costs": [CostLine("llm\x00", "USD", Decimal(1))]}, id="a NUL in a cost's component"),
        pytest.param({"peak_memory": 2**64}, id="a number out of range"),
    ],
)
def test_one_bad_value_never_poisons_a_batch(bad: dict[str, Any], leased: MakeJob) -> None:
    """Cases C15 and C43: the other nine are settled, the bad one is alone with its error."""
    jobs = [leased() for _ in range(10)]
    batch = [Done(job.pk, 1, **(bad if place == 6 else {})) for place, job in enumerate(jobs)]

    settled, refused = split_done(batch)

    assert refused == [jobs[6].pk]
    assert settled == {job.pk: Status.DONE for place, job in enumerate(jobs) if place != 6}
    assert Stat.objects.aggregate(total=Sum("jobs"))["total"] == 9


def test_one_bad_text_never_poisons_a_batch_of_failures(leased: MakeJob) -> None:
    jobs = [leased() for _ in range(4)]
    texts = ["boom", "a\x00b", "\ud800", "boom"]
    endings = [Ending(job.pk, 1, Outcome.FAILED, error_text=text) for job, text in zip(jobs, texts, strict=True)]
    refused: list[int] = []

    def settle(batch: Sequence[Ending]) -> dict[int, int]:
        with transaction.atomic():
            return settle_ended(run, worker_id="worker-1", endings=batch)

    def refuse(ending: Ending, error: Exception) -> dict[int, int]:
        refused.append(ending.id)
        return {}

    settled = settle_split(settle, endings, refuse=refuse)

    assert refused == [jobs[1].pk, jobs[2].pk]
    assert settled == {jobs[0].pk: Status.SCHEDULED, jobs[3].pk: Status.SCHEDULED}


def test_a_database_that_is_away_is_not_taken_for_a_bad_value() -> None:
    """Guard: only 55P03 splits; the caller keeps the whole batch and tries again while the lease lasts (case C19)."""

    def settle(batch: Sequence[Done]) -> dict[int, int]:
        raise OperationalError("the connection is closed")

    with pytest.raises(OperationalError):
        settle_split(settle, [Done(1, 1), Done(2, 1)], refuse=lambda job, error: {})


class Locked(OperationalError):
    sqlstate = "55P03"


def test_a_locked_table_is_not_taken_row_by_row() -> None:
    """Guard: more time-outs than a row or two explain go to the caller, who tries the whole batch again."""
    tries: list[int] = []

    def settle(batch: Sequence[Done]) -> dict[int, int]:
        tries.append(len(batch))
        raise Locked

    with pytest.raises(Locked):
        settle_split(settle, [Done(number, 1) for number in range(1_000)], refuse=lambda job, error: {})

    assert len(tries) < 50


def test_what_was_settled_before_an_error_is_known() -> None:
    """Guard: `into`. A hundred locked rows are more than two; what was committed before them is not lost."""
    settled: dict[int, int] = {}

    def settle(batch: Sequence[Done]) -> dict[int, int]:
        if any(job.id >= 100 for job in batch):
            raise Locked
        return {job.id: Status.DONE for job in batch}

    with pytest.raises(Locked):
        settle_split(
            *(settle, [Done(number, 1) for number in range(200)]),
            refuse=lambda job, error: {job.id: STILL_LOCKED},
            into=settled,
        )

    assert [number for number, status in settled.items() if status == Status.DONE] == list(range(100))
    assert settled[100] == STILL_LOCKED
    assert 199 not in settled


def test_two_locked_rows_are_not_taken_for_a_locked_table() -> None:
    """Wherever they are in the largest batch, all others are settled."""

    def settle(batch: Sequence[Done]) -> dict[int, int]:
        if any(job.id in (330, 700) for job in batch):
            raise Locked
        return {job.id: 1 for job in batch}

    settled = settle_split(
        settle, [Done(number, 1) for number in range(2 * FULL)], refuse=lambda job, error: {job.id: STILL_LOCKED}
    )

    assert [number for number, status in settled.items() if status == STILL_LOCKED] == [330, 700]
    assert len(settled) == 2 * FULL


def test_a_result_that_cannot_be_stored_is_refused_before_any_sql(
    leased: MakeJob, django_assert_num_queries: Any
) -> None:
    job = leased()

    with django_assert_num_queries(0), pytest.raises(ResultError, match=r"\$\.x: nan is not a JSON number"):
        Job.objects.complete(job, {"x": float("nan")})


def test_complete_inside_the_handlers_transaction_counts_and_charges(leased: MakeJob) -> None:
    job = leased(owner="lena")

    rows = run(
        sql.COMPLETE_JOB,
        {
            **job.fence._asdict(),
            "result": '{"ok": true}',
            "run_seconds": 2.0,
            "cpu_seconds": 0.5,
            "cost": "0.30",
            "cost_lines": '[{"component": "llm", "unit": "USD", "amount": "0.30"}]',
        },
    )

    job.refresh_from_db()
    assert rows == [(job.pk,)]
    assert (job.status, job.result, job.cost_total) == (Status.DONE, {"ok": True}, Decimal("0.30"))
    assert job.finished_at - job.run_started_at == timedelta(seconds=2)
    assert (Stat.objects.get().outcome, Stat.objects.get().run_seconds) == (Outcome.DONE, 2.0)
    assert (Cost.objects.get().owner, Cost.objects.get().amount) == ("lena", Decimal("0.30"))
