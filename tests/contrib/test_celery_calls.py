"""Tasks in Celery's words: what can be declared and called, what is refused, and what a result tells."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from jobqueue.contrib import celery
from jobqueue.contrib.celery import AsyncResult, TaskFailure, shared_task
from jobqueue.contrib.celery.checking import check_priorities
from jobqueue.contrib.celery.declaring import TaskOptions
from jobqueue.exceptions import InvalidName, JobQueueError, PayloadError
from jobqueue.models import Job
from jobqueue.registry import registry
from jobqueue.states import Status
from jobqueue.testing import drain, run_once
from tests.contrib.moved import tasks


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the tasks that a test declares."""
    monkeypatch.setattr(registry, "_handlers", dict(registry._handlers))


def row_of(result: Any) -> Job:
    return Job.objects.get(pk=int(result.id))


@pytest.mark.django_db
def test_delay_enqueues_one_job_with_the_declared_terms() -> None:
    job = row_of(tasks.tells.delay())

    assert (job.job_type, job.queue, job.priority, job.max_attempts) == ("moved.tells", "slow", 91, 4)
    assert job.payload == {"args": [], "kwargs": {}}
    assert row_of(tasks.add.delay(1, y=2)).job_type == "tests.contrib.moved.tasks.add"


@pytest.mark.django_db
def test_apply_async_maps_countdown_eta_queue_and_priority() -> None:
    eta = datetime(2100, 1, 1, tzinfo=UTC)
    waiting = row_of(tasks.add.apply_async((1,), {"y": 2}, countdown=60, queue="mail", priority=0, retry=True))
    later = row_of(tasks.add.apply_async([1], eta=eta, serializer="json", ignore_result=True))

    assert (waiting.status, waiting.queue, waiting.priority) == (Status.SCHEDULED, "mail", 100)
    assert timedelta(seconds=50) < waiting.run_after - timezone.now() <= timedelta(seconds=60)
    assert (later.run_after, later.priority, later.payload["args"]) == (eta, 100, [1])


@pytest.mark.django_db
def test_a_rollback_takes_the_task_along() -> None:
    with transaction.atomic():
        tasks.add.delay_on_commit(1)
        tasks.add.apply_async_on_commit((1,))
        assert Job.objects.count() == 2
        transaction.set_rollback(True)

    assert not Job.objects.exists()


@pytest.mark.django_db
def test_a_task_that_begins_too_late_is_revoked() -> None:
    expired = tasks.add.apply_async((1,), expires=timezone.now() - timedelta(seconds=1))
    in_time = tasks.add.apply_async((1,), expires=3600)

    drain()

    assert (expired.status, in_time.status) == ("REVOKED", "SUCCESS")
    assert "expired at" in str(expired.result)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: tasks.add.apply_async((1,), link=tasks.add), "link is not supported: have a task enqueue the next"),
        (lambda: tasks.add.apply_async((1,), task_id="a"), "task_id is not supported: an id is given by the database"),
        (lambda: tasks.add.apply_async((1,), serializer="pickle"), "payloads are JSON"),
        (lambda: tasks.add.apply_async((1,), unheard_of=1), "see docs/from-celery.md"),
        (lambda: tasks.add.apply_async("abc"), "args must be a list or a tuple"),
        (lambda: tasks.add.delay(), "missing a required argument: 'x'"),
        (lambda: tasks.tells.delay(1), "too many positional arguments"),
        (lambda: tasks.add.apply_async((1,), priority=True), "priority must be a whole number"),
        (lambda: tasks.add.enqueue(x=1), "by delay"),
        (lambda: tasks.add.enqueue_with({}), "by delay"),
        (lambda: tasks.add.aenqueue(x=1), "by delay"),
    ],
)
def test_a_call_that_cannot_be_meant_is_refused_before_any_sql(call: Callable[[], Any], said: str) -> None:
    with pytest.raises(TypeError, match=said):
        call()


def test_values_that_cannot_be_meant_are_refused_before_any_sql() -> None:
    with pytest.raises(ValueError, match="0 to 255, not 256"):
        tasks.add.apply_async((1,), priority=256)
    with pytest.raises(ValueError, match="expires must be aware"):
        tasks.add.apply_async((1,), expires=datetime(2100, 1, 1))
    with pytest.raises(ValueError, match="run_after must be aware"):
        tasks.add.apply_async((1,), eta=datetime(2100, 1, 1))
    with pytest.raises(PayloadError, match=r"args\[0\]|datetime"):
        tasks.add.delay(timezone.now())


@pytest.mark.parametrize("name", ["s", "si", "signature", "subtask", "update_state", "map", "chunks"])
def test_an_attribute_of_celerys_names_what_to_use_instead(name: str) -> None:
    with pytest.raises(AttributeError, match=f"has no {name}: ..."):
        getattr(tasks.add, name)
    assert not hasattr(tasks.add, "anything_else")


@pytest.mark.parametrize("name", ["chain", "group", "chord", "Celery", "current_task", "Ignore", "Reject"])
def test_a_name_of_celerys_says_at_import_what_to_use_instead(name: str) -> None:
    with pytest.raises(ImportError, match=f"has no {name}: ..."):
        exec(f"from jobqueue.contrib.celery import {name}")
    with pytest.raises(AttributeError, match="no attribute 'anything_else'"):
        celery.anything_else  # noqa: B018


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"base": object}, "base is not supported: classes of tasks"),
        ({"rate_limit": "10/m"}, "rate_limit is not supported: give the task a queue of its own"),
        ({"serializer": "pickle"}, "payloads are JSON"),
        ({"unheard_of": 1}, "see docs/from-celery.md"),
        ({"autoretry_for": ValueError}, "must be a tuple of exception classes"),
        ({"autoretry_for": ("ValueError",)}, "must be a tuple of exception classes"),
        ({"retry_kwargs": {"queue": "a"}}, "retry_kwargs: queue is not supported"),
    ],
)
def test_an_option_without_a_counterpart_is_refused_at_import(options: dict[str, Any], said: str) -> None:
    with pytest.raises(TypeError, match=said):
        shared_task(**options)


def test_functions_that_no_worker_could_call_are_refused_at_import() -> None:
    async def coroutine() -> None: ...

    def nested() -> None: ...

    for func, said in ((coroutine, "plain function"), (nested, "one inside another"), (lambda: 0, "a lambda")):
        with pytest.raises(TypeError, match=said):
            shared_task(name="moved.refused")(func)
    with pytest.raises(TypeError, match="keyword arguments only"):
        shared_task("moved.refused")  # type: ignore[call-overload]
    with pytest.raises(InvalidName, match=r"give the task a shorter one: @shared_task\(name="):
        shared_task(name="moved." + "x" * 60)(tasks.add.run)
    with pytest.raises(ValueError, match="max_retries must be a whole number from 0"):
        shared_task(max_retries=-1)


@pytest.mark.parametrize(
    ("options", "retries"),
    [
        ({}, 3),
        ({"max_retries": 0}, 0),
        ({"max_retries": None}, None),
        ({"retry_kwargs": {"max_retries": 9}}, 3),  # nothing is retried by itself
        ({"autoretry_for": (ValueError,), "retry_kwargs": {"max_retries": 9}}, 9),
        ({"autoretry_for": (ValueError,), "retry_kwargs": {"max_retries": None}}, 3),
    ],
)
def test_a_job_has_room_for_the_most_retries_that_are_declared(options: dict[str, Any], retries: int | None) -> None:
    assert TaskOptions(**options).most_retries == retries


def test_limits_on_time_are_those_of_the_job() -> None:
    both = shared_task(name="moved.both", soft_time_limit=5, time_limit=9, autoretry_for=(Exception,))(tasks.add.run)
    hard = shared_task(name="moved.hard", time_limit=9, autoretry_for=(Exception,))(tasks.add.run)

    assert (both.limits.duration, both.on_deadline) == (5, "retry")
    assert (hard.limits.duration, hard.on_deadline) == (9, "dead")
    assert both.bounded({"args": [1], "kwargs": {"y": 2}}) == {"x": 1, "y": 2}


@pytest.mark.django_db
def test_a_result_tells_each_state_in_celerys_words() -> None:
    ended, failed, again = tasks.add.delay(1, 2), tasks.fetch.delay("bad"), tasks.retries.delay(1)
    revoked, waiting = tasks.add.apply_async((1,), countdown=60), tasks.add.apply_async((1,), countdown=60)
    running = tasks.add.delay(1)
    assert {ended.status, failed.status, again.status} == {"PENDING"}
    run_once(3)
    Job.objects.filter(pk=int(running.id)).update(status=Status.RUNNING)

    revoked.revoke(terminate=True)

    told = [one.status for one in (ended, failed, again, revoked, waiting, running)]
    assert told == ["SUCCESS", "FAILURE", "RETRY", "REVOKED", "PENDING", "STARTED"]
    assert (ended.ready(), ended.successful(), ended.failed(), ended.get()) == (True, True, False, 3)
    assert (waiting.ready(), failed.failed(), ended.task_id, str(ended)) == (False, True, ended.id, ended.id)
    with pytest.raises(TaskFailure, match="ValueError: bad"):
        failed.get()
    assert isinstance(failed.get(propagate=False), TaskFailure)
    assert "JobCancelled" in str(revoked.result)


@pytest.mark.django_db
def test_a_result_is_not_waited_for_where_it_cannot_come() -> None:
    with pytest.raises(JobQueueError, match="there is no job 9e107d9d"):
        AsyncResult("9e107d9d-372b-4a5c-9e3a-000000000000").get()
    with pytest.raises(RuntimeError, match="in a transaction"):
        tasks.add.delay(1).get()
    assert AsyncResult("9e107d9d").status == tasks.add.AsyncResult("123456").status == "PENDING"


@pytest.mark.django_db(transaction=True)
def test_a_result_is_waited_for_at_most_as_long_as_said() -> None:
    with pytest.raises(TimeoutError, match=r"is PENDING after 0\.02 s"):
        tasks.add.delay(1).get(timeout=0.02, interval=0.01)


def test_a_task_called_as_a_function_is_only_that() -> None:
    assert tasks.add(1, y=2) == 3
    with pytest.raises(tasks.Busy):
        tasks.retries(1)
    with pytest.raises(celery.Retry, match="called as a function"):
        tasks.gives_up()
    assert tasks.add.__doc__ == "Add up."


def test_apply_runs_a_task_here_with_its_retries(settings: Any) -> None:
    assert tasks.add.apply((1, 2)).get() == 3
    assert tasks.retries.apply((2,)).result == [2, 2]
    given_up = tasks.fetch.apply(("busy",))
    assert (given_up.status, given_up.id, given_up.get(propagate=False).args) == ("FAILURE", "eager", ("busy",))
    with pytest.raises(tasks.Gone):
        tasks.fetch.apply(("gone",), throw=True)
    with pytest.raises(PayloadError):
        tasks.add.apply((timezone.now(),))

    settings.CELERY_TASK_ALWAYS_EAGER = True
    assert tasks.add.delay(1).get() == 1
    assert tasks.fetch.delay("bad").failed()
    settings.CELERY_TASK_EAGER_PROPAGATES = True
    with pytest.raises(ValueError, match="bad"):
        tasks.fetch.delay("bad")


def test_priorities_that_redis_reads_the_other_way_round_are_told(settings: Any) -> None:
    def told() -> list[str]:
        return [message.msg for message in check_priorities()]

    assert registry.find_known("moved.tells") is tasks.tells
    settings.CELERY_BROKER_URL = "amqp://localhost"
    assert told() == []
    settings.CELERY_BROKER_URL = "redis://localhost"
    assert told() == ["task moved.tells has priority=9, which Redis reads the other way round"]
