"""Figures past their retention are deleted, a batch of each kind at a time, and nothing else is."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, models
from pytest_django import Settings

from jobqueue.maintenance.figures import PruneFigures
from jobqueue.managers import moving
from jobqueue.models import Cost, Counter, Incident, Job, Stat
from jobqueue.outcomes import Outcome
from tests.factories import ago

pytestmark = pytest.mark.django_db

DAY = 86_400
Make = Callable[..., models.Model]


def make_stat(age: float, **fields: Any) -> Stat:
    given = {"queue": "q", "job_type": "t", "outcome": Outcome.DONE, "jobs": 1} | fields
    seconds = {"wait_seconds": 0, "run_seconds": 0, "cpu_seconds": 0}
    return Stat.objects.create(at=ago(age), **{"span_seconds": 900} | seconds | given)


def make_cost(age: float, **fields: Any) -> Cost:
    given = {"queue": "q", "job_type": "t", "unit": "USD", "amount": 1, "span_seconds": 900} | fields
    return Cost.objects.create(at=ago(age), **given)


def make_counter(age: float, **fields: Any) -> Counter:
    return Counter.objects.create(at=ago(age), **{"name": "sessions", "amount": 1, "span_seconds": 900} | fields)


def make_incident(age: float, **fields: Any) -> Incident:
    given = {"rule": "dead_1h", "subject": str(age), "state": Incident.State.RESOLVED, "resolved_at": ago(age)} | fields
    return Incident.objects.create(broken_since=ago(age), **given)


KINDS: dict[str, tuple[Make, type[models.Model]]] = {
    "stats": (make_stat, Stat),
    "costs": (make_cost, Cost),
    "counters": (make_counter, Counter),
    "incidents": (make_incident, Incident),
}


def prune(limit: int = 100) -> dict[str, int]:
    return moving.prune_figures(Job.objects.run_sql, age=timedelta(days=10), limit=limit)


KEPT: dict[str, Callable[[], Any]] = {
    "a young statistics row": lambda: make_stat(9 * DAY),
    "a young cost": lambda: make_cost(9 * DAY),
    "a young counter": lambda: make_counter(9 * DAY),
    "a young incident": lambda: make_incident(9 * DAY),
    "statistics not folded yet": lambda: make_stat(11 * DAY, span_seconds=0),
    "a cost not folded yet": lambda: make_cost(11 * DAY, span_seconds=0),
    "a counter not folded yet": lambda: make_counter(11 * DAY, span_seconds=0),
    "a firing incident": lambda: make_incident(11 * DAY, state=Incident.State.FIRING),
    "an incident resolved lately": lambda: make_incident(11 * DAY, resolved_at=ago(9 * DAY)),
}


@pytest.mark.parametrize("name", KEPT)
def test_only_folded_rows_and_resolved_incidents_past_the_age_are_deleted(name: str) -> None:
    """Guards: the age, the span, the state of an incident and the age of its end."""
    KEPT[name]()
    for make, _ in KINDS.values():
        make(12 * DAY)

    assert prune() == dict.fromkeys(KINDS, 1)

    assert sum(model._default_manager.count() for _, model in KINDS.values()) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_takes_the_oldest_first(kind: str) -> None:
    """Guards: ORDER BY and LIMIT, where no index sorts the rows by luck."""
    make, model = KINDS[kind]
    rows = [make(age * DAY) for age in (11, 13, 12)]
    with connection.cursor() as cursor:
        for way in ("indexscan", "indexonlyscan", "bitmapscan"):
            cursor.execute(f"SET LOCAL enable_{way} = off")

    assert prune(limit=1)[kind] == 1
    assert set(model._default_manager.values_list("pk", flat=True)) == {rows[0].pk, rows[2].pk}
    assert prune(limit=1)[kind] == 1
    assert model._default_manager.get() == rows[0]


def test_the_service_goes_on_at_once_while_a_batch_is_full() -> None:
    for age in (400, 410, 420):
        make_stat(age * DAY)
    service = PruneFigures(Job.objects.run_sql)

    done = [(service.run_once(limit=2)["stats"], service.more) for _ in range(2)]

    assert done == [(2, True), (1, False)]


def test_thirteen_months_are_kept_unless_told(settings: Settings) -> None:
    make_stat(395 * DAY)
    service = PruneFigures(Job.objects.run_sql)
    assert service.run_once()["stats"] == 0

    settings.JOBQUEUE = {**settings.JOBQUEUE, "RETENTION_STATISTICS_SECONDS": 394 * DAY}

    assert service.run_once()["stats"] == 1


def test_figures_may_be_kept_for_good(settings: Settings) -> None:
    make_stat(4_000 * DAY)
    settings.JOBQUEUE = {**settings.JOBQUEUE, "RETENTION_STATISTICS_SECONDS": None}

    assert PruneFigures(Job.objects.run_sql).run_once() == {}
    assert Stat.objects.count() == 1
