"""Helpers of the storage tests."""

from collections.abc import Callable
from typing import Any

import pytest
from pytest_django import Settings

from jobqueue.managers import Ending
from jobqueue.managers.settling import settle_ended
from jobqueue.models import Job
from jobqueue.outcomes import Outcome
from jobqueue.states import Status


@pytest.fixture
def leased(make_job: Callable[..., Job]) -> Callable[..., Job]:
    """Return the function that inserts a job leased to worker-1 under epoch 1."""

    def make(**fields: Any) -> Job:
        return make_job(status=Status.RUNNING, **fields)

    return make


@pytest.fixture
def end(db: None) -> Callable[..., int | None]:
    """Return the function that ends one attempt as the worker does; it returns the status after, None if refused."""

    def end_one(
        job: Job, *, outcome: Outcome = Outcome.FAILED, worker_id: str | None = None, **ending: Any
    ) -> int | None:
        item = Ending(job.pk, job.lease_epoch, outcome, **ending)
        return settle_ended(Job.objects.run_sql, worker_id=worker_id or job.worker_id or "", endings=[item]).get(job.pk)

    return end_one


@pytest.fixture
def quiet(settings: Settings) -> None:
    """Have no notifiers: a dead letter then enqueues no job that tells of it."""
    settings.JOBQUEUE = {**settings.JOBQUEUE, "NOTIFIERS": ()}
