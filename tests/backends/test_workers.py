"""Tasks in real workers: crashes, hostile endings, limits, retries, signals after the verdict."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import OperationalError

from jobqueue.backends.compat import TaskResult, TaskResultStatus, task_backends
from jobqueue.backends.handling import Source
from jobqueue.children.child import Child
from jobqueue.children.protocol import Notice, frame
from jobqueue.models import Job
from jobqueue.registry import registry
from jobqueue.states import Status
from tests.backends import tasks
from tests.worker.effects import Effects
from tests.worker.kinds import Launch
from tests.worker.waiting import until

FAILED, SUCCESSFUL = TaskResultStatus.FAILED, TaskResultStatus.SUCCESSFUL
Finished = Callable[..., Any]


@pytest.mark.smoke
def test_a_worker_outlives_whatever_tasks_do(launch: Launch, finished: Finished) -> None:
    """SystemExit, KeyboardInterrupt and values that are no JSON end as FAILED; the next task is run."""
    worker = launch("--processes", "1")
    hostile = [tasks.raises_in_turn.enqueue(kind) for kind in ("exit", "interrupt", "object", "nan", "nul")]
    after = tasks.adds.enqueue(1, 2)

    ends = [finished(result) for result in hostile]

    assert {end.status for end in ends} == {FAILED}
    names = [error.exception_class.__name__ for end in ends for error in end.errors]
    assert names == ["SystemExit", "KeyboardInterrupt", "TypeError", "ResultError", "ResultError"]
    assert finished(after).return_value == 3
    assert worker.code is None
    worker.may_show_tracebacks = True  # task_finished is logged with them


def test_a_killed_process_fails_its_task_and_no_other(launch: Launch, finished: Finished) -> None:
    """Its task does not stay RUNNING; it is run again, as a machine's fault is no error of the task's."""
    launch("--processes", "1", env={"PROBE_RECEIVERS": "tasks"}).may_show_tracebacks = True
    result, after = tasks.raises_in_turn.enqueue("kill"), tasks.adds.enqueue(1)

    end = finished(result)

    assert (end.status, end.attempts, len(end.errors)) == (FAILED, 3, 3)
    assert {error.exception_class.__name__ for error in end.errors} == {"JobCrashed"}
    assert "signal 9" in end.errors[0].traceback
    assert len(set(end.worker_ids)) == 1
    assert finished(after).status == SUCCESSFUL


def test_the_death_of_a_whole_worker_does_not_leave_its_task_running(launch: Launch, finished: Finished) -> None:
    first = launch("--processes", "1")
    result = tasks.waits.enqueue(3600)
    until(lambda: task_backends["default"].get_result(result.id).status == TaskResultStatus.RUNNING)
    first.kill_all()
    Job.objects.filter(pk=int(result.id)).update(max_attempts=1)

    launch("--processes", "1")

    end = finished(result)
    assert (end.status, end.worker_ids, len(end.errors)) == (FAILED, [first.worker_id], 1)


@pytest.mark.parametrize("apps", ["", "tests.backends"], ids=["found late", "declared"])
def test_a_limit_is_enforced_and_told(launch: Launch, finished: Finished, apps: str) -> None:
    worker = launch("--processes", "1", env={"PROBE_APPS": apps} if apps else {})
    worker.may_show_tracebacks = True
    end = finished(tasks.runs_too_long.enqueue())

    assert (end.status, [error.exception_class.__name__ for error in end.errors]) == (FAILED, ["JobDeadlineExceeded"])


def test_retries_are_ready_in_between_and_count_errors_and_workers(launch: Launch, finished: Finished) -> None:
    worker = launch("--processes", "1")
    good, bad = tasks.succeeds_third.enqueue(), tasks.fails_twice.enqueue()

    assert finished(good).return_value == [3, 2, 3]
    end = finished(bad)

    assert [error.exception_class for error in end.errors] == [RuntimeError] * 3
    assert end.worker_ids == [worker.worker_id] * 3
    assert end.started_at is not None
    assert end.last_attempted_at is not None
    assert end.started_at < end.last_attempted_at
    worker.may_show_tracebacks = True


@pytest.mark.smoke
def test_signals_follow_the_verdict_with_the_class_as_sender(
    launch: Launch, finished: Finished, effects: Effects
) -> None:
    launch("--processes", "1", env={"PROBE_RECEIVERS": "tasks"}).may_show_tracebacks = True
    good, bad, retried = tasks.adds.enqueue(1), tasks.fails.enqueue("boom"), tasks.succeeds_third.enqueue()
    for result in (good, bad, retried):
        finished(result)
    effects.wait("task_finished", times=3)

    def told(result: TaskResult[Any]) -> list[tuple[str, str]]:
        return [(row.event, row.detail) for row in effects.all(job_id=int(result.id))]

    assert told(good) == [
        ("task_started", "JobQueueBackend RUNNING 2 1 0 None"),
        ("task_finished", "JobQueueBackend SUCCESSFUL 3 1 0 None"),
    ]
    assert told(bad) == [
        ("task_started", "JobQueueBackend RUNNING 2 1 0 None"),
        ("task_finished", "JobQueueBackend FAILED 4 1 1 ValueError('boom')"),
    ]
    assert told(retried) == [
        ("task_started", "JobQueueBackend RUNNING 2 1 0 None"),
        ("task_started", "JobQueueBackend RUNNING 2 2 1 None"),
        ("task_started", "JobQueueBackend RUNNING 2 3 2 None"),
        ("task_finished", "JobQueueBackend SUCCESSFUL 3 3 2 None"),
    ]


def test_another_child_sends_the_signal_of_a_killed_one(launch: Launch, finished: Finished, effects: Effects) -> None:
    worker = launch("--processes", "1", env={"PROBE_RECEIVERS": "tasks"})
    worker.may_show_tracebacks = True
    result = tasks.raises_in_turn.enqueue("kill")
    finished(result)

    (sent,) = effects.wait("task_finished", job_id=int(result.id))

    assert sent.detail.startswith("JobQueueBackend FAILED 4 3 3 JobCrashed('killed, signal 9")
    assert sent.pid != effects.all("task_started")[0].pid


def test_a_failure_is_logged_by_the_tasks_api_with_its_traceback(launch: Launch, finished: Finished) -> None:
    worker = launch("--processes", "1")
    worker.may_show_tracebacks = True
    result = tasks.fails.enqueue("the reason")
    finished(result)

    worker.says(f"Task id={result.id} path=tests.backends.tasks.fails state=RUNNING")
    worker.says(f"Task id={result.id} path=tests.backends.tasks.fails state=FAILED")
    worker.says("ValueError: the reason")


def test_threads_share_a_child(launch: Launch, finished: Finished) -> None:
    launch("--processes", "1", "--threads", "4")
    results = [tasks.waits_with_context.enqueue() for _ in range(6)] + [tasks.tells.enqueue(str(n)) for n in range(6)]

    ends = [finished(result) for result in results]

    assert [end.return_value for end in ends[:6]] == [1] * 6
    assert [end.return_value["id"] for end in ends[6:]] == [result.id for result in results[6:]]


def test_a_task_of_code_that_is_not_deployed_yet_waits_for_it(launch: Launch, finished: Finished) -> None:
    launch("--processes", "1", UNKNOWN_TYPE_RETRY_SECONDS=1, UNKNOWN_TYPE_DEAD_SECONDS=2)
    known = tasks.adds.enqueue(1)
    gone = Job.objects.enqueue_arrivals([arrival_of_tomorrow()])[0]
    assert gone is not None

    assert finished(known).status == SUCCESSFUL
    until(lambda: Job.objects.get(pk=gone.pk).unknown_since is not None, what="given back as unknown")
    until(lambda: Job.objects.get(pk=gone.pk).status == Status.DEAD, within=20, what="dead in the end")
    assert Job.objects.get(pk=gone.pk).error_class == "jobqueue.exceptions.UnknownJobType"


def arrival_of_tomorrow() -> Any:
    """Return an arrival whose task this release does not have."""
    from jobqueue.managers.arriving import Arrival

    text = '{"args": [], "kwargs": {}, "backend": "default"}'
    return Arrival("tests.backends.tasks.tomorrow", "default", 100, 3, {}, text, len(text))._replace(
        task_backend="default"
    )


def test_a_payload_that_no_task_can_read_fails_its_task_and_costs_no_slot(launch: Launch, finished: Finished) -> None:
    """Somebody edited it: neither the start nor the end of such a run can be told, which must not end its thread."""
    broken = [int(tasks.adds.enqueue(1).id) for _ in range(3)]
    Job.objects.filter(pk__in=broken).update(payload=[])
    after = tasks.adds.enqueue(1, 2)

    worker = launch("--processes", "1", "--threads", "2")

    assert finished(after).return_value == 3
    until(lambda: not Job.objects.filter(pk__in=broken).exclude(status=Status.DEAD).exists())
    worker.says("end not told", times=3)
    worker.may_show_tracebacks = True


def test_a_time_that_somebody_has_broken_is_left_out(launch: Launch, finished: Finished) -> None:
    result = tasks.adds.enqueue(1, 2)
    job = Job.objects.get(pk=int(result.id))
    Job.objects.filter(pk=job.pk).update(payload=job.payload | {"run_after": "soon"})

    launch("--processes", "1")

    end = finished(result)
    assert (end.return_value, end.task.run_after) == (3, None)


def test_an_end_that_cannot_be_told_costs_no_slot_of_the_child_that_should_tell_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Broken(Source):
        def ended(self, job_id: int, error_class: str, error_text: str) -> None:
            raise OperationalError("the database is away")

    sent: list[bytes] = []
    child: Any = object.__new__(Child)
    child._send = sent.append
    monkeypatch.setattr(registry, "task_source", Broken())

    child._send_notice(Notice("job_dead", {"job_id": 1, "job_type": "t", "error_class": "", "error_text": ""}))

    assert sent == [frame("S", (0, 0))]
