"""The procedure of an enqueue in autocommit mode: insert, commit, wake in one round trip; and its fallback."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.db import IntegrityError, connection, connections

from jobqueue import sql
from jobqueue.managers import inserting
from jobqueue.models import Job
from jobqueue.states import Status
from tests.connections import SecondConnection, Watcher
from tests.factories import ago

pytestmark = pytest.mark.django_db(transaction=True)

Heard = Callable[[], list[str]]
MakeWorker = Callable[..., Any]


@pytest.fixture
def idle(make_worker: MakeWorker) -> Any:
    """A worker of all queues that sleeps."""
    return make_worker(idle=True, queues=["*"])


def test_a_wake_up_that_fails_within_the_procedure_leaves_the_job_enqueued() -> None:
    """Guard: the exception block behind the procedure's COMMIT. A caller who saw an error would enqueue again."""
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE jobqueue_worker RENAME TO somewhere_else")
    try:
        job = Job.objects.enqueue("probe.ok")
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE somewhere_else RENAME TO jobqueue_worker")

    assert Job.objects.get(pk=job.pk).status == Status.PENDING


def test_an_enqueue_in_autocommit_is_one_round_trip(idle: Any, heard: Heard, django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(1):
        Job.objects.enqueue("probe.ok", dedupe_key="k")
    with django_assert_num_queries(1):
        assert Job.objects.enqueue("probe.ok", dedupe_key="k") is None

    assert heard() == ["default"]


def test_the_instance_has_the_instants_of_its_row_in_the_connections_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections["default"], "timezone", ZoneInfo("Asia/Seoul"))
    try:
        with connection.cursor() as cursor:
            cursor.execute("SET TIME ZONE 'Asia/Seoul'")
        job = Job.objects.enqueue("probe.ok")
        row = Job.objects.get(pk=job.pk)
    finally:
        connection.close()  # its session keeps the zone

    assert (job.created_at, job.updated_at, job.run_after) == (row.created_at, row.updated_at, row.run_after)
    assert job.created_at.tzinfo == row.created_at.tzinfo == ZoneInfo("Asia/Seoul")


def test_code_of_the_release_before_calls_the_procedure_that_it_knows(idle: Any, heard: Heard) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "CALL jobqueue_enqueue_due('probe.ok', 'default', 0, '{}', 2, NULL, '', 3, 'jobqueue', NULL, NULL, NULL)"
        )
        job_id, created_at = cursor.fetchone()

    assert Job.objects.get(pk=job_id).created_at == created_at
    assert heard() == ["default"]


def test_an_idle_mark_made_while_the_enqueue_commits_is_seen(
    heard: Heard, make_worker: MakeWorker, second_connection: SecondConnection, watcher: Watcher
) -> None:
    """Guard: the procedure looks after its COMMIT. A worker marks itself idle after the insert and before the commit:
    its last claim has found nothing, so a look before the commit would lose the wake-up."""
    worker = make_worker(queues=["default"])
    with connection.cursor() as cursor:
        cursor.execute(
            """
            CREATE FUNCTION wait_at_commit() RETURNS trigger LANGUAGE plpgsql AS
            $$BEGIN PERFORM pg_advisory_xact_lock(4711); RETURN NULL; END$$;
            CREATE CONSTRAINT TRIGGER wait_at_commit AFTER INSERT ON jobqueue_job DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION wait_at_commit();
            """
        )
    second_connection.execute("SELECT pg_advisory_xact_lock(4711)")

    def enqueue() -> Any:
        try:
            return Job.objects.enqueue("probe.ok")
        finally:
            connection.close()

    try:
        with ThreadPoolExecutor(1) as thread:
            enqueueing = thread.submit(enqueue)
            watcher.wait_until_any_blocked(by=second_connection.pid)
            type(worker).objects.filter(pk=worker.pk).update(idle_since=ago(0))
            second_connection.commit()
            assert enqueueing.result(5)
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP FUNCTION wait_at_commit CASCADE")

    assert heard() == ["default"]


def test_within_a_transaction_begun_by_plain_sql_nothing_is_committed() -> None:
    """Guard: the driver's word on the transaction; Django does not know of such a BEGIN."""
    with connection.cursor() as cursor:
        cursor.execute("BEGIN")
        Job.objects.enqueue("probe.ok")
        cursor.execute("ROLLBACK")

    assert Job.objects.count() == 0


def test_without_the_procedure_two_statements_do_the_same(
    idle: Any, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables made without migrations have no procedure."""
    monkeypatch.setattr(inserting, "_without_procedure", set())
    monkeypatch.setattr(sql, "ENQUEUE_DUE_JOB", sql.ENQUEUE_DUE_JOB.replace("jobqueue_enqueue(", "no_such("))

    jobs = [Job.objects.enqueue("probe.ok", {"n": n}) for n in range(2)]

    assert [Job.objects.get(pk=job.pk).payload for job in jobs] == [{"n": 0}, {"n": 1}]
    assert heard() == ["default", "default"]
    assert inserting._without_procedure == {"default"}


def test_another_error_of_the_procedure_is_the_callers() -> None:
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE jobqueue_job ADD CONSTRAINT poison CHECK (owner <> 'poison')")
    try:
        with pytest.raises(IntegrityError, match="poison"):
            Job.objects.enqueue("probe.ok", owner="poison")
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE jobqueue_job DROP CONSTRAINT poison")

    assert Job.objects.enqueue("probe.ok")


def test_a_role_that_may_not_execute_the_procedure_enqueues_all_the_same(
    idle: Any, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A grant for the procedure of an older release does not cover this one's."""
    monkeypatch.setattr(inserting, "_without_procedure", set())
    with connection.cursor() as cursor:
        role = connection.ops.quote_name(f"{connection.settings_dict['NAME']}_clerk"[:63])
        procedure = "jobqueue_enqueue(text, text, int, text, int, text, text, int, text, bigint, bigint)"
        cursor.execute(f"CREATE ROLE {role}")
        try:
            cursor.execute(f"REVOKE EXECUTE ON PROCEDURE {procedure} FROM PUBLIC")
            for kind in ("TABLES", "SEQUENCES"):
                cursor.execute(f"GRANT ALL ON ALL {kind} IN SCHEMA public TO {role}")
            cursor.execute(f"SET ROLE {role}")
            job = Job.objects.enqueue("probe.ok")
        finally:
            cursor.execute("RESET ROLE")
            cursor.execute(f"GRANT EXECUTE ON PROCEDURE {procedure} TO PUBLIC")
            cursor.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")

    assert Job.objects.get(pk=job.pk).status == Status.PENDING
    assert heard() == ["default"]
