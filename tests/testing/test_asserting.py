"""assert_enqueued() and assert_not_enqueued(): what fits, and what is told where nothing does."""

import unittest
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import TestCase, mock
from uuid import UUID

import pytest
from django.db import transaction
from django.utils import timezone

from jobqueue.models import Job
from jobqueue.testing import assert_enqueued, assert_not_enqueued, drain
from tests.backends.tasks import adds
from tests.contrib.moved import tasks
from tests.probe import jobs

pytestmark = pytest.mark.django_db


@pytest.fixture
def job() -> Job:
    job = Job.objects.enqueue("probe.echo", {"value": {"path": "a.pdf", "pages": [1, 2]}}, queue="documents")
    assert job is not None
    return job


def told(job_type: Any, *args: Any, **wanted: Any) -> str:
    """Return what a failed assertion says."""
    with pytest.raises(AssertionError) as caught:
        assert_enqueued(job_type, *args, **wanted)
    return str(caught.value)


@pytest.mark.parametrize(
    "matching",
    [
        None,
        {},
        {"value": {"path": "a.pdf"}},
        {"value": {"pages": (1, 2)}},
        {"value": mock.ANY},
        {"value": {"pages": [1, mock.ANY]}},
        lambda payload: payload["value"]["path"].endswith(".pdf"),
    ],
)
def test_a_payload_fits_in_part_to_any_depth(job: Job, matching: Any) -> None:
    assert assert_enqueued("probe.echo", matching) == [job]


@pytest.mark.parametrize(
    ("matching", "why"),
    [
        ({"value": {"path": "b.pdf"}}, "payload['value']['path'] is 'a.pdf', not 'b.pdf'"),
        ({"value": {"pages": [1]}}, "payload['value']['pages'] is [1, 2], not [1]"),
        ({"value": {"owner": None}}, "payload['value']['owner'] is missing"),
        (lambda _: False, "payload is refused by the function"),
    ],
)
def test_a_payload_that_differs_is_told_where(job: Job, matching: Any, why: str) -> None:
    text = told("probe.echo", matching)

    assert f"#{job.pk} probe.echo queue=documents PENDING payload={job.payload!r}  <- {why}" in text
    assert_not_enqueued("probe.echo", matching)


def test_a_value_that_no_payload_can_hold_fits_nothing() -> None:
    Job.objects.enqueue("probe.echo", {"value": str(UUID(int=1))})

    assert f"not {UUID(int=1)!r}" in told("probe.echo", {"value": UUID(int=1)})


def test_what_is_stored_as_null_is_not_missing() -> None:
    Job.objects.enqueue("probe.echo", {"value": None})

    assert_enqueued("probe.echo", {"value": None})
    assert_not_enqueued("probe.echo", {"other": None})


def test_the_queue_is_compared(job: Job) -> None:
    assert_enqueued("probe.echo", queue="documents")
    assert "<- queue is 'documents'" in told("probe.echo", queue="mail")


def test_when_it_is_due_is_compared_as_a_wait_and_as_an_instant() -> None:
    Job.objects.enqueue("probe.ok", run_after=timedelta(hours=1))
    instant = timezone.now() + timedelta(hours=1)

    assert_enqueued("probe.ok", run_after=timedelta(hours=1), tolerance=timedelta(0))
    assert_enqueued("probe.ok", run_after=timedelta(minutes=59, seconds=56))
    assert_enqueued("probe.ok", run_after=instant)
    assert "<- run_after is +3600 s" in told("probe.ok", run_after=timedelta(minutes=59))
    assert "<- run_after is 20" in told("probe.ok", run_after=instant + timedelta(minutes=1))
    assert_not_enqueued("probe.ok", run_after=timedelta(0))


def test_an_instant_is_told_with_its_zone(job: Job) -> None:
    text = told("probe.echo", run_after=datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC))

    assert "run_after 2030-01-02 03:04:05+0000 (within 5 s)" in text


def test_a_job_without_a_wait_is_due_at_once(job: Job) -> None:
    assert_enqueued("probe.echo", run_after=timedelta(0), tolerance=timedelta(0))


def test_exactly_so_many_must_fit() -> None:
    first, second = Job.objects.enqueue_many([("probe.ok", {}), ("probe.ok", {})])

    assert assert_enqueued("probe.ok", count=2) == [first, second]
    assert told("probe.ok", count=1).startswith("2 jobs were enqueued, not 1: 'probe.ok'")
    assert told("probe.ok", {"x": 1}, count=1).startswith("0 jobs were enqueued, not 1: 'probe.ok', payload {'x': 1}")
    assert_not_enqueued("probe.ok", {"x": 1})


def test_a_job_that_has_run_was_enqueued(job: Job) -> None:
    drain()

    assert_enqueued("probe.echo", count=1)
    with pytest.raises(AssertionError, match=r"1 job was enqueued, not 0: 'probe.echo'"):
        assert_not_enqueued("probe.echo")


def test_only_those_that_were_captured_are_asked(job: Job) -> None:
    assert_not_enqueued("probe.echo", among=[])
    assert assert_enqueued("probe.echo", among=[job]) == [job]
    assert "no job at all is there" in told("probe.echo", among=[])


def test_a_handler_and_tasks_name_their_type() -> None:
    Job.objects.enqueue("probe.ok")
    adds.enqueue(1, start=2)
    tasks.add.delay(1)

    assert_enqueued(jobs.ok)
    assert_enqueued(adds, {"args": [1], "kwargs": {"start": 2}})
    assert_enqueued(tasks.add, {"args": [1]})
    with pytest.raises(TypeError, match="a job type is a name or a handler"):
        assert_enqueued(test_a_handler_and_tasks_name_their_type)


def test_jobs_of_the_type_are_shown_first_and_no_page_of_others() -> None:
    Job.objects.enqueue_many([("probe.echo", {"value": "x" * 1000})] * 30)
    last = Job.objects.enqueue("probe.ok", run_after=timedelta(minutes=1))
    assert last is not None

    lines = told("probe.ok", queue="mail").splitlines()

    assert lines[0] == "no job was enqueued: 'probe.ok', queue 'mail'"
    assert lines[1] == "enqueued are:"
    assert lines[2] == (
        f"  #{last.pk} probe.ok queue=default SCHEDULED run_after=+60 s payload={{}}  <- queue is 'default'"
    )
    assert lines[-1] == "  and 11 more"
    assert max(len(line) for line in lines) < 400


def test_a_type_that_no_handler_has_is_told() -> None:
    assert "no handler is registered for 'probe.no_such'" in told("probe.no_such")
    assert "no handler" not in told("probe.ok")


def test_commit_hooks_that_have_not_run_are_told() -> None:
    Job.objects.enqueue("probe.echo")
    assert "on_commit" not in told("probe.ok")

    transaction.on_commit(lambda: Job.objects.enqueue("probe.ok"))

    assert "1 on_commit hook(s) of this transaction have not run" in told("probe.ok")


class FailingTests(TestCase):
    """Not for pytest: its failure is read below."""

    __test__ = False

    def test_it(self) -> None:
        assert_enqueued("probe.ok")


def test_a_failure_points_at_the_test_and_not_at_the_assertion() -> None:
    result = unittest.TestResult()

    FailingTests("test_it").run(result)

    [(_, text)] = result.failures
    assert "no job was enqueued: 'probe.ok'" in text
    assert 'assert_enqueued("probe.ok")' in text
    assert str(Path("jobqueue", "testing")) not in text
