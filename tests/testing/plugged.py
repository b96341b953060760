"""Tests that test_plugin.py runs in a pytest of its own, with the plugin: its fixtures as a project would use them."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import connection
from django.test import TestCase

from jobqueue.models import Job
from jobqueue.states import Status
from jobqueue.testing import CapturedJobs, assert_enqueued


def statuses() -> list[int]:
    return list(Job.objects.order_by("pk").values_list("status", flat=True))


@pytest.mark.django_db
def test_eager(jobqueue_eager: None) -> None:
    Job.objects.enqueue("probe.boom")

    assert statuses() == [Status.SCHEDULED]


@pytest.mark.django_db(transaction=True)
@pytest.mark.jobqueue_eager(without_backoff=True)
@pytest.mark.usefixtures("jobqueue_eager")
def test_eager_as_the_marker_says() -> None:
    Job.objects.enqueue("probe.boom")

    assert statuses() == [Status.DEAD, Status.DONE]  # the second one is the notice


def test_jobs_so_far(jobqueue_jobs: CapturedJobs) -> None:
    assert len(jobqueue_jobs) == 0
    job = Job.objects.enqueue("probe.ok")

    assert list(jobqueue_jobs) == [job]
    assert_enqueued("probe.ok", among=jobqueue_jobs)


@pytest.mark.django_db(transaction=True)
def test_jobs_where_transactions_commit(jobqueue_jobs: CapturedJobs, jobqueue_drain: Callable[..., Any]) -> None:
    job = Job.objects.enqueue("probe.ok")
    assert job is not None

    assert jobqueue_drain() == [(job.pk, Status.DONE)]
    assert (len(jobqueue_jobs), connection.in_atomic_block) == (1, False)


def test_travel(jobqueue_travel: Callable[..., None], jobqueue_drain: Callable[..., Any]) -> None:
    Job.objects.enqueue("probe.ok", run_after=timedelta(days=1))

    jobqueue_travel(timedelta(days=1))

    assert len(jobqueue_drain()) == 1


@pytest.mark.usefixtures("jobqueue_eager")
class EagerTests(TestCase):
    """A TestCase takes the fixture by a mark."""

    def test_eager(self) -> None:
        Job.objects.enqueue("probe.ok")

        assert statuses() == [Status.DONE]
        assert Group.objects.count() == 0


def test_nothing_of_it_stays(db: None) -> None:
    Job.objects.enqueue("probe.ok")

    assert statuses() == [Status.PENDING]
