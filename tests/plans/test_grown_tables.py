"""What a worker's claims connection has planned once, while the table was small, when a bulk of jobs comes.

Nobody analyses the table before the first thousands of claims; where autovacuum is off, nobody ever does.
"""

from collections.abc import Callable
from datetime import timedelta
from functools import partial

import pytest
from django.db import connection, transaction

from jobqueue.conf import get_settings
from jobqueue.managers import Span, leasing
from jobqueue.managers.counting import pending_queues
from jobqueue.managers.rows import FIRST_KEY
from jobqueue.managers.sessions import BY_KEY
from jobqueue.worker.options import WorkerOptions
from jobqueue.worker.supervisor import Supervisor
from tests.plans.explaining import Plan, explain, planned

pytestmark = pytest.mark.django_db

SIZES = [0, 5, 40, 300, 3_000]
GROWN, FEW = 8_000, 10
LEASE = timedelta(seconds=60)
SEED = """
INSERT INTO jobqueue_job (job_type, queue, payload)
SELECT 'probe.ok', 'q', jsonb_build_object('n', n) FROM generate_series(1, %s) AS n
"""

Run = Callable[..., Plan]
STATEMENTS: dict[str, Callable[[Run], Plan]] = {
    "claim": lambda run: planned(run, leasing.claim, spans=[Span("q", FEW)], worker_id="w", lease=LEASE),
    "claim with a floor": lambda run: planned(
        run, leasing.claim, spans=[Span("q", FEW, 0, FIRST_KEY[1], 0, 0)], worker_id="w", lease=LEASE
    ),
    "release strays": lambda run: planned(run, leasing.release_strays, worker_id="w", held=[1, 2, 3]),
    "pending queues": lambda run: planned(run, pending_queues),
}


def fill(jobs: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute(SEED, [jobs])


@pytest.mark.parametrize("analysed", [True, False], ids=["analysed", "not analysed"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", STATEMENTS)
def test_a_plan_made_while_the_table_was_small_reads_no_more_when_it_has_grown(
    name: str, size: int, analysed: bool
) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("TRUNCATE jobqueue_job CASCADE")
        fill(size)
        if analysed:
            cursor.execute("ANALYZE jobqueue_job")
        for setting, value in BY_KEY.items():
            cursor.execute(f"SET LOCAL {setting} = {value}")

        plan = STATEMENTS[name](partial(explain, "generic", meanwhile=lambda: fill(GROWN)))
        transaction.set_rollback(True)

    assert "jobqueue_job" not in plan.scanned_whole, plan
    assert plan.touched <= 4 * FEW, plan


def test_only_the_connection_of_these_statements_plans_once() -> None:
    """The others' join a batch with the table, and want a plan for each."""
    worker = Supervisor(WorkerOptions.make(get_settings(), alias="default"))
    sessions = {
        "claims": worker.claimer.session,
        "settles": worker.settling.session,
        "renewals": worker.heartbeat.session,
    }

    modes = {name: session.run("SHOW plan_cache_mode")[0][0] for name, session in sessions.items()}
    for session in sessions.values():
        session.close()

    assert modes == {
        "claims": "force_generic_plan",
        "settles": "force_custom_plan",
        "renewals": "force_custom_plan",
    }
