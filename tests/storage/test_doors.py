"""One job, many jobs, the async twin and the test kit: every door takes and refuses the same (cases C145, C146)."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import pytest
from asgiref.sync import async_to_sync
from django.utils import timezone
from django.utils.translation import gettext_lazy

from jobqueue.exceptions import PayloadError
from jobqueue.models import Action, Job
from jobqueue.states import Status
from jobqueue.testing import run_once

pytestmark = pytest.mark.django_db


class Colour(Enum):
    RED = 1


def by_enqueue(payload: dict[str, Any] | None = None, **options: Any) -> Job | None:
    return Job.objects.enqueue("probe.echo", payload, **options)


def by_enqueue_many(payload: dict[str, Any] | None = None, **options: Any) -> Job | None:
    return Job.objects.enqueue_many([{"job_type": "probe.echo", "payload": payload, **options}])[0]


def by_get_or_enqueue(payload: dict[str, Any] | None = None, **options: Any) -> Job | None:
    return Job.objects.get_or_enqueue("probe.echo", payload, dedupe_key="k", **options)[0]


def by_aenqueue(payload: dict[str, Any] | None = None, **options: Any) -> Job | None:
    return async_to_sync(Job.objects.aenqueue)("probe.echo", payload, **options)


def by_aenqueue_many(payload: dict[str, Any] | None = None, **options: Any) -> Job | None:
    return async_to_sync(Job.objects.aenqueue_many)([{"job_type": "probe.echo", "payload": payload, **options}])[0]


DOORS = [by_enqueue, by_enqueue_many, by_get_or_enqueue, by_aenqueue, by_aenqueue_many]
Door = Callable[..., Any]


@pytest.mark.parametrize("door", DOORS)
def test_a_time_ahead_is_kept_to_the_second(door: Door) -> None:
    """C145: aware, or a timedelta; the test kit leaves it until it is due."""
    moment = timezone.now() + timedelta(seconds=5)

    job = door(run_after=moment)

    assert (job.status, job.run_after) == (Status.SCHEDULED, moment)
    assert run_once() == []
    Job.objects.filter(pk=job.pk).update(run_after=timezone.now() - timedelta(seconds=1))
    assert run_once() == [(job.pk, Status.DONE)]


@pytest.mark.parametrize("door", DOORS)
def test_a_delay_counts_from_the_databases_now(door: Door) -> None:
    job = door(run_after=timedelta(seconds=5))

    assert abs((job.run_after - job.created_at).total_seconds() - 5) < 0.001


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("when", [timedelta(days=-1), datetime(2020, 1, 1, tzinfo=UTC)], ids=str)
def test_the_past_runs_now(door: Door, when: Any) -> None:
    job = door(run_after=when)

    assert job.status == Status.PENDING
    assert run_once() == [(job.pk, Status.DONE)]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("when", [datetime(2026, 1, 1), datetime(9999, 12, 31, tzinfo=UTC)], ids=["naive", "too far"])
def test_a_naive_or_an_unreadable_time_is_refused(door: Door, when: Any) -> None:
    with pytest.raises(ValueError, match="run_after must be"):
        door(run_after=when)

    assert not Job.objects.exists()


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    "value",
    [
        *(datetime(2026, 1, 1, tzinfo=UTC), date(2026, 1, 1), Decimal(1), UUID(int=1), timedelta(1), {1}, b"x"),
        *(Colour.RED, gettext_lazy("jobs"), Action()),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_json_is_refused_at_the_enqueue_with_its_path(door: Door, value: Any) -> None:
    """C146: at every door, before any SQL; so a test fails where production would."""
    with pytest.raises(PayloadError) as caught:
        door({"a": [{"b": value}]})

    assert caught.value.path.startswith("$.a[0].b")
    assert not Job.objects.exists()


@pytest.mark.parametrize("door", DOORS)
def test_tuples_come_back_as_lists_for_the_handler_too(door: Door) -> None:
    """C146: the test kit gives the handler what a worker would."""
    job = door({"value": (1, ("a",))})

    assert run_once() == [(job.pk, Status.DONE)]
    assert Job.objects.get(pk=job.pk).result == [1, ["a"]]
