"""The snapshot's figures: right, capped, and answered in part when something is in the way."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import FrozenInstanceError, fields
from datetime import datetime, timedelta
from decimal import Decimal

import pytest
from django.db import connection

from jobqueue.managers import counting
from jobqueue.models import Job
from jobqueue.ops import counts, limited, queue_figures, reading
from jobqueue.ops.reading import DATABASE_PARTS, QUEUE_PARTS
from jobqueue.ops.snapshot import FIGURES, Snapshot
from jobqueue.outcomes import Outcome
from jobqueue.states import Status
from tests.connections import SecondConnection
from tests.factories import AttemptFactory, CostFactory, JobFactory, StatFactory, WorkerFactory, ago, ahead

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("patient")]

MakeJob = Callable[..., Job]
PARTS = {"workers", *QUEUE_PARTS, *DATABASE_PARTS}


@pytest.mark.smoke
def test_an_empty_queue_has_eleven_figures_that_are_zero() -> None:
    taken = Job.objects.ops()

    assert {name: getattr(taken, name) for name in FIGURES} == dict.fromkeys(FIGURES, 0)
    assert len(FIGURES) == 11
    assert (taken.capped, taken.unknown, taken.estimates) == (frozenset(), frozenset(), {})
    assert (taken.queues, taken.workers, taken.error) == ((), (), "")
    assert isinstance(taken.cost_1h_usd, Decimal)


def test_jobs_are_counted_by_status(make_job: MakeJob) -> None:
    wanted = ((Status.PENDING, 5), (Status.RUNNING, 4), (Status.SCHEDULED, 3), (Status.DEAD, 2))
    for status, jobs in wanted:
        JobFactory.create_batch(jobs, status=status)
    make_job(status=Status.CANCELLED)

    taken = Job.objects.ops()

    assert (taken.pending, taken.running, taken.scheduled, taken.dead) == (5, 4, 3, 2)


def test_done_comes_from_statistics_of_a_day_whatever_was_pruned(make_job: MakeJob) -> None:
    make_job(status=Status.DONE)  # as if older, or put in by hand
    StatFactory.create(jobs=7, at=ago(23 * 3_600))
    StatFactory.create(jobs=5, at=ago(3_600), span_seconds=900)
    StatFactory.create(jobs=100, at=ago(25 * 3_600))
    StatFactory.create(jobs=100, outcome=Outcome.FAILED)

    assert Job.objects.ops().done == 12


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


def test_the_packages_own_jobs_raise_no_alarm_about_themselves(make_job: MakeJob) -> None:
    own = make_job(status=Status.DEAD, queue="jobqueue", job_type="jobqueue.notify")
    AttemptFactory.create(job=own, outcome=Outcome.DEADLINE)

    taken = Job.objects.ops()

    assert (taken.dead, taken.dead_1h, taken.deadline_1h) == (0, 0, 0)


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
    monkeypatch.setattr(counts, "COUNT_CAP", 3)
    JobFactory.create_batch(3, status=Status.SCHEDULED)
    JobFactory.create_batch(4, status=Status.DEAD)

    taken = Job.objects.ops()

    assert (taken.scheduled, taken.dead, taken.dead_1h) == (3, 3, 3)
    assert taken.capped == {"dead", "dead_1h"}


def test_the_small_index_tells_about_how_many_a_capped_count_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts, "COUNT_CAP", 3)
    JobFactory.create_batch(50, status=Status.DEAD)
    JobFactory.create_batch(30, queue="long")
    JobFactory.create_batch(2, queue="short")
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE jobqueue_job")

    taken = Job.objects.ops()

    assert taken.estimates == {"dead": 50, "pending": 32}
    assert [(each.queue, each.depth, each.depth_capped, each.depth_estimate) for each in taken.queues] == [
        ("default", 0, False, None),
        ("long", 3, True, 30),
        ("short", 2, False, None),
    ]


def test_without_a_vacuum_or_analyze_nobody_knows_how_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts, "COUNT_CAP", 3)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE jobqueue_job")  # of no dead jobs
    JobFactory.create_batch(5, status=Status.DEAD)

    taken = Job.objects.ops()

    assert (taken.dead, taken.capped, taken.estimates) == (3, {"dead", "dead_1h"}, {})


def test_a_figure_that_takes_too_long_is_unknown_and_the_others_answer(
    make_job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case C143: a partial answer instead of an exception."""
    monkeypatch.setattr(reading, "EACH", timedelta(milliseconds=400))
    monkeypatch.setattr(counting, "oldest_pending_seconds", _slow)
    make_job()

    taken = Job.objects.ops()

    assert taken.oldest_pending_sec is None
    assert taken.unknown == {"oldest_pending_sec"}
    assert (taken.pending, taken.cost_1h_usd) == (1, Decimal(0))


def _slow(run: object) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_sleep(30)")


def test_a_read_that_fails_is_unknown_told_in_the_log_and_spoils_no_other(
    make_job: MakeJob, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As between a deploy and its migration, or without the right to read a view of the server."""
    monkeypatch.setattr(counting, "oldest_pending_seconds", _wrong)
    make_job()

    taken = Job.objects.ops()

    assert (taken.unknown, taken.error, taken.pending) == ({"oldest_pending_sec"}, "", 1)
    assert 'relation "nowhere" does not exist' in caplog.text


def _wrong(run: object) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM nowhere")


def test_where_the_times_are_too_many_the_rates_are_told_without_percentiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "EACH", timedelta(milliseconds=400))
    monkeypatch.setattr(queue_figures, "read_ended", _slow)
    StatFactory.create(jobs=9, wait_buckets=[3] * 9)
    StatFactory.create(jobs=3, outcome=Outcome.FAILED)

    taken = Job.objects.ops()

    (queue,) = taken.queues
    assert (taken.unknown, queue.failure_rate, queue.wait_p50_sec) == ({"queues.times"}, 0.25, None)
    assert queue.done_per_sec == pytest.approx(9 / 900)


@pytest.mark.django_db(transaction=True)
def test_when_the_connection_is_lost_the_rest_is_unknown(make_job: MakeJob, monkeypatch: pytest.MonkeyPatch) -> None:
    """Case C143: what was read before stands, and the next one connects again."""
    monkeypatch.setattr(counting, "oldest_pending_seconds", _lose_the_connection)
    make_job()

    taken = Job.objects.ops()
    monkeypatch.undo()

    assert (taken.pending, taken.oldest_pending_sec) == (1, None)
    assert taken.unknown == {"oldest_pending_sec", *QUEUE_PARTS} - {"queues.paused"}
    assert "terminating connection" in taken.error
    assert Job.objects.ops(fresh=True).error == ""


def _lose_the_connection(run: object) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")


@pytest.mark.django_db(transaction=True)
def test_with_the_database_down_everything_is_unknown_and_nothing_raises() -> None:
    """Case C143."""
    with nobody_listening():
        taken = Job.objects.ops()

    assert taken.unknown == {*FIGURES, *PARTS}
    assert {getattr(taken, name) for name in FIGURES} == {None}
    assert (taken.queues, taken.workers, taken.database.tables) == ((), (), ())
    assert "refused" in taken.error
    values = taken.to_json()
    assert (values["reachable"], values["pending"]) == (False, None)
    assert "127.0.0.1" not in json.dumps(values)


@contextmanager
def nobody_listening() -> Iterator[None]:
    """Have Django's connection go to a port at which there is no server."""
    connection.close()
    port = connection.settings_dict["PORT"]
    connection.settings_dict["PORT"] = "1"
    try:
        yield
    finally:
        connection.settings_dict["PORT"] = port


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("table", "unknown"),
    [
        ("jobqueue_attempt", {"deadline_1h", "database.sizes"}),
        ("jobqueue_cost", {"cost_1h_usd", "database.sizes"}),
        ("jobqueue_worker", {"workers", "database.sizes"}),
        ("jobqueue_queue", {"queues.paused", "database.sizes"}),
        ("jobqueue_stat", {"done", "queues.statistics", "queues.times", "database.sizes"}),
        (
            "jobqueue_job",
            {"pending", "running", "scheduled", "dead", "dead_1h", "stuck_running", "oldest_pending_sec"}
            | {"queues.depth", "queues.arrivals", "database.sizes"},
        ),
    ],
)
def test_with_a_table_locked_the_answer_is_partial_and_quick(
    table: str,
    unknown: set[str],
    make_job: MakeJob,
    second_connection: SecondConnection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Case C143: somebody holds a table, such as a migration; a lock is waited for once, not at each read."""
    monkeypatch.setattr(limited, "LOCK_MILLISECONDS", 200)
    make_job()
    WorkerFactory.create()
    Job.objects.ops(fresh=True)
    second_connection.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
    began = time.monotonic()

    taken = Job.objects.ops(fresh=True)

    assert time.monotonic() - began < 3
    assert taken.unknown - {"deadline_1h"} == unknown - {"deadline_1h"}
    assert ("deadline_1h" in taken.unknown) == (table in ("jobqueue_attempt", "jobqueue_job"))
    assert taken.error == ""


@pytest.mark.django_db(transaction=True)
def test_all_reads_together_have_an_end(
    make_job: MakeJob, second_connection: SecondConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case C143: with every table locked, the whole takes no longer than it may."""
    monkeypatch.undo()
    Job.objects.ops(fresh=True)
    for table in ("job", "attempt", "stat", "cost", "worker", "queue"):
        second_connection.execute(f"LOCK TABLE jobqueue_{table} IN ACCESS EXCLUSIVE MODE")
    began = time.monotonic()

    taken = Job.objects.ops(fresh=True)

    assert time.monotonic() - began < 1.5  # 0.28 s, and what a busy machine adds
    assert {"pending", "dead", "done", "workers"} <= taken.unknown
    assert taken.database.oldest_snapshot_sec is not None


@pytest.mark.parametrize("timeout", ["77s", "500ms"])
def test_the_callers_transaction_keeps_its_own_settings(timeout: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL statement_timeout = '{timeout}'; SET LOCAL lock_timeout = '33s'")

        assert Job.objects.ops().unknown == frozenset()

        cursor.execute(
            "SELECT current_setting('statement_timeout'), current_setting('enable_seqscan'),"
            " current_setting('lock_timeout')"
        )
        assert cursor.fetchone() == (timeout, "on", "33s")


def test_a_snapshot_is_frozen_and_has_a_json_form(make_job: MakeJob) -> None:
    CostFactory.create(amount="0.00000012")
    make_job(queue="mail")
    WorkerFactory.create(queues=["mail"], gauges=[{"name": "ports", "labels": {}, "value": 27}])

    taken = Job.objects.ops()

    with pytest.raises(FrozenInstanceError):
        taken.pending = 1  # type: ignore[misc]
    values = json.loads(json.dumps(taken.to_json(), allow_nan=False))
    assert list(values)[: len(FIGURES)] == list(FIGURES)
    assert {one.name for one in fields(Snapshot)} - {"error"} | {"reachable"} == set(values)
    assert values["cost_1h_usd"] == "0.00000012"
    assert datetime.fromisoformat(values["at"]).tzinfo is not None
    assert [(each["queue"], each["depth"], each["workers"]) for each in values["queues"]] == [("mail", 1, 1)]
    assert values["workers"][0]["gauges"] == [{"name": "ports", "labels": {}, "value": 27}]
    assert values["database"]["tables"][0]["table"] == "jobqueue_job"


def test_the_moment_is_the_databases(make_job: MakeJob) -> None:
    before = _now()

    taken = Job.objects.ops()

    assert before <= taken.at <= _now()


def _now() -> datetime:
    with connection.cursor() as cursor:
        cursor.execute("SELECT statement_timestamp()")
        now: datetime = cursor.fetchone()[0]
        return now
