"""The nine figures: right, capped, and answered in part when something is in the way."""

import json
import time
from collections.abc import Callable
from dataclasses import FrozenInstanceError, fields
from datetime import datetime, timedelta
from decimal import Decimal

import pytest
from django.db import OperationalError, connection

from jobqueue.managers import counting
from jobqueue.models import Job
from jobqueue.ops import snapshot as snapshots
from jobqueue.ops.snapshot import FIGURES, Snapshot
from jobqueue.outcomes import Outcome
from jobqueue.states import Status
from tests.connections import SecondConnection
from tests.factories import AttemptFactory, CostFactory, JobFactory, ago, ahead

pytestmark = pytest.mark.django_db

MakeJob = Callable[..., Job]


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each figure enough time on a machine that does other things, too."""
    monkeypatch.setattr(snapshots, "EACH", timedelta(seconds=5))
    monkeypatch.setattr(snapshots, "TOTAL", timedelta(seconds=20))


@pytest.mark.smoke
def test_an_empty_queue_has_nine_figures_that_are_zero() -> None:
    taken = Job.objects.ops()

    assert {name: getattr(taken, name) for name in FIGURES} == dict.fromkeys(FIGURES, 0)
    assert len(FIGURES) == 9
    assert (taken.capped, taken.unknown) == (frozenset(), frozenset())
    assert isinstance(taken.cost_1h_usd, Decimal)


def test_jobs_are_counted_by_status(make_job: MakeJob) -> None:
    for status, jobs in ((Status.PENDING, 5), (Status.RUNNING, 4), (Status.DONE, 3), (Status.DEAD, 2)):
        JobFactory.create_batch(jobs, status=status)
    make_job(status=Status.SCHEDULED)
    make_job(status=Status.CANCELLED)

    taken = Job.objects.ops()

    assert (taken.pending, taken.running, taken.done, taken.dead) == (5, 4, 3, 2)


def test_the_figures_of_the_last_hour_leave_out_what_is_older(make_job: MakeJob) -> None:
    make_job(status=Status.DEAD, finished_at=ago(3_590))
    make_job(status=Status.DEAD, finished_at=ago(3_610))
    AttemptFactory.create(outcome=Outcome.DEADLINE, finished_at=ago(3_590))
    AttemptFactory.create(outcome=Outcome.DEADLINE, finished_at=ago(3_610))
    AttemptFactory.create(outcome=Outcome.FAILED)
    Job.objects.filter(attempt_rows__isnull=False).update(status=Status.DONE)
    CostFactory.create(amount="0.25", at=ago(3_590))
    CostFactory.create(amount="5", at=ago(3_610))

    taken = Job.objects.ops()

    assert (taken.dead, taken.dead_1h, taken.deadline_1h, taken.cost_1h_usd) == (2, 1, 1, Decimal("0.25"))


def test_a_backlog_is_not_stuck_and_a_lost_job_is(make_job: MakeJob) -> None:
    """Case C140: stuck is measured from the start of the run, never from the enqueue."""
    JobFactory.create_batch(20, run_after=ago(9_000), created_at=ago(9_000))
    make_job(status=Status.RUNNING)
    assert Job.objects.ops().stuck_running == 0

    make_job(expired=True)

    assert Job.objects.ops().stuck_running == 1


def test_the_oldest_pending_job_is_measured_from_when_it_was_due(make_job: MakeJob) -> None:
    make_job(run_after=ago(30), created_at=ago(9_000), queue="b", priority=7)
    make_job(run_after=ago(100), queue="a")
    make_job(run_after=ahead(100), status=Status.SCHEDULED)

    assert Job.objects.ops().oldest_pending_sec == pytest.approx(100, abs=5)


def test_a_count_stops_at_the_cap_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "COUNT_CAP", 3)
    JobFactory.create_batch(3, status=Status.DONE)
    JobFactory.create_batch(4, status=Status.DEAD)

    taken = Job.objects.ops()

    assert (taken.done, taken.dead, taken.dead_1h) == (3, 3, 3)
    assert taken.capped == {"dead", "dead_1h"}


def test_a_figure_that_takes_too_long_is_unknown_and_the_others_answer(
    make_job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case C143: a partial answer instead of an exception."""
    monkeypatch.setattr(snapshots, "EACH", timedelta(milliseconds=200))
    monkeypatch.setattr(counting, "oldest_pending_seconds", _slow)
    make_job()

    taken = Job.objects.ops()

    assert taken.oldest_pending_sec is None
    assert taken.unknown == {"oldest_pending_sec"}
    assert (taken.pending, taken.cost_1h_usd) == (1, Decimal(0))


def _slow(run: object) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_sleep(30)")


def test_other_errors_of_the_database_are_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(run: object) -> None:
        raise OperationalError("the server is gone")

    monkeypatch.setattr(counting, "oldest_pending_seconds", fail)

    with pytest.raises(OperationalError, match="the server is gone"):
        Job.objects.ops()


@pytest.mark.django_db(transaction=True)
def test_with_the_table_locked_the_answer_is_partial_and_quick(
    make_job: MakeJob, second_connection: SecondConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case C143: somebody holds the table, such as a migration."""
    monkeypatch.undo()
    make_job()
    CostFactory.create(amount="0.5")
    second_connection.execute("LOCK TABLE jobqueue_attempt IN ACCESS EXCLUSIVE MODE")
    began = time.monotonic()

    taken = Job.objects.ops()

    assert time.monotonic() - began < 2
    assert "deadline_1h" in taken.unknown
    assert taken.pending == 1


def test_the_callers_transaction_keeps_its_own_settings() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL statement_timeout = '77s'")

        Job.objects.ops()

        cursor.execute("SELECT current_setting('statement_timeout'), current_setting('enable_seqscan')")
        assert cursor.fetchone() == ("77s", "on")


def test_a_snapshot_is_frozen_and_has_a_json_form() -> None:
    CostFactory.create(amount="0.00000012")

    taken = Job.objects.ops()

    with pytest.raises(FrozenInstanceError):
        taken.pending = 1  # type: ignore[misc]
    values = json.loads(json.dumps(taken.to_json()))
    assert list(values) == [*FIGURES, "at", "capped", "unknown"]
    assert values["cost_1h_usd"] == "0.00000012"
    assert datetime.fromisoformat(values["at"]).tzinfo is not None
    assert {one.name for one in fields(Snapshot)} == set(values)
