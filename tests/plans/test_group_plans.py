"""Groups of dead letters read the newest of them by index, and each of those by its key."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobqueue.models import Action, Job
from jobqueue.operations import Group
from jobqueue.ops.dead_group import group_actions, group_figures
from jobqueue.ops.dead_groups import dead_groups

from .test_plans import Explain, assert_good

pytestmark = pytest.mark.django_db


def test_groups_read_the_newest_dead_letters_only(explain: Explain) -> None:
    """Of 400 dead letters among 61,000 rows: the hundred newest, from the index and then by their ids."""
    with CaptureQueriesContext(connection) as queries:
        dead_groups(Job.objects.dead(), reach=100)

    counted, heads, _notes = (explain(query["sql"].replace("%", "%%"), {}) for query in queries)
    assert_good(counted, "jobqueue_job_finished", "jobqueue_job_pkey", limit=2 * 100, factor=1)
    assert_good(heads, "jobqueue_job_pkey", limit=7, factor=1)


def test_one_group_is_found_by_its_fingerprint(explain: Explain) -> None:
    """The newest ids from the index of fingerprints, then each by its key, however many jobs there are."""
    with CaptureQueriesContext(connection) as queries:
        group_figures(Job.objects.dead(), Group("f" * 16, "probe.ok"), reach=100)

    counted = explain(queries[1]["sql"].replace("%", "%%"), {})
    assert_good(counted, "jobqueue_job_dead", "jobqueue_job_pkey", limit=2 * 100, factor=1)


def test_what_was_done_to_a_group_is_found_by_its_name(explain: Explain) -> None:
    rows = [Action(actor="a", action="retry", job_ids=[1], subject=f"group:{number % 500}") for number in range(5_000)]
    Action.objects.bulk_create([*rows, *(Action(actor="a", action="retry", job_ids=[1]) for _ in range(5_000))])
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE jobqueue_action")

    with CaptureQueriesContext(connection) as queries:
        list(group_actions(Group("7", ""), using="default"))

    statement = queries[0]["sql"].replace("group:7/", "group:7").replace("%", "%%")
    assert_good(explain(statement, {}), "jobqueue_action_subject", limit=20, factor=1)
