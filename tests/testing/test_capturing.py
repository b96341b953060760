"""capture_jobs(): every way to enqueue, nothing that was rolled back."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import TestCase

from jobqueue.models import Job
from jobqueue.states import Status
from jobqueue.testing import assert_enqueued, capture_jobs, drain
from tests.backends.tasks import adds
from tests.contrib.moved import tasks
from tests.factories import JobFactory
from tests.probe import jobs as handlers


@transaction.atomic
def roll_back() -> None:
    """Enqueue, then have all of it undone."""
    Job.objects.enqueue("probe.boom")
    raise LookupError


@pytest.mark.smoke
class CapturingTests(TestCase):
    """In a TestCase, whose transaction never commits."""

    def types(self, jobs: Any) -> list[str]:
        return [job.job_type for job in jobs]

    def test_every_way_to_enqueue_is_seen(self) -> None:
        with capture_jobs() as jobs:
            Job.objects.enqueue("probe.ok")
            Job.objects.enqueue_many([("probe.echo", {}), {"job_type": "probe.ok", "dedupe_key": "a"}])
            Job.objects.get_or_enqueue("probe.ok", dedupe_key="b")
            handlers.ok.enqueue()
            adds.enqueue(1)
            tasks.add.delay(1)
            JobFactory.create(job_type="probe.boom")

        assert self.types(jobs) == [
            *("probe.ok", "probe.echo", "probe.ok", "probe.ok", "probe.ok"),
            *("tests.backends.tasks.adds", "tests.contrib.moved.tasks.add", "probe.boom"),
        ]

    def test_only_the_block_counts(self) -> None:
        Job.objects.enqueue("probe.ok", dedupe_key="held")

        with capture_jobs() as jobs:
            Job.objects.enqueue("probe.ok", dedupe_key="held")
            Job.objects.get_or_enqueue("probe.ok", dedupe_key="held")
            inside = Job.objects.enqueue("probe.echo")
        Job.objects.enqueue("probe.boom")

        assert list(jobs) == [inside]

    def test_what_is_rolled_back_was_not_enqueued(self) -> None:
        with capture_jobs() as jobs:
            with pytest.raises(LookupError):
                roll_back()
            Job.objects.enqueue("probe.ok")

        assert self.types(jobs) == ["probe.ok"]

    def test_within_the_block_it_shows_what_there_is_so_far(self) -> None:
        with capture_jobs() as jobs:
            assert len(jobs) == 0
            Job.objects.enqueue("probe.ok")
            assert (len(jobs), jobs[0].status) == (1, Status.PENDING)
            drain()
            assert jobs[0].status == Status.DONE
            Job.objects.enqueue("probe.echo")

        assert self.types(jobs[1:]) == ["probe.echo"]
        assert repr(jobs) == f"[<Job: probe.ok #{jobs[0].pk}>, <Job: probe.echo #{jobs[1].pk}>]"

    def test_after_the_block_nothing_is_read(self) -> None:
        with capture_jobs() as jobs:
            Job.objects.enqueue("probe.ok", {"a": 1})
        Job.objects.all().delete()

        with self.assertNumQueries(0):
            assert_enqueued("probe.ok", {"a": 1}, run_after=timedelta(0), among=jobs)

    def test_types_are_chosen(self) -> None:
        with capture_jobs(handlers.echo, "probe.boom") as jobs:
            Job.objects.enqueue_many([("probe.ok", {}), ("probe.echo", {}), ("probe.boom", {})])

        assert self.types(jobs) == ["probe.echo", "probe.boom"]

    def test_the_packages_own_jobs_are_seen_where_they_are_named(self) -> None:
        with capture_jobs() as own, capture_jobs("jobqueue.notify") as notices:
            Job.objects.enqueue("probe.boom", max_attempts=1)
            with self.assertLogs("jobqueue.notify", "WARNING"):
                drain()

        assert self.types(own) == ["probe.boom"]
        assert self.types(notices) == ["jobqueue.notify"]

    def test_an_error_in_the_block_is_not_hidden(self) -> None:
        @transaction.atomic
        def break_the_transaction() -> None:
            with capture_jobs():
                transaction.set_rollback(True)
                raise LookupError

        with pytest.raises(LookupError):
            break_the_transaction()

    async def test_a_coroutine_captures(self) -> None:
        async with capture_jobs() as jobs:
            await Job.objects.aenqueue("probe.ok")
            await Job.objects.aenqueue_many([("probe.echo", {})])

        assert self.types(jobs) == ["probe.ok", "probe.echo"]


@pytest.mark.django_db(transaction=True)
def test_where_transactions_commit_it_is_the_same() -> None:
    with capture_jobs() as jobs:
        with pytest.raises(LookupError):
            roll_back()
        with transaction.atomic():
            Job.objects.enqueue("probe.ok")

    assert [job.job_type for job in jobs] == ["probe.ok"]
    assert not connection.in_atomic_block
