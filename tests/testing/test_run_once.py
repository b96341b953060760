"""run_once() inside a TestCase: the real statements on the test's own connection (case C152)."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import connection, transaction
from django.test import TestCase

from jobqueue import signals
from jobqueue.exceptions import JobQueueError
from jobqueue.models import Attempt, Cost, Job
from jobqueue.outcomes import Outcome
from jobqueue.states import Status
from jobqueue.testing import drain, run_once


def enqueue(job_type: str, payload: dict[str, Any] | None = None, **options: Any) -> Job:
    job = Job.objects.enqueue(job_type, payload, **options)
    assert job is not None
    return job


def saved(job: Job) -> Job:
    return Job.objects.get(pk=job.pk)


@pytest.mark.smoke
class RunOnceTests(TestCase):
    """A TestCase as a project would write it: everything happens in its transaction."""

    def test_the_best_due_job_of_all_queues_runs(self) -> None:
        enqueue("probe.ok", queue="b")
        best = enqueue("probe.echo", {"value": [1, 2**70]}, queue="c", priority=1)
        enqueue("probe.ok", queue="a")

        assert run_once() == [(best.pk, Status.DONE)]
        assert (saved(best).result, saved(best).attempts) == ([1, 2**70], 1)
        assert Job.objects.filter(status=Status.PENDING).count() == 2

    def test_only_the_queues_that_are_named_are_served(self) -> None:
        enqueue("probe.ok", queue="b")
        job = enqueue("probe.ok", queue="a")

        assert run_once(5, ["a"]) == [(job.pk, Status.DONE)]
        assert run_once(5, ["nothing"]) == []
        assert run_once(0) == []

    def test_a_scheduled_job_waits_and_a_due_one_is_promoted(self) -> None:
        job = enqueue("probe.ok", run_after=timedelta(hours=1))
        assert run_once() == []

        Job.objects.filter(pk=job.pk).update(run_after=job.created_at)

        assert run_once() == [(job.pk, Status.DONE)]

    def test_a_failed_job_waits_for_its_backoff_and_dies_with_its_last_attempt(self) -> None:
        job = enqueue("probe.boom", max_attempts=2)

        assert run_once() == [(job.pk, Status.SCHEDULED)]
        assert run_once() == []
        Job.objects.filter(pk=job.pk).update(run_after=job.created_at)
        assert run_once() == [(job.pk, Status.DEAD)]
        assert list(Attempt.objects.values_list("number", "outcome", "error_text")) == [
            (1, Outcome.FAILED, "boom"),
            (2, Outcome.FAILED, "boom"),
        ]

    def test_each_way_to_end_is_settled(self) -> None:
        ends = {
            enqueue("probe.snooze", {"delay": 60}).pk: Status.SCHEDULED,
            enqueue("probe.discard").pk: Status.CANCELLED,
            enqueue("probe.give_up").pk: Status.DEAD,
            enqueue("probe.retry", {"delay": 60}).pk: Status.SCHEDULED,
            enqueue("probe.small_input", {"document": {"page_count": 11}}).pk: Status.DEAD,
            enqueue("probe.boom", max_attempts=1).pk: Status.DEAD,
        }

        assert dict(run_once(len(ends))) == ends

    def test_the_transaction_of_the_test_survives_a_failed_statement(self) -> None:
        """In a worker the statement would have failed alone, in autocommit mode."""
        job = enqueue("inside.breaks", {"name": "a"}, max_attempts=1)
        quiet = enqueue("inside.breaks", {"name": "b", "swallow": True})

        assert run_once(2) == [(job.pk, Status.DEAD), (quiet.pk, Status.DONE)]
        assert Group.objects.count() == 0
        assert saved(job).error_class == "django.db.utils.IntegrityError"

    def test_effects_before_an_error_of_the_handlers_own_stay(self) -> None:
        job = enqueue("inside.fails_after", {"name": "kept"}, max_attempts=1)

        run_once()

        assert Group.objects.get().name == "kept"
        assert saved(job).cost_total == Decimal("0.25")
        assert Cost.objects.get().amount == Decimal("0.25")

    def test_a_job_finished_in_its_own_transaction_counts_once(self) -> None:
        job = enqueue("inside.completes", {"name": "x"})

        assert run_once() == [(job.pk, Status.DONE)]
        assert (saved(job).result, Group.objects.count()) == ({"by": "x"}, 1)
        assert Cost.objects.get().amount == Decimal("0.50")

    def test_progress_is_stored_and_a_cancel_request_is_seen(self) -> None:
        job = enqueue("inside.reports")

        run_once()

        assert saved(job).result == [False, True, {"percent": 40, "message": "nearly half"}]

    def test_a_coroutine_works_on_the_connection_of_the_test(self) -> None:
        job = enqueue("inside.waits", {"name": "async"})

        assert run_once() == [(job.pk, Status.DONE)]
        assert (saved(job).result, Group.objects.get().name) == (1, "async")

    def test_the_connection_is_neither_closed_nor_committed(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            pid = cursor.fetchone()[0]
        job = enqueue("inside.asks")

        run_once()

        assert saved(job).result == pid
        assert connection.in_atomic_block

    def test_a_type_that_nobody_knows_is_dead_at_once(self) -> None:
        job = enqueue("probe.ok")
        Job.objects.filter(pk=job.pk).update(job_type="probe.no_such")

        assert run_once() == [(job.pk, Status.DEAD)]
        assert saved(job).outcome == Outcome.UNKNOWN_TYPE

    def test_signals_are_sent_after_the_verdict(self) -> None:
        heard: list[tuple[str, Status]] = []

        def hear(sender: str, job_id: int, **_: Any) -> None:
            heard.append((sender, Status(Job.objects.get(pk=job_id).status)))

        signals.job_done.connect(hear)
        self.addCleanup(signals.job_done.disconnect, hear)
        enqueue("probe.ok")

        run_once()

        assert heard == [("probe.ok", Status.DONE)]

    def test_notifications_are_sent_without_being_counted(self) -> None:
        job = enqueue("probe.boom", max_attempts=1)

        with self.assertLogs("jobqueue.notify", "WARNING") as logs:
            assert run_once() == [(job.pk, Status.DEAD)]

        assert f"job_id={job.pk}" in logs.output[0]
        assert drain() == []

    def test_drain_runs_what_the_jobs_enqueue_too(self) -> None:
        enqueue("inside.chains", {"left": 3})

        assert [status for _, status in drain()] == [Status.DONE] * 4
        assert drain() == []

    def test_drain_tells_of_a_chain_without_end(self) -> None:
        enqueue("inside.chains", {"left": 1_000_000})

        with self.assertRaisesMessage(JobQueueError, "20 jobs have run and more are due"):
            drain(at_most=20)


@pytest.mark.django_db(transaction=True)
def test_outside_a_transaction_each_statement_stands_alone() -> None:
    job = enqueue("inside.breaks", {"name": "kept"}, max_attempts=1)

    assert run_once() == [(job.pk, Status.DEAD)]
    assert Group.objects.get().name == "kept"
    assert not connection.in_atomic_block


@pytest.mark.django_db(transaction=True)
def test_a_job_of_a_transaction_that_is_not_committed_does_not_run() -> None:
    with transaction.atomic():
        enqueue("probe.ok")
        transaction.set_rollback(True)

    assert run_once() == []
