"""The figures of the overview: counted up to a cap, the worst first, unknown where they take too long."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from jobqueue import operations
from jobqueue.models import Budget, Incident, Job, Tick
from jobqueue.ops import overview
from jobqueue.ops.overview import STUCK, read_overview
from jobqueue.states import Status
from tests.connections import SecondConnection
from tests.factories import CostFactory, JobFactory, WorkerFactory, ago

pytestmark = pytest.mark.django_db

BUDGET = {"amount": "4", "unit": "USD", "per": "day", "at_limit": "alert"}


def test_jobs_are_counted_by_status_up_to_the_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "COUNT_CAP", 3)
    JobFactory.create_batch(5)
    JobFactory.create(status=Status.DEAD)
    JobFactory.create(status=Status.CANCELLED)

    counts = read_overview(["status"]).counts

    assert counts == {
        **dict.fromkeys((STUCK, *overview.COUNTED), 0),
        Status.PENDING: 4,
        Status.DEAD: 1,
        Status.CANCELLED: 1,
    }


def test_what_is_stuck_is_what_the_list_of_stuck_jobs_has(settings: Any) -> None:
    """The statement has the predicate of JobQuerySet.stuck() in words of its own."""
    settings.JOBQUEUE = {"STUCK_AFTER_SECONDS": 100, "LIMITS": {"probe.slow": {"duration": 1000}}}
    for job_type in ("probe.ok", "probe.slow", "gone.type"):
        for seconds in (50, 150, 1020, 1100):
            JobFactory.create(
                status=Status.RUNNING, job_type=job_type, run_started_at=ago(seconds), claimed_at=ago(seconds)
            )
            JobFactory.create(status=Status.RUNNING, job_type=job_type, claimed_at=ago(seconds))
    JobFactory.create(status=Status.RUNNING, lease_until=ago(1))

    counts = read_overview(["status"]).counts

    assert counts is not None
    assert counts[STUCK] == Job.objects.stuck().count() > 1
    assert counts[STUCK] < counts[Status.RUNNING]


def test_queues_come_by_their_longest_wait_with_those_that_are_paused() -> None:
    JobFactory.create(queue="young", run_after=ago(10))
    JobFactory.create(queue="old", run_after=ago(1000))
    operations.pause_queue("held", actor="test")
    WorkerFactory.create(queues=["old"])

    found = read_overview(["queues", "status"])

    assert found.queues is not None
    assert [(one.queue, one.workers, bool(one.paused)) for one in found.queues] == [
        ("old", 1, False),
        ("young", 0, False),
        ("held", 0, True),
    ]
    assert found.oldest_sec == pytest.approx(1000, abs=30)


def test_what_today_cost_stands_beside_the_budgets_as_maintenance_knows_them(settings: Any) -> None:
    settings.JOBQUEUE = {"BUDGETS": {"all": BUDGET, "over": BUDGET, "new": BUDGET}}
    now = timezone.now()
    for name, end in (("all", now + timedelta(hours=1)), ("over", now - timedelta(hours=1)), ("forgotten", now)):
        Budget.objects.create(
            name=name, window_start=now - timedelta(hours=9), window_end=end, unit="USD", amount=4, spent=3, level=0
        )
    CostFactory.create(amount="3")
    CostFactory.create(amount="7", unit="EUR")
    CostFactory.create(amount="100", at=ago(3 * 86_400))

    found = read_overview(["costs"])

    assert found.today == {"USD": 3, "EUR": 7}
    assert found.budgets is not None
    assert [(one.name, one.spent, one.share) for one in found.budgets] == [("all", 3, 0.75)]


def test_what_fires_comes_newest_first_and_one_more_tells_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "FIRING", 2)
    for number in range(4):
        Incident.objects.create(rule=f"rule-{number}", state=Incident.State.FIRING, fired_at=ago(100 - number))
    Incident.objects.create(rule="calm", state=Incident.State.RESOLVED)
    Incident.objects.create(rule="perhaps", state=Incident.State.PENDING)

    firing = read_overview(["alerts"]).firing

    assert firing is not None
    assert [one.rule for one in firing] == ["rule-3", "rule-2", "rule-1"]


def test_what_fires_is_read_with_when_somebody_looked_at_the_rules() -> None:
    """In one statement: with all parts the page has as many as it may have."""
    one = Incident.objects.create(rule="r", subject="s", text="t", state=Incident.State.FIRING, fired_at=ago(5))
    Tick.objects.create(name="alerts", at=ago(7))
    Tick.objects.create(name="budgets", at=ago(9_000))

    with CaptureQueriesContext(connection) as queries:
        found = read_overview(["alerts", "workers"])

    (first,) = found.firing or ()
    assert (first.pk, first.rule, first.subject, first.text) == (one.pk, "r", "s", "t")
    assert first.fired_at is not None
    assert found.look is not None
    assert found.look.age is not None
    assert (found.look.late, 7 <= found.look.age.total_seconds() < 60) == (False, True)
    assert sum("jobqueue_incident" in query["sql"] or "jobqueue_tick" in query["sql"] for query in queries) == 1


def test_nothing_is_read_but_what_is_asked_for() -> None:
    found = read_overview(["alerts"])

    assert found.firing == []
    assert (found.counts, found.queues, found.workers, found.groups, found.today, found.trend) == (None,) * 6


@pytest.mark.django_db(transaction=True)
def test_a_locked_table_leaves_its_parts_unknown_and_the_rest_stands(second_connection: SecondConnection) -> None:
    WorkerFactory.create()
    second_connection.execute("BEGIN")
    second_connection.execute("LOCK TABLE jobqueue_job IN ACCESS EXCLUSIVE MODE")

    found = read_overview(["status", "workers", "trend", "queues"])

    assert (found.counts, found.oldest_sec) == (None, None)
    assert found.workers is not None
    assert found.trend is not None
    assert found.trend.points is not None
