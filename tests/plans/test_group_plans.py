"""Groups of dead letters read the newest of them by index, and each of those by its key."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobqueue.models import Job
from jobqueue.ops.dead_groups import dead_groups

from .test_plans import Explain, assert_good

pytestmark = pytest.mark.django_db


def test_groups_read_the_newest_dead_letters_only(explain: Explain) -> None:
    """Of 400 dead letters among 61,000 rows: the hundred newest, from the index and then by their ids."""
    with CaptureQueriesContext(connection) as queries:
        dead_groups(Job.objects.dead(), reach=100)

    counted, heads = (explain(query["sql"].replace("%", "%%"), {}) for query in queries)
    assert_good(counted, "jobqueue_job_finished", "jobqueue_job_pkey", limit=2 * 100, factor=1)
    assert_good(heads, "jobqueue_job_pkey", limit=7, factor=1)
