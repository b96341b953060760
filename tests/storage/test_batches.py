"""Batches of what needs no lease: which rows they take, in which order, when no index sorts them by luck."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from jobqueue import sql
from jobqueue.managers import moving
from jobqueue.models import Attempt, Cost, Counter, Job, Stat
from jobqueue.states import Status
from tests.factories import CostFactory, CounterFactory, StatFactory, ago

pytestmark = pytest.mark.django_db

MakeJob = Callable[..., Job]


@pytest.fixture
def as_they_lie(db: None) -> None:
    """Have the server read rows in the order in which they lie in the table: an index would sort them for us."""
    with connection.cursor() as cursor:
        for way in ("indexscan", "indexonlyscan", "bitmapscan"):
            cursor.execute(f"SET LOCAL enable_{way} = off")


def test_a_claim_takes_the_best_by_priority_then_time_then_id(as_they_lie: None, make_job: MakeJob) -> None:
    """Guard: ORDER BY inside the limit of claim_jobs."""
    moment = make_job(status=Status.DONE).created_at
    keys = [(2, 0), (1, 5), (1, 9), (1, 9)]
    jobs = [make_job(priority=priority, run_after=moment - timedelta(seconds=age)) for priority, age in keys]
    Job.objects.filter(pk=jobs[2].pk).update(owner="moved behind the other")

    taken = [Job.objects.claim(1, worker_id="w")[0].pk for _ in jobs]

    assert taken == [jobs[number].pk for number in (2, 3, 1, 0)]


def test_a_reap_takes_the_lowest_ids_first(as_they_lie: None, make_job: MakeJob) -> None:
    """Guard: ORDER BY inside the limit of reap_jobs."""
    jobs = [make_job(expired=True) for _ in range(3)]
    Job.objects.filter(pk=jobs[0].pk).update(owner="moved to the end")

    assert sorted(Job.objects.reap(limit=2)) == [job.pk for job in jobs[:2]]


@pytest.mark.parametrize("status", [status for status in Status if status != Status.RUNNING])
def test_jobs_that_do_not_run_do_not_use_up_the_limit_of_a_reap(status: Status, make_job: MakeJob) -> None:
    """Guard: status = 2 inside the limit, not only in the update."""
    make_job(status=status, lease_until=ago(60))
    lost = make_job(expired=True)

    assert list(Job.objects.reap(limit=1)) == [lost.pk]


def test_a_promotion_takes_the_earliest_first(as_they_lie: None, make_job: MakeJob) -> None:
    """Guard: ORDER BY inside the limit of promote_jobs."""
    jobs = [make_job(status=Status.SCHEDULED, run_after=ago(age)) for age in (1, 3, 2)]

    assert [Job.objects.promote(limit=1) for _ in jobs] == [[jobs[number].pk] for number in (1, 2, 0)]


def test_a_prune_takes_the_oldest_first(as_they_lie: None, make_job: MakeJob) -> None:
    """Guard: ORDER BY inside the limit of prune_jobs."""
    jobs = [make_job(status=Status.DONE, finished_at=ago(age)) for age in (11, 13, 12)]

    taken = [Job.objects.prune(status=Status.DONE, age=timedelta(seconds=5), limit=1) for _ in jobs]

    assert taken == [[jobs[number].pk] for number in (1, 2, 0)]


@pytest.mark.parametrize("status", [Status.PENDING, Status.RUNNING, Status.SCHEDULED, Status.WAITING])
def test_the_statement_itself_prunes_nothing_that_has_not_finished(
    status: Status, make_job: MakeJob, make_attempt: Callable[..., Attempt]
) -> None:
    """Guard: the finished states in the list of prune_jobs, by which attempts are deleted too."""
    job = make_job(status=status, finished_at=ago(60))
    make_attempt(job=job)

    assert moving.prune(Job.objects.run_sql, status=status, age=timedelta(0), limit=10) == []

    assert (Job.objects.count(), Attempt.objects.count()) == (1, 1)


FOLDED: dict[str, tuple[Any, Any]] = {
    "FOLD_STATS": (StatFactory, Stat),
    "FOLD_COSTS": (CostFactory, Cost),
    "FOLD_COUNTERS": (CounterFactory, Counter),
}


def fold(name: str, *, from_span: int = 0, to_span: int = 900, age: timedelta = timedelta(0), limit: int = 100) -> int:
    """Fold rows of one span into those of another."""
    spans = {"from_span": from_span, "to_span": to_span}
    return moving.fold(Job.objects.run_sql, statement=getattr(sql, name), **spans, age=age, limit=limit)


@pytest.mark.parametrize("name", FOLDED)
def test_folding_takes_the_oldest_first(name: str, as_they_lie: None) -> None:
    """Guard: ORDER BY inside the limit of fold_stats, fold_costs and fold_counters."""
    factory, model = FOLDED[name]
    rows = [factory.create(at=ago(age)) for age in (2_000, 4_000, 3_000)]

    fold(name, limit=1)

    left = model.objects.filter(span_seconds=0).values_list("pk", flat=True)
    assert set(left) == {rows[0].pk, rows[2].pk}


@pytest.mark.parametrize("name", FOLDED)
def test_quarter_hours_are_not_folded_further_whoever_asks(name: str) -> None:
    """Guard: the literal of the longest span, which is the condition of the index too."""
    FOLDED[name][0].create(at=ago(9_000), span_seconds=900)

    assert fold(name, from_span=900, to_span=3_600) == 0


@pytest.mark.parametrize("name", FOLDED)
def test_young_rows_and_those_of_another_span_are_left_as_they_are(name: str) -> None:
    """Guards: the age, and the span that is asked for."""
    FOLDED[name][0].create(at=ago(60))
    FOLDED[name][0].create(at=ago(9_000), span_seconds=60)

    assert fold(name, age=timedelta(hours=1)) == 0
