"""How attempts end: well, by an exception of any kind, by a word to the worker, by the end of the process."""

from datetime import timedelta
from typing import Any

import pytest

from jobqueue.models import Attempt, Job
from jobqueue.outcomes import Outcome
from jobqueue.states import Status

from .effects import Effects
from .kinds import Enqueue, Launch, WaitFor
from .waiting import until

NOW = timedelta(0)


def finished(jobs: list[Job], *, within: float = 20) -> list[Any]:
    """Wait until none of the jobs is active; returns them in the same order."""
    ids = [job.pk for job in jobs]
    active = Job.objects.filter(pk__in=ids, status__in=[1, 2, 5])
    until(lambda: not active.exists(), within=within, what=lambda: str(list(active.values_list("job_type", "status"))))
    found = Job.objects.in_bulk(ids)
    return [found[pk] for pk in ids]


@pytest.mark.smoke
def test_a_job_runs_and_keeps_its_result(launch: Launch, enqueue: Enqueue, wait_for: WaitFor) -> None:
    worker = launch()
    job = enqueue("echo", value={"a": [1, "é", None]})

    done = wait_for(job)

    assert done.result == {"a": [1, "é", None]}
    assert (done.attempts, done.outcome, done.worker_id) == (1, Outcome.DONE, worker.worker_id)
    assert None not in (done.run_started_at, done.finished_at)
    assert done.lease_until is None


def test_a_job_that_kills_its_process_starts_as_often_as_it_may_and_then_is_dead(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    """C10: attempts are charged at the claim; the others are not hurt."""
    worker = launch()
    poison = enqueue("mark_segv")
    others = [enqueue("ok") for _ in range(20)]

    dead = wait_for(poison, Status.DEAD)

    assert effects.count("start", job_id=poison.pk) == 3
    assert "crashed, signal 11" in dead.last_error
    attempts = Attempt.objects.filter(job=poison).order_by("number")
    assert [(each.number, each.outcome, each.exit_code) for each in attempts] == [
        (number, Outcome.CRASHED, -11) for number in (1, 2, 3)
    ]
    assert {job.status for job in finished(others)} == {Status.DONE}
    assert worker.code is None


def test_an_error_text_with_nul_is_stored_visibly(launch: Launch, enqueue: Enqueue, wait_for: WaitFor) -> None:
    """C15: the write that records the failure does not fail itself."""
    launch()
    job = enqueue("boom_in", text="a<nul>b")  # a payload may not hold NUL: the handler makes it

    dead = wait_for(job, Status.DEAD)

    assert dead.attempts == 2
    assert "a\\x00b" in dead.last_error
    assert Attempt.objects.filter(job=job).count() == 2


def test_an_exception_that_cannot_be_rebuilt_is_stored_as_text(launch: Launch, enqueue: Enqueue) -> None:
    """C17: required arguments, a lock, a generator: the supervisor never unpickles what a handler raised."""
    worker = launch()
    kinds = {"demanding": ("Demanding", "three and four"), "holding": ("Holding", "holding")}
    failing = {kind: [enqueue("raises", kind=kind) for _ in range(3)] for kind in kinds}
    others = [enqueue("ok") for _ in range(10)]

    for kind, (name, text) in kinds.items():
        for job in finished(failing[kind]):
            assert (job.status, job.error_class) == (Status.DEAD, f"tests.probe.endings.{name}")
            assert job.last_error == text
            assert "tests/probe/endings.py" in job.attempt_rows.get().traceback
    assert {job.status for job in finished(others)} == {Status.DONE}
    assert worker.code is None


def test_what_is_no_exception_is_a_failed_attempt_all_the_same(launch: Launch, enqueue: Enqueue) -> None:
    """C47: SystemExit, KeyboardInterrupt, GeneratorExit, a project's own; and C17's message that cannot be told."""
    worker = launch()
    kinds = ("exit", "exit_3", "exit_text", "keyboard", "generator", "sudden", "stop_iteration", "unprintable")
    failing = {kind: enqueue("raises", kind=kind) for kind in kinds}
    quitting = enqueue("quits", code=0)
    others = [enqueue("ok") for _ in range(20)]

    ended = dict(zip(failing, finished(list(failing.values())), strict=True))

    assert {kind: Status(job.status) for kind, job in ended.items()} == dict.fromkeys(kinds, Status.DEAD)
    assert {job.outcome for job in ended.values()} == {Outcome.FAILED}
    assert "sys.exit(0)" in ended["exit"].last_error
    assert ended["keyboard"].error_class == "KeyboardInterrupt"
    assert "cannot be shown" in ended["unprintable"].last_error
    (quit_job,) = finished([quitting])
    assert (quit_job.status, quit_job.outcome) == (Status.DEAD, Outcome.CRASHED)
    assert "exited with code 0" in quit_job.last_error
    assert {job.status for job in finished(others)} == {Status.DONE}
    assert worker.code is None


def test_results_of_any_size_travel_and_too_large_ones_fail(launch: Launch, enqueue: Enqueue) -> None:
    """C49: nothing hangs at the size of a pipe; just under the limit is stored, just over fails."""
    launch(RESULT_MAX_BYTES=1_100_000)
    sizes = (3, 65_535, 65_537, 1_048_576, 1_100_000)
    good = finished([enqueue("ret", size=size) for size in sizes])

    (over,) = finished([enqueue("ret", size=1_100_001, _max_attempts=1)])

    assert [len(job.result) + 2 for job in good] == list(sizes)
    assert all((job.finished_at - job.claimed_at).total_seconds() < 2 for job in good)
    assert over.status == Status.DEAD
    assert over.error_class == "jobqueue.exceptions.ResultError"
    assert "1100001" in over.last_error
    assert "1100000" in over.last_error


def test_a_result_that_json_cannot_hold_fails_the_attempt_with_the_reason(
    launch: Launch, enqueue: Enqueue, effects: Effects
) -> None:
    """C43: the side effect has happened, and an attempt row says why the job failed."""
    worker = launch()
    kinds = ("nan", "inf", "set", "nul", "surrogate", "object")
    jobs = finished([enqueue("ret_value", kind=kind) for kind in kinds])

    assert {job.status for job in jobs} == {Status.DEAD}
    assert {job.error_class for job in jobs} == {"jobqueue.exceptions.ResultError"}
    assert all("result not storable" in job.attempt_rows.get().error_text for job in jobs)
    assert effects.count("start") == len(kinds)
    assert worker.code is None


def test_an_error_of_50_mb_is_cut(launch: Launch, enqueue: Enqueue) -> None:
    """C154: head and tail are kept, the row stays small; a recursion too deep is an error like any other."""
    launch()
    huge, deep = finished(
        [enqueue("boom_in", text="x", times=50_000_000, _max_attempts=1), enqueue("raises", kind="recursion")]
    )

    attempt = huge.attempt_rows.get()
    assert len((attempt.error_text + attempt.traceback).encode()) < 64_000
    assert "bytes cut" in attempt.error_text
    assert deep.error_class == "RecursionError"
    assert len(deep.attempt_rows.get().traceback) < 32_000


def test_retry_is_charged_and_never_comes_early(launch: Launch, enqueue: Enqueue) -> None:
    """C79: an explicit delay is a lower bound; C78: a plain backoff is spread over a quarter of its length."""
    launch()
    explicit = [enqueue("retry_after", delay=10) for _ in range(100)]
    plain = [enqueue("plain_backoff") for _ in range(100)]
    scheduled = Job.objects.filter(status=Status.SCHEDULED)
    until(lambda: scheduled.count() == 200, what="all failed once")

    def delays(jobs: list[Job]) -> list[float]:
        found = Job.objects.in_bulk([job.pk for job in jobs]).values()
        return [(job.run_after - job.attempt_rows.get().finished_at).total_seconds() for job in found]

    assert 10 <= min(delays(explicit)) <= max(delays(explicit)) < 11
    waits = sorted(delays(plain))
    assert min(waits) >= 10
    assert max(waits) - min(waits) > 2, "spread over 20 % of the delay"
    assert 9 <= sum(waits) / len(waits) <= 13
    assert {job.attempts for job in scheduled} == {1}


def test_snooze_gives_the_attempt_back(launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects) -> None:
    launch()
    job = enqueue("snooze_once", _max_attempts=1)

    done = wait_for(job)

    assert (done.result, done.attempts, done.lease_epoch) == (1, 1, 2)
    assert effects.count("start") == 2
    assert not Attempt.objects.filter(job=job).exists()


def test_discard_cancels_with_the_reason(launch: Launch, enqueue: Enqueue, wait_for: WaitFor) -> None:
    launch()
    job = enqueue("discard", reason="the customer is gone")

    ended = wait_for(job, Status.CANCELLED)

    assert ended.outcome == Outcome.DISCARDED
    assert ended.last_error == "the customer is gone"
    assert ended.attempt_rows.get().outcome == Outcome.DISCARDED


def test_a_handler_that_gives_up_makes_a_dead_letter_at_once(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor
) -> None:
    launch()
    job = enqueue("give_up", reason="no such account", _max_attempts=5)

    ended = wait_for(job, Status.DEAD)

    assert (ended.attempts, ended.outcome, ended.last_error) == (1, Outcome.FAILED, "no such account")
    assert ended.error_class == "jobqueue.exceptions.Dead"
    assert ended.attempt_rows.get().outcome == Outcome.FAILED
    assert Job.objects.filter(job_type="jobqueue.notify").count() == 1


def test_a_job_that_fails_is_tried_again_until_it_goes_well(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects
) -> None:
    launch()
    job = enqueue("flaky", failures=2)

    done = wait_for(job)

    assert (done.result, done.attempts) == (3, 3)
    assert [row.attempt for row in effects.all("start")] == [1, 2, 3]
    assert [each["number"] for each in done.attempt_history()] == [1, 2, 3]


def test_a_backoff_far_along_does_not_overflow(launch: Launch, make_job: Enqueue) -> None:
    """C76: with 4,999 attempts behind it, the next run is one cap ahead, a quarter more at most."""
    worker = launch()
    jobs = [
        make_job(job_type="probe.steep_backoff", attempts=attempts, max_attempts=5000)
        for attempts in (0, 45, 59, 1_099, 4_998)
    ]
    scheduled = Job.objects.filter(pk__in=[job.pk for job in jobs], status=Status.SCHEDULED)
    until(lambda: scheduled.count() == len(jobs), what="all are scheduled again")

    for job in scheduled.order_by("pk")[1:]:
        delay = (job.run_after - job.attempt_rows.get().finished_at).total_seconds()
        assert 7200 <= delay <= 9000.1
    assert worker.code is None
