"""Cancel: at once where a job waits, within a second where it runs, refused where it has ended."""

from datetime import timedelta

import pytest

from jobqueue.exceptions import InvalidTransition
from jobqueue.models import Job
from jobqueue.outcomes import Outcome
from jobqueue.states import Status

from .effects import Effects
from .kinds import Enqueue, Launch, StatusOf, WaitFor
from .waiting import holds_for


@pytest.mark.smoke
def test_a_running_job_is_stopped_within_a_second(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    """C80: with the hint, far from the next renewal."""
    launch("--processes", "1", LEASE_SECONDS=60)
    job = enqueue("tidy_stop", seconds=60)
    effects.wait("start")

    Job.objects.cancel([job.pk])

    ended = wait_for(job, Status.CANCELLED)
    assert (ended.finished_at - ended.cancel_requested_at).total_seconds() < 1
    assert [row.detail for row in effects.all("stopped")] == ["JobCancelled"]
    assert ended.attempt_rows.get().outcome == Outcome.CANCELLED


def test_a_cancel_is_found_without_a_hint(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    """C80: with NOTIFY off the worker looks by itself, about every second."""
    launch("--processes", "1", LEASE_SECONDS=60, NOTIFY="off")
    job = enqueue("mark", seconds=60)
    effects.wait("start")

    Job.objects.cancel([job.pk])

    ended = wait_for(job, Status.CANCELLED)
    assert (ended.finished_at - ended.cancel_requested_at).total_seconds() < 2.5


def test_a_cancelled_job_is_not_brought_back_by_its_own_failure(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, status: StatusOf, effects: Effects
) -> None:
    """C80: a failure after the request becomes CANCELLED, never a retry."""
    worker = launch("--processes", "1")
    job = enqueue("sleep_then_boom", seconds=60)
    effects.wait("start")

    Job.objects.cancel([job.pk])

    wait_for(job, Status.CANCELLED)
    wait_for(enqueue("ok"))
    holds_for(0.7, lambda: status(job) == Status.CANCELLED, what="it stays so")
    assert effects.count("start") == 1
    assert worker.code is None


def test_a_handler_that_ends_by_itself_is_done(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    """C80: a success that was settled first stays DONE; context.cancelled tells the handler of the request."""
    launch("--processes", "1")
    job = enqueue("looks_for_cancel", seconds=10)
    effects.wait("start")

    Job.objects.cancel([job.pk])

    assert wait_for(job).result == "ended by itself"


def test_a_handler_that_cannot_be_stopped_is_killed(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    """C80: the killed run is CANCELLED, not crashed."""
    launch("--processes", "1", LIMITS={"probe.stubborn": {"duration": 60}})
    job = enqueue("stubborn", how="native")
    effects.wait("start")

    Job.objects.cancel([job.pk])

    ended = wait_for(job, Status.CANCELLED, within=4)
    assert ended.attempt_rows.get().exit_code == -9


def test_a_job_that_waits_is_cancelled_at_once_and_an_ended_one_is_refused(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, status: StatusOf, effects: Effects
) -> None:
    """C80: PENDING, SCHEDULED, in a child's inbox, DONE."""
    launch("--processes", "1", LEASE_SECONDS=60)
    scheduled = enqueue("mark", _run_after=timedelta(hours=1))
    done = wait_for(enqueue("ok"))
    running = enqueue("mark", seconds=1)
    effects.wait("start")
    waiting = enqueue("mark")

    Job.objects.cancel([scheduled.pk, waiting.pk])
    with pytest.raises(InvalidTransition):
        Job.objects.cancel(done.pk)

    assert (status(scheduled), status(done)) == (Status.CANCELLED, Status.DONE)
    wait_for(waiting, Status.CANCELLED, within=1)
    wait_for(running)
    wait_for(enqueue("ok"))
    assert effects.count("start") == 1


def test_jobs_cancelled_while_a_crowd_runs_are_done_or_cancelled(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    """C80: claimed, in an inbox, running or ended: each of 300 ends once, one way or the other."""
    launch("--processes", "2")
    jobs = Job.objects.enqueue_many([("probe.mark", {})] * 300)
    effects.wait("start", times=20)

    Job.objects.cancel([job.pk for job in jobs if job])

    last = enqueue("ok", _priority=200)
    wait_for(last)
    statuses = [Status(value) for value in Job.objects.filter(job_type="probe.mark").values_list("status", flat=True)]
    assert set(statuses) <= {Status.DONE, Status.CANCELLED}
    starts = [row.job_id for row in effects.all("start")]
    assert len(starts) == len(set(starts))
    assert statuses.count(Status.DONE) <= len(starts)
