"""Actions on whole querysets: walked once, in batches that stand alone, in bounded memory and time."""

import time
import tracemalloc
from itertools import chain
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobqueue import operations
from jobqueue.models import Action, Job
from jobqueue.operations import acting
from jobqueue.states import Status
from tests.factories import JobFactory

DEAD_ROWS = """
INSERT INTO jobqueue_job (job_type, queue, status, attempts, lease_epoch, worker_id, claimed_at, run_started_at,
                          finished_at, outcome, last_error, error_class, fingerprint)
SELECT 'probe.ok', %s, 4, 3, 3, 'w', statement_timestamp(), statement_timestamp(), statement_timestamp(), 2, 'boom',
       'builtins.RuntimeError', 'f'
  FROM generate_series(1, %s)
"""


def insert_dead(queue: str, rows: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute(DEAD_ROWS, [queue, rows])


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in batches of 10, read in chunks of 25."""
    monkeypatch.setattr(acting, "BATCH", 10)
    monkeypatch.setattr(acting, "CHUNK", 25)


@pytest.mark.django_db
@pytest.mark.usefixtures("small_batches")
def test_exactly_the_filtered_rows_change() -> None:
    """Case C130."""
    chosen = JobFactory.create_batch(63, status=Status.DEAD, queue="a")
    JobFactory.create_batch(7, status=Status.DEAD, queue="b")

    report = operations.discard(Job.objects.dead().filter(queue="a"), actor="command")

    assert report.changed == sorted(job.pk for job in chosen)
    assert Job.objects.filter(status=Status.CANCELLED).count() == 63
    assert Job.objects.filter(status=Status.DEAD, queue="b").count() == 7


@pytest.mark.django_db
@pytest.mark.usefixtures("small_batches")
def test_each_batch_has_an_audit_row_of_its_own_ids() -> None:
    jobs = JobFactory.create_batch(25, status=Status.DEAD)

    operations.discard(Job.objects.dead(), actor="command")

    rows = list(Action.objects.order_by("id").values_list("job_ids", flat=True))
    assert [len(ids) for ids in rows] == [10, 10, 5]
    assert sorted(chain.from_iterable(rows)) == sorted(job.pk for job in jobs)


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("small_batches")
def test_what_is_done_stays_done_when_a_later_batch_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = JobFactory.create_batch(30, status=Status.DEAD)
    write_audit = acting._write_audit

    def fail_from(audit: Action, moved: Any, alias: str) -> None:
        if jobs[20].pk in moved.changed:
            raise RuntimeError("killed here")
        write_audit(audit, moved, alias)

    monkeypatch.setattr(acting, "_write_audit", fail_from)

    with pytest.raises(RuntimeError, match="killed here"):
        operations.discard(Job.objects.dead(), actor="command")

    # And the third batch is undone with its audit: no change without a row that tells of it.
    assert Job.objects.filter(status=Status.CANCELLED).count() == 20
    assert [len(ids) for ids in Action.objects.values_list("job_ids", flat=True)] == [10, 10]


@pytest.mark.django_db
@pytest.mark.usefixtures("small_batches")
def test_jobs_that_die_while_others_are_retried_are_not_met_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bulk retry loops for ever elsewhere, when jobs die faster than the loop drains (cases C78, C130)."""
    JobFactory.create_batch(30, status=Status.DEAD)
    redrive, batches = Job.objects.redrive, []

    def redrive_and_die(self: Any, ids: list[int], **options: Any) -> Any:
        batches.append(ids)
        moved = redrive(ids, **options)
        Job.objects.filter(pk__in=ids).update(status=Status.DEAD)  # they ran, and died again
        JobFactory.create_batch(5, status=Status.DEAD)  # and others did meanwhile
        return moved

    monkeypatch.setattr(type(Job.objects), "redrive", redrive_and_die)

    report = operations.retry(Job.objects.dead(), actor="command")

    assert [len(ids) for ids in batches] == [10, 10, 5, 5]
    assert len(report.changed) == 30


@pytest.mark.django_db
def test_a_sliced_queryset_and_an_unordered_iterable_are_taken_as_they_are() -> None:
    jobs = JobFactory.create_batch(6, status=Status.DEAD)

    sliced = operations.discard(Job.objects.dead()[:2], actor="command")
    listed = operations.discard((pk for pk in [jobs[1].pk, jobs[0].pk, jobs[1].pk]), actor="command")

    assert sliced.changed == [jobs[4].pk, jobs[5].pk]
    assert listed.changed == [jobs[0].pk, jobs[1].pk]


@pytest.mark.django_db
def test_an_empty_set_changes_nothing() -> None:
    assert operations.retry(Job.objects.none(), actor="command").changed == []
    assert operations.retry([], actor="command").changed == []


@pytest.mark.django_db(transaction=True)
def test_a_hundred_thousand_rows_are_retried_within_ten_seconds_in_bounded_memory() -> None:
    """Case C130: 120,000 dead, 100,000 of them filtered."""
    insert_dead("a", 100_000)
    insert_dead("b", 20_000)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE jobqueue_job")
    with CaptureQueriesContext(connection) as queries:
        began = time.monotonic()
        report = operations.retry(Job.objects.dead().filter(queue="a"), actor="command")
        seconds = time.monotonic() - began

    assert len(report.changed) == 100_000
    assert report.refused == {}
    assert Job.objects.filter(queue="a", status=Status.SCHEDULED).count() == 100_000
    assert Job.objects.filter(queue="b", status=Status.DEAD).count() == 20_000
    assert Action.objects.count() == 100
    assert len(queries) < 100 * 12
    assert seconds < 10


@pytest.mark.faults
@pytest.mark.django_db
def test_memory_does_not_grow_with_the_rows_beyond_their_ids() -> None:
    insert_dead("a", 20_000)
    operations.cancel([1], actor="warm up")

    tracemalloc.start()
    try:
        operations.discard(Job.objects.dead(), actor="command")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < 8 * 2**20
