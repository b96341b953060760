"""A real worker over rows that no verb would have written: it stays up, each row comes to an end or is explained."""

from collections.abc import Iterable
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from jobqueue.models import Attempt, Job
from jobqueue.states import FINISHED, Status
from tests.worker.effects import Effects
from tests.worker.kinds import Enqueue, Launch, WaitFor
from tests.worker.waiting import until

from .rows import insert, look_at_every_page
from .values import ROWS

COSTLY = 20  # two examples, or ten
QUICKLY = {
    "NOTIFIERS": "",
    "UNKNOWN_TYPE_RETRY_SECONDS": 0.1,
    "UNKNOWN_TYPE_DEAD_SECONDS": 0.3,
    "BACKOFF_BASE_SECONDS": 0.1,
    "BACKOFF_CAP_SECONDS": 0.1,
}
LEFT_ALONE = """
SELECT id, status, run_after::text, lease_until::text, lease_epoch, attempts, job_type, last_error
  FROM jobqueue_job AS job
 WHERE id = ANY (%s)
   AND (status = 1 /* PENDING: nobody has taken it */
        OR status = 5 AND run_after < statement_timestamp() - interval '3 s' /* SCHEDULED: nobody has promoted it */
        OR status = 2 AND COALESCE(lease_until, '-infinity') < statement_timestamp() - interval '3 s')
   AND NOT EXISTS (SELECT FROM jobqueue_attempt AS attempt WHERE attempt.job_id = job.id) /* tried: being tried again */
"""


def left_alone(ids: Iterable[int]) -> list[tuple[Any, ...]]:
    """Return the rows that should have been taken up and were not."""
    with connection.cursor() as cursor:
        cursor.execute(LEFT_ALONE, [list(ids)])
        return list(cursor.fetchall())


def is_explained(job: Job) -> bool:
    """Tell whether a row that has not ended says why: tried, its time is ahead, held, or of a status that is none."""
    tried = Attempt.objects.filter(job_id=job.pk).exists()
    return tried or job.status in (Status.SCHEDULED, Status.RUNNING, Status.WAITING) or job.status not in Status.values


@given(batch=st.lists(ROWS, min_size=10, max_size=30))
def _rows_come_to_an_end(batch: list[dict[str, Any]], worker: Any, client: Client, wait_for: WaitFor) -> None:
    ids = [pk for row in batch if (pk := insert(row)) is not None]
    good = Job.objects.enqueue("probe.echo", {"value": 7}, priority=32_767)
    assert good is not None

    assert wait_for(good, within=30).result == 7
    until(lambda: not left_alone(ids), within=30, what=lambda: f"{left_alone(ids)}\n{worker.log[-3000:]}")

    for job in Job.objects.filter(pk__in=ids).exclude(status__in=FINISHED):
        assert is_explained(job), vars(job)
    assert worker.code is None, worker.log[-5000:]
    look_at_every_page(client, ids[:3])
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM jobqueue_job WHERE id = ANY (%s)", [[*ids, good.pk]])
        cursor.execute("DELETE FROM jobqueue_attempt WHERE job_id = ANY (%s)", [ids])


def test_a_worker_outlives_every_row(
    launch: Launch, enqueue: Enqueue, wait_for: WaitFor, effects: Effects, admin_client: Client, effort: str
) -> None:
    """The good job beside them is done in time; afterwards the worker is the same process that it was."""
    worker = launch("--processes", "2", **QUICKLY)
    _rows_come_to_an_end._hypothesis_internal_use_settings = (  # type: ignore[attr-defined]
        test_a_worker_outlives_every_row._hypothesis_internal_use_settings  # type: ignore[attr-defined]
    )
    _rows_come_to_an_end(worker=worker, client=admin_client, wait_for=wait_for)
    wait_for(enqueue("ok"))
    assert "Traceback" not in worker.log
    assert pytest.approx(len(worker.children), abs=1) == 2
