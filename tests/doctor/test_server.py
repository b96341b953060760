"""Faults of server, settings and tables, each made in the test's transaction and found."""

import time
from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.db import connection
from django.test import override_settings

from jobqueue.doctor import horizon, indexes, looking, server, vacuum, way
from jobqueue.models import Counter, Worker
from jobqueue.ops import limited
from tests.connections import SecondConnection
from tests.factories import CounterFactory, JobFactory, WorkerFactory

from .conftest import Found

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("worker")]
Examined = Callable[[], Found]


def execute(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


@pytest.mark.smoke
@pytest.mark.django_db(transaction=True)
def test_where_all_is_well_nothing_is_found_and_all_was_read(
    examined: Examined, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(way, "ECHO_SECONDS", 20)
    monkeypatch.setattr(server, "CLOCK_SECONDS", 20)
    JobFactory.create_batch(3)

    found = examined()

    assert [(finding.code, finding.subject, finding.text) for finding in found.diagnosis.findings] == []
    assert {check.name: check.status for check in found.diagnosis.checks if check.status != "ok"} == {}
    assert found.diagnosis.status == "ok"


def test_an_old_server(examined: Examined, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "OLDEST", 990_000)

    assert examined().one("engine_old").text.startswith("PostgreSQL ")


def test_migrations_that_are_missing_and_newer_ones(examined: Examined) -> None:
    execute("UPDATE django_migrations SET name = '0999_of_tomorrow' WHERE app = 'jobqueue' AND name LIKE '0010%'")

    found = examined()

    assert "0010_" in found.one("migrations_missing").text
    assert found.one("migrations_newer").text.endswith("0999_of_tomorrow")


def test_a_database_that_was_never_migrated(examined: Examined) -> None:
    """The first fault that a new project has: what no migration has made was not dropped by anybody."""
    execute("SET LOCAL search_path TO pg_catalog")  # where no table of ours is

    found = examined()

    assert "0001_initial" in found.one("migrations_missing").text
    assert found.codes == ["migrations_missing"]
    assert 'relation "jobqueue_job" does not exist' in found.check("types").unread


def test_settings_that_contradict_each_other(examined: Examined) -> None:
    with override_settings(JOBQUEUE={"BACKOFF_CAP_SECONDS": 1, "POLL_SECONDS": 600}):
        found = examined()

    assert "BACKOFF_CAP_SECONDS" in found.one("setting_error").text
    assert found.one("setting_error").subject == "jobqueue.E004"
    assert "POLL_SECONDS" in found.one("setting_warning").text


def test_clocks_that_differ(examined: Examined, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "time", SimpleNamespace(time=lambda: time.time() + 60))
    other: Worker = WorkerFactory.create(clock_skew_seconds=-5, hostname="web-3")

    found = examined()

    assert found.one("clock_host").text.startswith(("+60.0 s", "+59.9 s"))
    assert (found.one("clock_worker").subject, found.one("clock_worker").text[:6]) == (other.worker_id, "-5.0 s")


def test_autovacuum_switched_off_for_a_table(examined: Examined) -> None:
    execute("ALTER TABLE jobqueue_job SET (autovacuum_enabled = off)")

    assert examined().one("autovacuum_off").subject == "jobqueue_job"


def test_storage_parameters_that_are_gone_are_told_with_the_statement_that_sets_them(examined: Examined) -> None:
    execute(
        "ALTER TABLE jobqueue_job RESET (fillfactor); ALTER TABLE jobqueue_job SET (autovacuum_vacuum_threshold = 9)"
    )

    told = examined().one("storage_parameters")
    execute(told.text)

    assert told.text == "ALTER TABLE jobqueue_job SET (fillfactor = 85, autovacuum_vacuum_threshold = 5000)"
    assert "storage_parameters" not in examined().codes


def test_the_expected_storage_parameters_are_those_of_all_tables_that_have_any() -> None:
    assert {table: len(options) for table, options in vacuum.expected_options().items()} == {
        "jobqueue_job": 6,
        "jobqueue_worker": 3,
        "jobqueue_stat": 2,
    }


@pytest.mark.django_db(transaction=True)
def test_dead_rows_that_vacuum_leaves(examined: Examined, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vacuum, "DEAD_ROWS_LEAST", 100)
    CounterFactory.create_batch(150)
    Counter.objects.all().delete()
    execute("SELECT pg_stat_force_next_flush()")

    told = examined().one("dead_rows")

    assert told.subject == "jobqueue_counter"
    assert "150 dead of 0 live rows; autovacuum begins at 50" in told.text


def test_bloat_of_a_table_and_its_indexes(examined: Examined, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vacuum, "BLOAT_LEAST_BYTES", 50_000)
    Counter.objects.bulk_create([Counter(name="sessions", labels={}, amount=1)] * 5_000)
    execute("ANALYZE jobqueue_counter")
    assert not {"table_bloat", "index_bloat"} & {*examined().codes}

    Counter.objects.all()._raw_delete("default")
    execute("ANALYZE jobqueue_counter")
    found = examined()

    assert found.one("table_bloat").subject == "jobqueue_counter"
    assert "jobqueue_counter_pkey" in {each.subject for each in found.diagnosis.findings if each.code == "index_bloat"}


def test_indexes_that_are_broken_or_gone(examined: Examined) -> None:
    execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'jobqueue_job_cost'::regclass")
    execute("DROP INDEX jobqueue_job_scheduled")

    found = examined()

    assert found.one("index_invalid").subject == "jobqueue_job_cost"
    assert found.one("index_missing").subject == "jobqueue_job_scheduled"


def test_the_unique_constraints_are_among_the_expected_indexes() -> None:
    assert {"jobqueue_job_dedupe", "jobqueue_job_claim"} <= {*indexes.expected_indexes()}


@pytest.mark.django_db(transaction=True)
def test_who_holds_the_oldest_snapshot_without_what_it_asked(
    examined: Examined, second_connection: SecondConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(horizon, "LONG_SECONDS", 0)
    second_connection.execute("SELECT pg_current_xact_id(), 'hush-hush'")

    told = examined().one("horizon_session")

    assert told.subject == f"pid {second_connection.pid}"
    for part in ("application second_connection", "idle in transaction", "its statement began", "user "):
        assert part in told.text
    assert "hush" not in told.text


def test_what_a_role_may_not_read_leaves_the_other_checks_standing(examined: Examined) -> None:
    execute(
        "CREATE ROLE doctor_poor; GRANT SELECT ON jobqueue_worker, jobqueue_queue, django_migrations TO doctor_poor"
    )
    execute("GRANT USAGE ON SCHEMA public TO doctor_poor; SET LOCAL ROLE doctor_poor")

    found = examined()

    lacking = {each.subject: each.text for each in found.diagnosis.findings if each.code == "privilege_missing"}
    assert lacking["jobqueue_worker"] == "lacks INSERT, UPDATE, DELETE"
    assert lacking["jobqueue_job"] == "lacks SELECT, INSERT, UPDATE, DELETE, USAGE on jobqueue_job_id_seq"
    assert found.one("sees_less").kind.severity == "notice"
    assert "permission denied for table jobqueue_job" in found.check("types").unread
    assert found.check("types").status == "unread"
    assert found.check("migrations").status == found.check("indexes").status == "ok"


@pytest.mark.django_db(transaction=True)
def test_a_locked_table_is_not_waited_for(
    examined: Examined, second_connection: SecondConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looking, "LIMIT", timedelta(seconds=1))
    monkeypatch.setattr(limited, "LOCK_MILLISECONDS", 50)
    second_connection.execute("LOCK TABLE jobqueue_job IN ACCESS EXCLUSIVE MODE")

    found = examined()

    assert "waited for a lock" in found.check("types").unread
    assert found.check("workers").status == "ok"
    assert found.diagnosis.status == "unread"
