"""Signals: after the verdict, with the exception at hand, from a living process for a killed one, and never harmful."""

from datetime import timedelta

from jobqueue.models import Job
from jobqueue.states import Status

from . import processes
from .effects import Effects
from .kinds import Enqueue, Launch, WaitFor

RECORDING = {"PROBE_RECEIVERS": "record"}


def test_receivers_see_the_state_that_was_stored(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    """C20: DONE, SCHEDULED, DEAD or CANCELLED is committed first; exc_info() is at hand in the except block."""
    launch(env=RECORDING)
    good, bad, given_up = enqueue("ok"), enqueue("boom_in", text="boom"), enqueue("discard", reason="gone")
    wait_for(good)
    wait_for(bad, Status.DEAD)
    wait_for(given_up, Status.CANCELLED)

    def told(job: Job) -> list[tuple[str, str]]:
        return [(row.event, row.detail) for row in effects.all(job_id=job.pk)]

    effects.wait("job_done")
    effects.wait("job_dead")
    effects.wait("job_cancelled")
    assert told(good) == [("job_started", "2 None"), ("job_done", "3 None")]
    assert told(bad) == [
        ("job_started", "2 None"),
        ("job_retrying", "5 RuntimeError('boom')"),
        ("job_started", "2 None"),
        ("job_dead", "4 RuntimeError('boom')"),
    ]
    assert told(given_up) == [("job_started", "2 None"), ("job_cancelled", "7 Discard('gone')")]


def test_another_child_sends_the_signal_of_a_killed_one(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    launch("--processes", "1", env=RECORDING, LIMITS={"probe.killed_by_itself": {"duration": 5}})
    job = enqueue("killed_by_itself", _max_attempts=1)

    wait_for(job, Status.DEAD)

    (sent,) = effects.wait("job_dead", job_id=job.pk)
    assert sent.detail == "4 None"
    assert sent.pid != effects.all("start")[0].pid


def test_the_signal_of_a_killed_child_survives_a_long_job_in_front_of_it(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    """What is taken back from behind a long job may be a signal to send: it is not lost."""
    launch("--processes", "1", env=RECORDING)
    job = enqueue("killed_by_itself", _max_attempts=1)
    for _ in range(3):
        enqueue("mark", seconds=0.5)

    wait_for(job, Status.DEAD)

    assert effects.wait("job_dead", job_id=job.pk)


def test_the_next_job_waits_for_the_receivers_of_a_killed_one(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    """C165: they hold the slot of another child; the job's limit starts when its handler does."""
    launch("--processes", "1", env={"PROBE_RECEIVERS": "dawdle_dead"}, LIMITS={"probe.mark": {"duration": 1}})
    enqueue("killed_by_itself", _max_attempts=1)
    (told,) = effects.wait("job_dead")

    done = wait_for(enqueue("mark", _max_attempts=1))

    assert (done.attempts, done.interruptions) == (1, 0)
    (start,) = effects.all("start", job_id=done.pk)
    assert start.at - told.at > timedelta(seconds=2.9)


def test_receivers_that_fail_change_nothing(launch: Launch, enqueue: Enqueue, wait_for: WaitFor) -> None:
    """C20: each is logged once with the job's id; job, worker and the next job are as without them."""
    worker = launch(env={"PROBE_RECEIVERS": "raise"})
    worker.may_show_tracebacks = True
    good, bad = enqueue("ok"), enqueue("boom", _max_attempts=1)

    assert wait_for(good).attempts == 1
    assert wait_for(bad, Status.DEAD).last_error == "boom"

    worker.says(f"signal receiver failed receiver=raise_always job_id={bad.pk}", times=2)  # job_started and job_dead
    assert worker.log.count(f"receiver=raise_always job_id={good.pk}") == 2
    wait_for(enqueue("ok"))


def test_a_refused_end_sends_no_signal(launch: Launch, enqueue: Enqueue, effects: Effects) -> None:
    """C01: the worker that lost the job does not say that it is done."""
    worker = launch("--processes", "1", env=RECORDING, LEASE_SECONDS=60)
    job = enqueue("mark", seconds=0.7)
    effects.wait("start")

    Job.objects.filter(pk=job.pk).update(worker_id="another", lease_epoch=7)

    worker.says("its end was refused")
    assert [row.event for row in effects.all(job_id=job.pk)] == ["job_started", "start", "end"]
    assert processes.is_alive(worker.pid)
    Job.objects.filter(pk=job.pk).update(status=Status.DONE)


def test_slow_receivers_cost_the_next_job_no_time_of_its_own(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    """C165: while a receiver is called the slot is taken; the next job's limit starts when its handler does."""
    launch("--processes", "1", env={"PROBE_RECEIVERS": "dawdle"}, LIMITS={"probe.sleep": {"duration": 0.6}})
    jobs = [enqueue("sleep", seconds=0.05, _max_attempts=1) for _ in range(2)]

    assert [wait_for(job).attempts for job in jobs] == [1, 1]

    effects.wait("job_done", times=2)


def test_the_work_of_receivers_is_not_charged_to_the_next_job(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor
) -> None:
    """A job's processor time starts where the last one's ended, but for what came between."""
    launch("--processes", "1", env={"PROBE_RECEIVERS": "burn_done"})
    jobs = [enqueue("ok") for _ in range(3)]

    assert [used for job in jobs if (used := wait_for(job).cpu_seconds or 0) > 0.25] == []


def test_a_stop_waits_for_receivers(launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects) -> None:
    """C40: the job is DONE, and what follows it is told before the worker ends."""
    worker = launch("--processes", "1", env={"PROBE_RECEIVERS": "dawdle"})
    job = enqueue("ok")
    wait_for(job)

    worker.stop()

    assert worker.ends() == 0
    assert effects.count("job_done", job_id=job.pk) == 1
