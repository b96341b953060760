"""Lists of the console on a full table: what is narrowed by an index reads no more than it shows."""

import pytest
from django.contrib.admin import site
from django.contrib.auth.models import User
from django.db import connection
from django.test import RequestFactory
from django.test.utils import CaptureQueriesContext

from jobqueue import sql
from jobqueue.models import DeadLetter, Job
from jobqueue.ops.costly import failures_since

from .test_plans import Explain, assert_good

pytestmark = pytest.mark.django_db

RARE = """
INSERT INTO jobqueue_job (job_type, queue, status, finished_at, attempts)
SELECT CASE WHEN number % 1000 = 0 THEN 'rare' ELSE 'common' END,
       CASE WHEN number % 1000 = 1 THEN 'rare' ELSE 'common' END, 4,
       statement_timestamp() - make_interval(secs => number), 1
  FROM generate_series(1, 20000) AS number
"""

BULK = """
INSERT INTO jobqueue_job (job_type, queue, status, run_after, finished_at)
SELECT 'bulk', 'bulk', %s, %s, %s FROM generate_series(1, 20000)
RETURNING id
"""
BULK_AT = "2026-01-01T12:30:15+00:00"


@pytest.fixture
def dead_letters(full_table: None) -> None:
    """Add 20,000 dead letters, 20 of them of a rare type and 20 of a rare queue."""
    with connection.cursor() as cursor:
        cursor.execute(RARE)
        cursor.execute("ANALYZE jobqueue_job")


def rows_of(model: type[Job], query: dict[str, str]) -> str:
    """Return the statement that reads the first page of a list."""
    request = RequestFactory().get("/", query)
    request.user = User(username="anna", is_superuser=True, is_active=True)
    with CaptureQueriesContext(connection) as queries:
        site.get_model_admin(model).get_changelist_instance(request)
    return next(one["sql"] for one in queries.captured_queries if "error_head" in one["sql"]).replace("%", "%%")


@pytest.mark.parametrize(
    ("query", "index"),
    [
        ({"queue": "rare"}, "jobqueue_job_dead_queue"),
        ({"job_type": "rare"}, "jobqueue_job_dead_type"),
        ({"q": "type:rare"}, "jobqueue_job_dead_type"),
        ({}, "jobqueue_job_finished"),
    ],
)
def test_dead_letters_of_a_rare_queue_or_type_are_found_by_index(
    dead_letters: None, explain: Explain, query: dict[str, str], index: str
) -> None:
    assert_good(explain(rows_of(DeadLetter, query), {}), index, limit=100, factor=1)


@pytest.mark.parametrize(
    ("query", "index"),
    [
        ({}, "jobqueue_job_pkey"),
        ({"status__exact": "4"}, "jobqueue_job_finished"),
        ({"q": "status:scheduled"}, "jobqueue_job_scheduled"),
        ({"status__exact": "1", "queue": "q1"}, "jobqueue_job_claim"),
        ({"q": "status:running"}, "jobqueue_job_running"),
        ({"q": "id:5"}, "jobqueue_job_pkey"),
    ],
)
def test_jobs_are_read_in_the_order_of_an_index(
    dead_letters: None, explain: Explain, query: dict[str, str], index: str
) -> None:
    assert_good(explain(rows_of(Job, query), {}), index, limit=100, factor=1)


@pytest.mark.parametrize(
    ("status", "lookup", "index"),
    [("5", "run_after__gte", "jobqueue_job_scheduled"), ("4", "finished_at__lte", "jobqueue_job_finished")],
)
def test_what_lies_behind_a_row_of_a_bulk_is_where_its_index_begins(
    full_table: None, explain: Explain, status: str, lookup: str, index: str
) -> None:
    """20,000 jobs of one instant: those before the row are not walked past."""
    with connection.cursor() as cursor:
        cursor.execute(BULK, [status, BULK_AT, BULK_AT])
        ids = sorted(number for (number,) in cursor.fetchall())
        cursor.execute("ANALYZE jobqueue_job")
    query = {"status__exact": status, lookup: BULK_AT, "behind": str(ids[len(ids) // 2])}

    plan = explain(rows_of(Job, query), {})

    assert_good(plan, index, limit=100, factor=1)


def test_a_time_is_found_in_the_ids_by_some_twenty_rows(full_table: None, explain: Explain) -> None:
    plan = explain(sql.ID_AT, {"at": "2000-01-01 00:00:00+00"})

    assert_good(plan, "jobqueue_job_pkey", limit=40, factor=1)


def test_failures_that_cost_something_are_counted_off_by_their_own_index(full_table: None, explain: Explain) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO jobqueue_attempt (job_id, lease_epoch, number, worker_id, finished_at, outcome, cost)"
            " SELECT id, 1_000_000, 1, 'w', statement_timestamp(), 2, id % 10 FROM jobqueue_job"
        )
        cursor.execute("ANALYZE jobqueue_attempt")
        cursor.execute("SELECT statement_timestamp() - interval '1 hour'")
        (since,) = cursor.fetchone()

    with CaptureQueriesContext(connection) as queries:
        failures_since(since, using="default", most=50)

    assert_good(explain(queries[0]["sql"].replace("%", "%%"), {}), "jobqueue_attempt_cost", limit=60, factor=1)
