"""The times of settled attempts: a bucket each, by the formula of jobqueue.histograms, whichever statement settles."""

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from jobqueue import sql
from jobqueue.histograms import bucket_of, edges
from jobqueue.managers import Done, Ending, Release, leasing, settling
from jobqueue.models import Job, Stat
from jobqueue.outcomes import Outcome
from tests.factories import JobFactory

pytestmark = pytest.mark.django_db

MakeJob = Callable[..., Job]
End = Callable[..., int | None]
run = Job.objects.run_sql

TIMES = [0.0, 1e-9, 0.0005, 0.25, 3.0, 1e9, *(edge * factor for edge in edges() for factor in (1, 1 - 1e-6, 1 + 1e-6))]


def complete(job: Job, **params: Any) -> None:
    """Finish a job inside its handler's transaction, as context.complete() does."""
    given = {"result": "{}", "run_seconds": 0.0, "cpu_seconds": 0.0, "cost": "0", "cost_lines": "[]"}
    assert run(sql.COMPLETE_JOB, job.fence._asdict() | given | params)


def waiting(leased: MakeJob, seconds: float, **fields: Any) -> Job:
    """Return a running job that waited so many seconds before it was claimed."""
    moment = JobFactory.create().created_at
    return leased(run_after=moment - timedelta(seconds=seconds), claimed_at=moment, **fields)


def test_every_run_is_in_the_bucket_that_python_says(leased: MakeJob) -> None:
    jobs = [Done(leased().pk, 1, run_seconds=seconds) for seconds in TIMES]

    settling.settle_done(run, worker_id="worker-1", jobs=jobs)

    sent = [float(f"{seconds:.9g}") for seconds in TIMES]  # a settle sends nine digits: an edge itself may be rounded
    assert Counter(Stat.objects.get().run_buckets) == Counter(map(bucket_of, sent))


def test_runs_that_ended_badly_are_in_the_same_buckets(leased: MakeJob) -> None:
    endings = [Ending(leased().pk, 1, Outcome.FAILED, run_seconds=seconds) for seconds in TIMES]

    settling.settle_ended(run, worker_id="worker-1", endings=endings)

    assert Counter(Stat.objects.get().run_buckets) == Counter(bucket_of(seconds) for seconds in TIMES)


def test_a_run_that_completes_itself_is_in_the_same_bucket(leased: MakeJob) -> None:
    for seconds in TIMES[::7]:
        complete(leased(), run_seconds=seconds)

    found = [row.run_buckets for row in Stat.objects.order_by("id")]
    assert found == [[bucket_of(seconds)] for seconds in TIMES[::7]]


WAITS = [0.0, 0.000001, 0.0015, 0.25, 40.0, 90_000.0, 3e9]


def test_waits_are_in_buckets_whichever_statement_settles(leased: MakeJob, end: End) -> None:
    expected = Counter(bucket_of(seconds) for seconds in WAITS)

    settling.settle_done(run, worker_id="worker-1", jobs=[Done(waiting(leased, seconds).pk, 1) for seconds in WAITS])
    for seconds in WAITS:
        end(waiting(leased, seconds, job_type="probe.echo"), step="dead")
        complete(waiting(leased, seconds, job_type="probe.sleep"))

    for job_type in ("probe.ok", "probe.echo", "probe.sleep"):
        rows = Stat.objects.filter(job_type=job_type)
        assert Counter(bucket for row in rows for bucket in row.wait_buckets) == expected, job_type


def test_a_job_that_was_due_after_its_claim_by_a_clock_that_went_back_waited_no_time(leased: MakeJob) -> None:
    settling.settle_done(run, worker_id="worker-1", jobs=[Done(waiting(leased, -60).pk, 1)])

    assert Stat.objects.get().wait_buckets == [0]


def test_what_is_tried_again_has_a_run_and_no_wait(leased: MakeJob, end: End) -> None:
    """Its run_after is that of the retry by then."""
    end(waiting(leased, 8.0), run_seconds=1.0, delay=timedelta(seconds=5))

    row = Stat.objects.get()
    assert (row.wait_buckets, row.wait_seconds) == (None, 0.0)
    assert row.run_buckets == [bucket_of(1.0)]


@pytest.mark.parametrize("outcome", [Outcome.INPUT_LIMIT, Outcome.UNKNOWN_TYPE])
def test_what_was_refused_unstarted_has_a_wait_and_no_run(outcome: Outcome, leased: MakeJob, end: End) -> None:
    end(waiting(leased, 8.0), outcome=outcome, step="dead")

    row = Stat.objects.get()
    assert row.wait_buckets == [bucket_of(8.0)]
    assert row.run_buckets is None


def test_a_lost_run_is_counted_without_times(make_job: MakeJob) -> None:
    make_job(expired=True)

    Job.objects.reap()

    row = Stat.objects.get()
    assert (row.outcome, row.jobs, row.wait_buckets, row.run_buckets) == (Outcome.LEASE_EXPIRED, 1, None, None)


ENDS: dict[str, Callable[[Job], Any]] = {
    "settle_done": lambda job: settling.settle_done(run, worker_id="worker-1", jobs=[Done(job.pk, 1)]),
    "settle_ended": lambda job: settling.settle_ended(
        run, worker_id="worker-1", endings=[Ending(job.pk, 1, Outcome.FAILED)]
    ),
    "complete_job": complete,
    "release_jobs": lambda job: leasing.release(run, worker_id="worker-1", releases=[Release(job.pk, 1)]),
}


@pytest.mark.parametrize("name", ENDS)
def test_the_costs_of_an_attempt_under_way_end_with_it(name: str, leased: MakeJob) -> None:
    """They are charged by the settle itself: kept, they would be charged once more when the next attempt is lost."""
    job = leased(open_costs=[["llm", "USD", "0.10"]])

    ENDS[name](job)

    assert Job.objects.get(pk=job.pk).open_costs is None
