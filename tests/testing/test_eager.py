"""Eager mode: jobs run at the commit, by the same executor and the same SQL as in a worker."""

from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import Group
from django.db import transaction
from django.test import TestCase, TransactionTestCase

from jobqueue.exceptions import InputLimitExceeded, JobQueueError, PayloadError
from jobqueue.managers import JobManager
from jobqueue.models import Attempt, Job
from jobqueue.outcomes import Outcome
from jobqueue.states import Status
from jobqueue.testing import drain, eager
from tests.backends.tasks import adds
from tests.contrib.moved import tasks


def enqueue(job_type: str, payload: dict[str, Any] | None = None, **options: Any) -> Job:
    job = Job.objects.enqueue(job_type, payload, **options)
    assert job is not None
    return job


def saved(job: Job) -> Job:
    return Job.objects.get(pk=job.pk)


class Told(Exception):
    """What a test raises to have a block rolled back."""


@transaction.atomic
def roll_back() -> None:
    """Enqueue, then have all of it undone."""
    enqueue("inside.writes", {"name": "gone"})
    raise Told


@pytest.mark.smoke
@eager()
class EagerInTestCaseTests(TestCase):
    """In a TestCase, whose transaction never commits."""

    def test_a_job_runs_before_enqueue_returns(self) -> None:
        job = enqueue("probe.echo", {"value": (1, 2)})

        assert (saved(job).status, saved(job).result) == (Status.DONE, [1, 2])

    def test_a_job_of_a_block_runs_when_the_outermost_block_ends(self) -> None:
        with transaction.atomic():
            with transaction.atomic():
                job = enqueue("inside.writes", {"name": "x"})
            before = saved(job).status
            Group.objects.create(name="the block goes on")

        assert (before, saved(job).status) == (Status.PENDING, Status.DONE)

    def test_a_block_without_a_savepoint_counts(self) -> None:
        with transaction.atomic(savepoint=False):
            job = enqueue("probe.ok")
            before = saved(job).status

        assert (before, saved(job).status) == (Status.PENDING, Status.DONE)

    def test_what_is_rolled_back_does_not_run(self) -> None:
        with pytest.raises(Told):
            roll_back()

        assert (Job.objects.count(), Group.objects.count()) == (0, 0)

    def test_only_the_inner_block_that_was_rolled_back_is_left_out(self) -> None:
        with transaction.atomic():
            kept = enqueue("inside.writes", {"name": "kept"})
            with pytest.raises(Told):
                roll_back()

        assert (saved(kept).status, Group.objects.get().name) == (Status.DONE, "kept")

    def test_commit_hooks_that_are_captured_run_a_job_once(self) -> None:
        with self.captureOnCommitCallbacks(execute=True):
            transaction.on_commit(lambda: enqueue("inside.writes", {"name": "by a hook"}))
            with transaction.atomic():
                enqueue("inside.writes", {"name": "by a block"})

        assert Group.objects.count() == 2
        assert list(Job.objects.values_list("status", "attempts")) == [(Status.DONE, 1)] * 2

    def test_a_job_of_the_future_waits(self) -> None:
        job = enqueue("probe.ok", run_after=timedelta(minutes=1))

        assert saved(job).status == Status.SCHEDULED

    def test_a_job_that_a_handler_enqueues_runs_after_it(self) -> None:
        job = enqueue("inside.notes", {"text": "chained"})

        assert saved(job).result == 0
        assert Group.objects.get().name == "chained"

    def test_a_long_chain_needs_no_deep_stack(self) -> None:
        enqueue("inside.chains", {"left": 300})

        assert Job.objects.filter(status=Status.DONE).count() == 301

    def test_a_handler_that_drain_runs_does_not_run_others_within_it(self) -> None:
        job = enqueue("inside.notes", {"text": "later"}, run_after=timedelta(hours=1))
        Job.objects.filter(pk=job.pk).update(run_after=job.created_at)

        assert [status for _, status in drain()] == [Status.DONE] * 2
        assert saved(job).result == 0

    def test_a_failure_is_an_end_of_the_job_and_not_an_error_of_the_caller(self) -> None:
        job = enqueue("probe.boom")

        assert (saved(job).status, saved(job).last_error) == (Status.SCHEDULED, "boom")
        assert Attempt.objects.get().outcome == Outcome.FAILED

    def test_limits_on_the_payload_hold(self) -> None:
        job = enqueue("probe.small_input", {"document": {"page_count": 11}})

        assert (saved(job).status, saved(job).outcome) == (Status.DEAD, Outcome.INPUT_LIMIT)

    def test_what_json_cannot_hold_is_refused(self) -> None:
        with pytest.raises(PayloadError):
            enqueue("probe.echo", {"value": object()})

    def test_many_jobs_run(self) -> None:
        jobs = Job.objects.enqueue_many([("inside.writes", {"name": str(number)}) for number in range(3)])
        keyed = Job.objects.enqueue_many([{"job_type": "probe.ok", "dedupe_key": "k"}])

        assert {saved(job).status for job in [*jobs, *keyed] if job} == {Status.DONE}
        assert Group.objects.count() == 3

    def test_a_job_with_a_key_runs(self) -> None:
        job, created = Job.objects.get_or_enqueue("probe.ok", dedupe_key="k")

        assert (created, saved(job).status) == (True, Status.DONE)

    def test_tasks_run(self) -> None:
        task, celery = adds.enqueue(1, 2), tasks.add.delay(3, 4)

        task.refresh()
        assert (task.return_value, celery.get()) == (3, 7)

    async def test_in_a_coroutine_jobs_run_too(self) -> None:
        job = await Job.objects.aenqueue("inside.waits", {"name": "async"})

        assert job is not None
        assert (await Job.objects.aget(pk=job.pk)).result == 1


class EagerOptionsTests(TestCase):
    """What the mode can be told."""

    def test_retries_run_at_once_without_backoff(self) -> None:
        with eager(without_backoff=True):
            good, bad = enqueue("inside.recovers", {"at": 3}), enqueue("probe.boom")

        assert (saved(good).status, saved(good).result) == (Status.DONE, 3)
        assert (saved(bad).status, saved(bad).attempts, bad.max_attempts) == (Status.DEAD, 3, 3)

    def test_a_snooze_is_no_retry(self) -> None:
        with eager(without_backoff=True):
            job = enqueue("inside.snoozes")

        assert (saved(job).status, saved(job).attempts) == (Status.SCHEDULED, 0)

    def test_an_error_is_raised_where_it_is_asked_for_and_settled_before(self) -> None:
        with eager(raise_errors=True), self.assertRaisesMessage(RuntimeError, "boom"):
            enqueue("probe.boom")

        assert Job.objects.get().status == Status.SCHEDULED

    def test_the_error_of_the_last_attempt_is_raised(self) -> None:
        with eager(raise_errors=True, without_backoff=True):
            fine = enqueue("inside.recovers", {"at": 3})
            with self.assertRaisesMessage(LookupError, "attempt 3"):
                enqueue("inside.recovers", {"at": 4})

        assert saved(fine).status == Status.DONE

    def test_the_limit_that_is_broken_is_raised(self) -> None:
        with eager(raise_errors=True), self.assertRaisesMessage(InputLimitExceeded, "page_count"):
            enqueue("probe.small_input", {"document": {"page_count": 11}})

    def test_what_a_handler_asks_for_is_no_error(self) -> None:
        with eager(raise_errors=True):
            ends = [enqueue(f"inside.{name}") for name in ("asks_again", "snoozes")]
            ends += [enqueue(f"probe.{name}") for name in ("discard", "give_up")]

        assert [saved(job).status for job in ends] == [
            *(Status.SCHEDULED, Status.SCHEDULED, Status.CANCELLED, Status.DEAD),
        ]

    def test_a_handler_that_leaves_python_does_not_end_the_tests(self) -> None:
        with eager(raise_errors=True), self.assertRaisesMessage(JobQueueError, "SystemExit"):
            enqueue("inside.quits")

    def test_only_the_queues_that_are_named_are_served(self) -> None:
        with eager(queues=["mail"]):
            waits, runs = enqueue("probe.ok"), enqueue("probe.ok", queue="mail")

        assert (saved(waits).status, saved(runs).status) == (Status.PENDING, Status.DONE)

    def test_the_inner_mode_is_in_force(self) -> None:
        with eager(raise_errors=True):
            with eager():
                enqueue("probe.boom", max_attempts=1)
            with self.assertRaisesMessage(RuntimeError, "boom"):
                enqueue("probe.boom", max_attempts=1)

    def test_a_chain_without_end_is_told(self) -> None:
        with eager(at_most=5), self.assertRaisesMessage(JobQueueError, "5 jobs have run"):
            enqueue("inside.chains", {"left": 1_000})

    @eager()
    def test_a_test_is_decorated(self) -> None:
        assert saved(enqueue("probe.ok")).status == Status.DONE

    def test_nothing_of_it_stays(self) -> None:
        before = transaction.Atomic.__exit__
        with pytest.raises(Told), eager():
            raise Told

        assert saved(enqueue("probe.ok")).status == Status.PENDING
        assert transaction.Atomic.__exit__ is before
        assert "_insert" not in vars(JobManager)


class EagerWithCommitsTests(TransactionTestCase):
    """Where transactions commit."""

    def test_a_job_runs_after_the_commit(self) -> None:
        with eager(), transaction.atomic():
            job = enqueue("inside.writes", {"name": "x"})
            before = saved(job).status
            transaction.on_commit(lambda: enqueue("inside.writes", {"name": "y"}))

        assert before == Status.PENDING
        assert set(Job.objects.values_list("status", flat=True)) == {Status.DONE}
        assert Group.objects.count() == 2

    def test_a_job_without_a_block_runs_at_once(self) -> None:
        with eager():
            assert saved(enqueue("inside.completes", {"name": "x"})).result == {"by": "x"}

    def test_what_is_rolled_back_does_not_run(self) -> None:
        with eager(), pytest.raises(Told):
            roll_back()

        assert Group.objects.count() == 0

    def test_a_coroutine_without_a_test_client_enqueues_and_runs(self) -> None:
        async def enqueues() -> Any:
            with eager():
                return await Job.objects.aenqueue("inside.waits", {"name": "async"})

        job = async_to_sync(enqueues)()

        assert saved(job).result == 1
