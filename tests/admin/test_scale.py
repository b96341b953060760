"""The console over many rows: a hundred thousand dead letters retried by one click (case C130)."""

import time

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from jobqueue.models import Action, Job
from jobqueue.states import Status

from .conftest import DEAD, JOBS
from .test_acting import choose, hidden_fields

pytestmark = pytest.mark.django_db(transaction=True)

ROWS = """
INSERT INTO jobqueue_job (job_type, queue, status, attempts, lease_epoch, finished_at, outcome, last_error, error_class,
                          fingerprint)
SELECT 'probe.ok', CASE WHEN number <= 100000 THEN 'a' ELSE 'b' END, 4, 3, 3, statement_timestamp(), 2,
       'boom ' || number, 'builtins.RuntimeError', 'f' || number %% 7
  FROM generate_series(1, %s) AS number
"""


@pytest.mark.parametrize("timed", [False, pytest.param(True, marks=pytest.mark.faults)], ids=["all", "in-ten-seconds"])
def test_all_hundred_thousand_of_a_queue_are_retried(operator: Client, timed: bool) -> None:
    """C130. The times hold on a machine that does nothing else, so make test-faults alone asks for them."""
    with connection.cursor() as cursor:
        cursor.execute(ROWS, [120_000])
        cursor.execute("ANALYZE jobqueue_job")
    url, steps, slowest = f"{reverse(DEAD)}?queue=a", 0, 0.0
    began = time.monotonic()
    listed = operator.get(url)
    list_seconds = time.monotonic() - began
    one = listed.context["cl"].result_list[0]
    html = operator.post(url, choose("retry", one, across=True)).content.decode()
    assert "100000 jobs" in html

    began = time.monotonic()
    with CaptureQueriesContext(connection) as queries:
        while 'name="stop"' in html or not steps:
            step_began = time.monotonic()
            html = operator.post(url, hidden_fields(html)).content.decode()
            steps, slowest = steps + 1, max(slowest, time.monotonic() - step_began)
    seconds = time.monotonic() - began

    assert "100000 jobs were put back." in html
    assert Job.objects.filter(queue="a", status=Status.SCHEDULED).count() == 100_000
    assert Job.objects.filter(queue="b", status=Status.DEAD).count() == 20_000
    assert sum(len(ids) for ids in Action.objects.values_list("job_ids", flat=True)) == 100_000
    assert len(queries) < 100 * 12
    if timed:
        assert (slowest < 2, seconds < 10, list_seconds < 2) == (True, True, True), (slowest, seconds, list_seconds)
    assert operator.get(reverse(JOBS)).context["cl"].result_count == 10_000
