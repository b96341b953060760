"""What the page of one job asks reads by key, and of the jobs ahead of it no more than it counts."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from jobqueue import sql
from jobqueue.models import Job
from jobqueue.ops.related import REACH, related
from jobqueue.states import Status

from .test_plans import Explain, assert_good

pytestmark = pytest.mark.django_db

CAP = 100


def test_the_jobs_ahead_are_read_by_the_claims_index_and_to_the_cap(explain: Explain) -> None:
    """5,000 due jobs are in the queue, nearly all of them ahead of this one."""
    last = Job.objects.filter(status=Status.PENDING, queue="q1").order_by("-priority", "-run_after", "-id").first()

    plan = explain(sql.WAITING_JOB, {"id": last.pk, "workers": 10, "cap": CAP})

    assert_good(plan, "jobqueue_job_claim", "jobqueue_job_pkey", limit=CAP + 1, factor=1)


def test_how_a_running_job_stands_is_read_by_its_key(explain: Explain) -> None:
    running = Job.objects.filter(status=Status.RUNNING).first()

    plan = explain(sql.RUNNING_JOB, {"id": running.pk})

    assert_good(plan, "jobqueue_job_pkey", limit=1, factor=1)


def test_an_edit_reads_its_row_by_its_key(explain: Explain) -> None:
    dead = Job.objects.filter(status=Status.DEAD).first()

    plan = explain(
        sql.EDIT_PAYLOAD,
        {"id": dead.pk, "payload": "{}", "payload_bytes": 2, "updated_at": timezone.now(), "lease_epoch": 3},
    )

    assert_good(plan, "jobqueue_job_pkey", limit=1, factor=2)


def test_related_jobs_are_read_within_reach_and_by_the_indexes_of_keys(explain: Explain) -> None:
    """Nobody else has its owner, so all ids within reach are read: of 61,000 rows."""
    dead = Job.objects.filter(status=Status.DEAD, dedupe_key__isnull=False).earliest("pk")
    dead.owner = "nobody else"
    with CaptureQueriesContext(connection) as queries:
        related(dead, Job.objects.all())

    # The page reads it so (ops.limited.Budget): the planner would rather read a table of this size as a whole.
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
    plan = explain(queries[0]["sql"].replace("%", "%%"), {})

    assert_good(
        plan, "jobqueue_job_pkey", "jobqueue_job_dedupe", "jobqueue_job_dead_key", limit=2 * REACH + 10, factor=1
    )
